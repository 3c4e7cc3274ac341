"""Code in a process of its own that imports everything anew."""

import subprocess
import sys
from typing import Any

from tests.support.waiting import GIVE_UP_SECONDS


def run_code(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run code with arguments and options of `subprocess.run`; it must end, and without errors."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": GIVE_UP_SECONDS, **options}
    done = subprocess.run(command, **options)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done
