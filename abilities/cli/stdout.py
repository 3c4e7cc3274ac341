"""Keeping stdout for what a command prints itself; plugins print to stderr instead.

Programs read JSON from stdout, and a plugin may print while it is imported, while it is called, and
after that, until the process ends.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO


def claim_stdout() -> TextIO:
    """Return a stream to stdout; from now on everything else that is printed goes to stderr."""
    stdout = sys.stdout
    if _is_process_stdout(stdout):
        stdout.flush()
        stdout = os.fdopen(os.dup(1), "w", encoding=stdout.encoding, errors=stdout.errors)
        # The descriptor, because subprocesses and C libraries print there.
        os.dup2(2, 1)

    sys.stdout = sys.stderr
    return stdout


@contextmanager
def divert_stdout() -> Generator[None]:
    """Send everything that is printed during a block to stderr."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)

    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(descriptor, 1)
        os.close(descriptor)


@contextmanager
def silence_stderr() -> Generator[None]:
    """Drop everything that is printed to stderr during a block."""
    sys.stderr.flush()
    descriptor = os.dup(2)

    try:
        with Path(os.devnull).open("w") as nothing, redirect_stderr(nothing):
            os.dup2(nothing.fileno(), 2)
            yield
    finally:
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _is_process_stdout(stream: TextIO) -> bool:
    """Return whether a stream is the process's own stdout, and not what a program put there."""
    try:
        return stream.fileno() == 1
    except OSError:
        return False
