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
    chromium = os.environ.get("ABILITIES_CHROMIUM") or shutil.which("chromium")
    chromium = chromium or _install_chromium()

    if chromium is None:
        print("Chromium is not installed. Run: sudo apt-get install chromium")
        print("Or name another one in ABILITIES_CHROMIUM.")
        return 2

    status = _run_tests(chromium)
    if status == 0 and "--keep" in sys.argv:
        for screenshot in SCREENSHOTS.glob("explorer-*.png"):
            shutil.copy(screenshot, ROOT / "docs")

    return status


def _run_tests(chromium: str) -> int:
    environment = {**os.environ, "ABILITIES_CHROMIUM": chromium, "ABILITIES_TEST_BROWSER": "1"}
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--no-header"]
    command += ["-p", "no:cacheprovider", str(HERE)]

    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def _install_chromium() -> str | None:
    """Install Debian's Chromium if this user may, and return its path."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Chromium ...", flush=True)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]

        # If either fails, the missing Chromium is reported.
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(install, check=False)

    return shutil.which("chromium")


if __name__ == "__main__":
    sys.exit(main())
