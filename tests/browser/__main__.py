"""Try the explorer in Chromium, and install Chromium first if it is missing and that is allowed.

``--keep`` copies the screenshots into the documentation.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SCREENSHOTS = ROOT / ".browser"


def main() -> int:
    """Run the browser tests and return pytest's exit status, or 2 without Chromium."""
    chromium = os.environ.get("ABILITIES_CHROMIUM") or find_chromium()
    if chromium is None:
        print("Chromium is not installed. Run: sudo apt-get install chromium")
        print("Or name another one in ABILITIES_CHROMIUM.")
        return 2

    environment = {**os.environ, "ABILITIES_CHROMIUM": chromium, "ABILITIES_TEST_BROWSER": "1"}
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--no-header"]
    command += ["-p", "no:cacheprovider", str(HERE)]
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode

    if status == 0 and "--keep" in sys.argv:
        for screenshot in SCREENSHOTS.glob("explorer-*.png"):
            shutil.copy(screenshot, ROOT / "docs")

    return status


def find_chromium() -> str | None:
    """Return Chromium's path; if it is missing, install Debian's if this user may."""
    if shutil.which("chromium") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Chromium ...", flush=True)

        # If either fails, the missing Chromium is reported.
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
        subprocess.run(install, check=False)

    return shutil.which("chromium")


if __name__ == "__main__":
    sys.exit(main())
