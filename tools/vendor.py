"""Fetch the browser's libraries from the npm registry into the package: `make vendor`, after a change of versions here.

They are committed, so that nobody who installs or builds the package needs npm; `test_explorer.py` holds the files
against the list that this writes.
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PLACE = Path(__file__).parent.parent / "abilities" / "explorer" / "static" / "vendor"
LIST = PLACE / "vendored.json"
PACKAGES = {
    "d3-hierarchy@3.1.3": {
        "dist/d3-hierarchy.min.mjs": "d3-hierarchy.js",
        "LICENSE": "d3-hierarchy.LICENSE.txt",
    },
    "htm@3.1.1": {"preact/standalone.module.js": "htm-preact.js", "LICENSE": "htm.LICENSE.txt"},
    "preact@10.5.13": {"LICENSE": "preact.LICENSE.txt"},  # htm's file holds it
    "swagger-ui-dist@5.35.0": {
        "swagger-ui-bundle.js": "swagger-ui-bundle.js",
        "swagger-ui.css": "swagger-ui.css",
        "LICENSE": "swagger-ui.LICENSE.txt",
        "NOTICE": "swagger-ui.NOTICE.txt",
        "swagger-ui-bundle.js.LICENSE.txt": "swagger-ui-bundle.LICENSE.txt",
    },
}
"""Which files of which packages, and what they are called here."""


def main() -> int:
    """Fetch everything anew."""
    PLACE.mkdir(exist_ok=True)
    for path in PLACE.iterdir():
        path.unlink()
    found = {package: _fetched(package, names) for package, names in PACKAGES.items()}
    LIST.write_text(json.dumps(found, indent=2) + "\n")
    print(f"Wrote {sum(map(len, found.values()))} files and {LIST.name}.")
    return 0


def _fetched(package: str, names: dict[str, str]) -> dict[str, str]:
    """Put a package's files in place; their names here with the hashes of what they hold."""
    with tempfile.TemporaryDirectory() as folder:
        pack = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        archive = (
            Path(folder)
            / subprocess.run(pack, check=True, capture_output=True, text=True).stdout.split()[-1]
        )
        with tarfile.open(archive) as packed:
            for source, name in names.items():
                member = packed.extractfile(f"package/{source}")
                assert member is not None, source
                (PLACE / name).write_bytes(member.read())
    return {
        name: hashlib.sha256((PLACE / name).read_bytes()).hexdigest() for name in names.values()
    }


if __name__ == "__main__":
    sys.exit(main())
