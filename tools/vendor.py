"""Fetch the explorer's libraries from the npm registry into the package: `python -m tools.vendor`.

Run it after changing a version in `PACKAGES`. The files are committed, so nobody who installs or
builds the package needs npm; `test_explorer.py` compares them with the list that this writes.
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "abilities" / "explorer" / "static" / "vendor"
LIST = FOLDER / "vendored.json"
PACKAGES = {
    "d3-hierarchy@3.1.3": {
        "dist/d3-hierarchy.min.mjs": "d3-hierarchy.js",
        "LICENSE": "d3-hierarchy.LICENSE.txt",
    },
    "htm@3.1.1": {"preact/standalone.module.js": "htm-preact.js", "LICENSE": "htm.LICENSE.txt"},
    "preact@10.5.13": {"LICENSE": "preact.LICENSE.txt"},  # htm's file contains it
    "swagger-ui-dist@5.35.0": {
        "swagger-ui-bundle.js": "swagger-ui-bundle.js",
        "swagger-ui.css": "swagger-ui.css",
        "LICENSE": "swagger-ui.LICENSE.txt",
        "NOTICE": "swagger-ui.NOTICE.txt",
        "swagger-ui-bundle.js.LICENSE.txt": "swagger-ui-bundle.LICENSE.txt",
    },
}
"""Which files of which packages are needed, and their names here."""


def main() -> int:
    """Fetch everything anew."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()

    hashes = {package: fetch_package(package, names) for package, names in PACKAGES.items()}
    LIST.write_text(json.dumps(hashes, indent=2) + "\n")

    print(f"Wrote {sum(map(len, hashes.values()))} files and {LIST.name}.")
    return 0


def fetch_package(package: str, names: dict[str, str]) -> dict[str, str]:
    """Put the files of a package in place; return the SHA-256 of each by its name here."""
    hashes: dict[str, str] = {}

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["npm", "pack", "--silent", "--pack-destination", folder, package],
            check=True,
            capture_output=True,
            text=True,
        )
        archive_name = done.stdout.split()[-1]

        with tarfile.open(Path(folder) / archive_name) as archive:
            for source, name in names.items():
                member = archive.extractfile(f"package/{source}")
                assert member is not None, source

                content = member.read()
                (FOLDER / name).write_bytes(content)
                hashes[name] = hashlib.sha256(content).hexdigest()

    return hashes


if __name__ == "__main__":
    sys.exit(main())
