"""Processes that are forked from one that has imported the package already.

A process spends half a second of processor time on the imports of a store, and more on those of a
server. These run the same code without that, and have connections and files of their own. Where a
test is about how a process starts, it starts a real one.
"""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import chdir
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

COMMAND_LINE = "import runpy; runpy.run_module('abilities', run_name='__main__', alter_sys=True)"

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "abilities.cli.main",
    "tests.stores.behaviours",
    "abilities.helpers.store.postgres.store",
    "abilities.adapters.mcp",
    "abilities.adapters.stdio",
    "abilities.server.app",
    "abilities.server.telemetry",
    "abilities.server.connections",
    "uvicorn",
    "tests.support.forked",
)

# The libraries of macOS do not bear to be forked.
_CONTEXT: Any = multiprocessing.get_context("spawn" if sys.platform == "darwin" else "forkserver")
_CONTEXT.set_forkserver_preload(list(IMPORTED))


class Forked:
    """A process that runs code with arguments; it is used as one of subprocess.Popen is.

    Its output is not buffered here: what is not read line by line is there for communicate().
    Its errors go where those of the tests go, or into a file.
    """

    def __init__(
        self,
        code: str,
        *arguments: object,
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
        errors: Path | None = None,
    ) -> None:
        _start_parent()
        child_input, self._input = _CONTEXT.Pipe(duplex=False)
        self._output, child_output = _CONTEXT.Pipe(duplex=False)
        words = ["-c", *map(str, arguments)]
        place = (dict(os.environ if variables is None else variables), folder or Path.cwd(), errors)

        self._process = _CONTEXT.Process(
            target=_run, args=(child_input, child_output, code, words, *place), daemon=True
        )
        self._process.start()
        self.pid: int = self._process.pid
        self.stdin = io.FileIO(self._input.fileno(), "w", closefd=False)
        self.stdout = io.FileIO(self._output.fileno(), closefd=False)
        child_input.close()
        child_output.close()

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it; None before."""
        code: int | None = self._process.exitcode
        return code

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code. Raises TimeoutExpired after so many seconds."""
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[bytes, None]:
        """Close its input, wait for its end, and return the rest of its output.

        Raises TimeoutExpired after so many seconds. Nothing is left for a second call.
        """
        if self._output.closed:
            return b"", None

        end = None if timeout is None else time.monotonic() + timeout
        self._input.close()
        output = bytearray()
        while True:
            left = None if end is None else max(0, end - time.monotonic())
            if not wait([self._output], left):
                raise subprocess.TimeoutExpired("a forked process", timeout or 0, bytes(output))
            part = os.read(self._output.fileno(), 65_536)
            if not part:
                break
            output += part

        self._output.close()
        self.wait(timeout)
        return bytes(output), None


def _start_parent() -> None:
    """Start the process that imports and forks, unless it runs; it finds the tests from here."""
    with chdir(ROOT):
        if _CONTEXT.get_start_method() == "forkserver":
            forkserver.ensure_running()


def _run(
    child_input: Connection,
    child_output: Connection,
    code: str,
    words: list[str],
    variables: dict[str, str],
    folder: Path,
    errors: Path | None,
) -> None:
    os.dup2(child_input.fileno(), 0)
    os.dup2(child_output.fileno(), 1)
    child_input.close()
    child_output.close()
    if errors is not None:
        with errors.open("wb") as file:
            os.dup2(file.fileno(), 2)

    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.argv = words
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)

    exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
