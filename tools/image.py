"""Build the image of the server from this checkout: `python -m tools.image`."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "examples" / "service" / "Containerfile"
ENGINES = ("podman", "docker", "buildah")
TAG = "agent-abilities"


def main() -> int:
    engine = find_engine()
    if engine is None:
        print(f"No engine answers; install one of {', '.join(ENGINES)}.", file=sys.stderr)
        return 1

    return subprocess.run(build_command(engine)).returncode


def find_engine() -> str | None:
    """Return the first engine that is installed and answers; a client without a server does not."""
    for name in ENGINES:
        if shutil.which(name) is None:
            continue

        if subprocess.run([name, "info"], capture_output=True).returncode == 0:
            return name

    return None


def build_command(engine: str) -> list[str]:
    """Return the command that builds the image; its context is the whole checkout."""
    return [engine, "build", "--tag", TAG, "--file", str(RECIPE), str(ROOT)]


if __name__ == "__main__":
    sys.exit(main())
