"""`abilities serve` in a process of its own, as tests start and stop it."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from abilities import Settings
from tests.support.surfaces import environment

_FIRST = re.compile(
    r"Serving (http://(.+):(\d+))/api and \1/mcp, and the explorer at \1/ - press Ctrl-C to stop\.\n"
)


class Server(NamedTuple):
    """A running server: its process, its address, and the file with what it says on stderr."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    def stop(self) -> str:
        """End it as a supervisor does, and return all that it said after its first line."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) in (0, -signal.SIGTERM)
        said = self.log.read_text().partition("\n")[2]
        assert "Traceback" not in said
        return said


@contextmanager
def serving(settings: Settings, folder: Path, *options: str) -> Iterator[Server]:
    """A server at a free port; ``folder`` is its home and has its log. Stopped in the end, if it still runs."""
    command = [sys.executable, "-m", "abilities", "serve", "--port", "0", *options]
    given = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment(settings)}
    log = folder / f"server-{time.monotonic_ns()}.log"
    with (
        log.open("wb") as said,
        subprocess.Popen(command, env=given, stderr=said, cwd=folder) as process,
    ):
        try:
            yield Server(process, _address(process, log), log)
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + 60
    while "\n" not in (said := log.read_text()):
        assert process.poll() is None and time.monotonic() < end, said
        time.sleep(0.02)
    found = _FIRST.match(said)
    assert found, said
    return f"http://127.0.0.1:{found[3]}" if found[2] == "0.0.0.0" else found[1]
