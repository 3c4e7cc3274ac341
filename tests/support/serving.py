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

_FIRST_LINE = re.compile(
    r"Serving (http://(.+):(\d+))/api and \1/mcp, and the explorer at \1/"
    r" - press Ctrl-C to stop\.\n"
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

        log = self.log.read_text().partition("\n")[2]
        assert "Traceback" not in log
        return log


@contextmanager
def serving(
    settings: Settings, folder: Path, *options: str, descriptors: int | None = None
) -> Iterator[Server]:
    """Serve at a free port, and kill the server in the end if it still runs.

    ``folder`` is the server's home and holds its log; ``descriptors`` limits its open files.
    """
    command = [sys.executable, "-m", "abilities", "serve", "--port", "0", *options]
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]

    variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment(settings)}
    log = folder / f"server-{time.monotonic_ns()}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=variables, stderr=output, cwd=folder) as process,
    ):
        try:
            yield Server(process, _wait_for_address(process, log), log)
        finally:
            process.kill()


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + 60
    text = log.read_text()
    while "\n" not in text:
        assert process.poll() is None and time.monotonic() < end, text
        time.sleep(0.02)
        text = log.read_text()

    first_line = _FIRST_LINE.match(text)
    assert first_line, text

    address, host, port = first_line.groups()
    if host == "0.0.0.0":
        return f"http://127.0.0.1:{port}"

    return str(address)
