"""Install Chromium where it is missing, and try the explorer in it; ``--keep`` keeps the pictures for the documents."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PICTURES = ROOT / ".browser"


def main() -> int:
    """Run the browser's tests; the exit status is pytest's, or 2 where there is no Chromium."""
    chromium = os.environ.get("ABILITIES_CHROMIUM") or shutil.which("chromium") or _installed()
    if chromium is None:
        print(
            "Chromium is not installed; run: sudo apt-get install chromium (or name one in ABILITIES_CHROMIUM)"
        )
        return 2
    given = {**os.environ, "ABILITIES_CHROMIUM": chromium, "ABILITIES_TEST_BROWSER": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-n",
        "2",
        "--no-header",
        "-p",
        "no:cacheprovider",
        str(HERE),
    ]
    status = subprocess.run(command, cwd=ROOT, env=given).returncode
    if status == 0 and "--keep" in sys.argv:
        for picture in PICTURES.glob("explorer-*.png"):
            shutil.copy(picture, ROOT / "docs")
    return status


def _installed() -> str | None:
    """Debian's Chromium, installed where this user may do that."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Chromium ...", flush=True)
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], check=False
        )
    return shutil.which("chromium")


if __name__ == "__main__":
    sys.exit(main())
