"""A terminal of any width, and commands that are run on one."""

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Mapping
from typing import TextIO

from tests.support.forked import COMMAND_LINE, Forked

ON_TERMINAL = f"""
import os, sys
sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(":"))
terminal = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_NOCTTY)
os.write(1, b".")
os.dup2(terminal, 1)
os.dup2(terminal, 2)
os.close(terminal)
{COMMAND_LINE}
"""
"""The command line on the terminal that its first argument names."""

_STYLE = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")


class Terminal:
    """A terminal with so many columns, or with no size; `stream` writes to it."""

    def __init__(self, columns: int = 0) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.stream: TextIO = os.fdopen(theirs, "w")

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)
        if not self.stream.closed:
            self.stream.close()

    def read(self) -> str:
        """Return all that is written until nobody has the terminal open any more."""
        self.stream.close()
        printed = b""

        while True:
            try:
                chunk = os.read(self._ours, 65536)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            printed += chunk
        return printed.decode().replace("\r\n", "\n")


def run_on_terminal(*arguments: str, variables: Mapping[str, str], columns: int = 0) -> str:
    """Return what a command prints on a terminal, stdout and stderr, without its colors."""
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}

    with Terminal(columns) as terminal:
        place = os.ttyname(terminal.stream.fileno())
        more = {**variables, "TERM": "xterm"}
        process = Forked(ON_TERMINAL, place, *arguments, variables={**inherited, **more})
        assert process.stdout.read(1), "it has the terminal open"
        printed = terminal.read()
        process.wait(60)
    return _STYLE.sub("", printed)
