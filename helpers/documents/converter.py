"""Convert documents in processes that can do nothing else: the program of the converter.

The converter is started once. For every document it forks a process, which reads the one
descriptor that it was sent, writes text to another one, and ends. So the readers are imported once,
a document that crashes or hangs affects no other, and none sees what another contained.

Of such a process is guaranteed:

- It ends after `SECONDS`, writes at most `MAX_TEXT_BYTES`, and on Linux has at most `MEMORY_BYTES`.
- It has no environment and no descriptor but its two and /dev/null, and can write to no file.
- Python opens only modules for it, creates no sockets, and starts no programs.
- It ends with the converter, and the converter with the process that started it.
- On Linux it has no network, unless the kernel denies namespaces to ordinary users.
"""

import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import Any, cast

from abilities.helpers.documents.reader import Reader, TextWriter

SECONDS = 8
"""Time for one document. A call has 10 seconds, and so still gets the outcome."""

MEMORY_BYTES = 512 * 1024 * 1024

MAX_TEXT_BYTES = 4_000_000
"""The most text of one document; no reply has as much."""

WHOLE = b"\0whole"
"""Ends the text of a document that was converted to its end."""

_REQUEST_BYTES = 256  # the place of the reader, and spaces

_CLONE_NEWUSER, _CLONE_NEWNET, _PR_SET_PDEATHSIG = 0x1000_0000, 0x4000_0000, 1
_FIRST_FREE_DESCRIPTOR = 3

_MODULES = (".py", ".pyc", ".so")
_REFUSED_EVENTS = ("ctypes.", "os.", "shutil.", "signal.", "socket.", "subprocess.")


def load_reader(place: str) -> Reader:
    """Return the reader at a place such as ``package.module:NAME``. Raises what its module does."""
    module, _, name = place.partition(":")
    return cast(Reader, attrgetter(name)(import_module(module)))


def send_request(channel: socket.socket, place: str, document: int, output: int) -> None:
    """Let a reader read one descriptor and write to another. Raises OSError."""
    socket.send_fds(channel, [place.encode().ljust(_REQUEST_BYTES)], [document, output])


def serve(descriptor: int, places: Sequence[str], seconds: int) -> None:
    """Serve requests over a socket until the other end is closed.

    ``seconds`` is the time for one document.
    """
    channel = socket.socket(fileno=descriptor)
    readers: dict[str, Reader] = {}
    for place in places:
        with suppress(Exception):  # then only its documents cannot be read
            reader = load_reader(place)
            for name in reader.imports:
                import_module(name)
            readers[place] = reader

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all of its processes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that no ended process stays
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)

    libc: Any = None
    if sys.platform == "linux":
        import ctypes  # not needed where only the constants are

        libc = ctypes.CDLL(None)
        libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)

    # Otherwise the collector of each process would copy the memory that it shares.
    gc.collect()
    gc.freeze()

    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, _REQUEST_BYTES, 2)
        if not request:
            return

        if not os.fork():
            try:
                signal.alarm(seconds)  # ends the process, whatever it is doing
                _limit(resource.RLIMIT_CPU, seconds)
                if libc is not None:
                    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

                document, output = descriptors
                os.dup2(document, 0)
                os.dup2(output, 1)
                os.closerange(_FIRST_FREE_DESCRIPTOR, 256)
                sys.addaudithook(_refuse_event)
                _convert(readers[request.decode().rstrip()])
            finally:
                os._exit(0)

        for each in descriptors:
            os.close(each)


def _limit(kind: int, limit: int) -> None:
    with suppress(OSError, ValueError):  # a lower limit may already be set
        resource.setrlimit(kind, (limit, limit))


def _convert(reader: Reader) -> None:
    """Write the text of the document at the standard input to the standard output."""
    writer = TextWriter()
    size = 0

    with os.fdopen(0, "rb") as stream:
        stream.seek(0)
        for mark, text in reader.convert(stream):
            raw = memoryview(writer.format(mark, text))
            size += len(raw)
            if size > MAX_TEXT_BYTES:
                raw = raw[: len(raw) - (size - MAX_TEXT_BYTES)]

            while raw:
                raw = raw[os.write(1, raw) :]
            if size > MAX_TEXT_BYTES:
                return

    os.write(1, WHOLE)


def _refuse_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what no reader needs. Python calls this for each of its audit events.

    Raises PermissionError.
    """
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, int):  # one of the two descriptors
            return

        # A module that is imported late.
        is_module = str(path).startswith(tuple(sys.path)) and str(path).endswith(_MODULES)
        if is_module and not flags & (os.O_WRONLY | os.O_RDWR):
            return
    elif event == "os.listdir" or not event.startswith(_REFUSED_EVENTS):
        return

    raise PermissionError(event)
