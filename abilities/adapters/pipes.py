"""Lines over pipes, none of which blocks the loop. What waits on either side is bounded.

A pipe is read when it has something, and a line that an empty pipe has room for is written at once.
Files that cannot be watched, and pipes that are full, have a thread. Threads are daemons: a
blocking read or write can neither be cancelled nor delay the end of the process.
"""

import asyncio
import fcntl
import os
import select
import shutil
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

MAX_LINE = 1024 * 1024
"""Bytes of one incoming line; a longer one is skipped."""
TOO_LONG = b""
"""Stands for a line over the limit; a line that was read is never empty."""

_READ_AHEAD = 64
"""Lines that are read before anybody takes the first of them."""
_WRITE_AHEAD = 16
"""Lines that are accepted before the first of them is written."""
_CHUNK_BYTES = 64 * 1024
_HANG_UP_SECONDS = 1.0
"""How often a reader that is not read from looks whether the other side is still there."""
_HANG_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # a socket may be closed by half


class LineReader:
    """Reads the lines of a descriptor, a bounded number of them ahead.

    ``ended`` is set when no more input can come, even if lines of it are not read yet.
    """

    def __init__(self, descriptor: int) -> None:
        self.ended = asyncio.Event()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._splitter = LineSplitter()
        self._is_paused = False

        try:
            self._loop.add_reader(descriptor, self._receive)
        except OSError:  # a file, for example, which nobody can watch
            self._descriptor = _pump(descriptor)
            self._loop.add_reader(self._descriptor, self._receive)

        self._poll = select.poll()
        self._poll.register(self._descriptor, _HANG_UP)

    async def read(self) -> bytes | None:
        """Return the next line, or None at the end of the input."""
        line = await self._lines.get()
        if self._is_paused and self._has_room():
            self._is_paused = False
            self._loop.add_reader(self._descriptor, self._receive)

        return line

    def _receive(self) -> None:
        """Read what is there, or the end."""
        try:
            chunk = os.read(self._descriptor, _CHUNK_BYTES)  # does not block: nobody else reads it
        except BlockingIOError:
            return
        except OSError:  # a terminal or a socket that has gone
            chunk = b""

        for line in self._splitter.split(chunk):
            self._lines.put_nowait(line)

        if not chunk:
            self._loop.remove_reader(self._descriptor)
            self._lines.put_nowait(None)
            self.ended.set()
        elif not self._has_room():
            self._loop.remove_reader(self._descriptor)
            self._is_paused = True
            self._look_for_end()

    def _has_room(self) -> bool:
        return self._lines.qsize() < _READ_AHEAD

    def _look_for_end(self) -> None:
        """Look now and then, as long as nothing is read, whether more can come."""
        if not self._is_paused or self.ended.is_set():
            return

        if any(events & _HANG_UP for _, events in self._poll.poll(0)):
            self.ended.set()
        else:
            self._loop.call_later(_HANG_UP_SECONDS, self._look_for_end)


class LineSplitter:
    """Splits the chunks of an input into lines without their ends, and without blank ones.

    A line over the limit becomes `TOO_LONG`, and is never held in memory as a whole.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._is_skipping = False

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a chunk; an empty one ends the last line."""
        *ends, rest = chunk.split(b"\n")
        if not chunk:
            ends.append(rest)

        for end in ends:
            self._line += end

            if self._is_skipping or len(self._line) > MAX_LINE:
                yield TOO_LONG
            elif self._line.strip():
                yield bytes(self._line)

            self._line = bytearray()
            self._is_skipping = False

        self._line += rest
        if len(self._line) > MAX_LINE:
            self._line = bytearray()
            self._is_skipping = True


def _pump(source: int) -> int:
    """Return a pipe that a thread fills from a descriptor."""
    reading, writing = os.pipe()
    threading.Thread(
        target=_copy, args=(source, writing), name="abilities-stdin", daemon=True
    ).start()
    return reading


def _copy(source: int, target: int) -> None:
    """Copy a descriptor to its end into another one, and close that."""
    with (
        suppress(OSError),
        os.fdopen(target, "wb") as pipe,
        os.fdopen(source, "rb", closefd=False) as file,
    ):
        shutil.copyfileobj(file, pipe)


class LineWriter:
    """Writes lines to a descriptor, in order. ``count`` grows with every piece that was taken."""

    def __init__(self, descriptor: int) -> None:
        self.count = 0
        self._descriptor = descriptor
        self._capacity = _measure_pipe(descriptor)
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_WRITE_AHEAD)
        self._unwritten = 0
        self._failed = asyncio.Event()
        self._lines: deque[bytes] = deque()
        self._has_lines = threading.Semaphore(0)

        threading.Thread(target=self._write_lines, name="abilities-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line, as soon as the lines before it leave room. Raises BrokenPipeError."""
        await self._room.acquire()

        if self._failed.is_set():
            self._room.release()  # for whoever waits as well
            raise BrokenPipeError

        data = line + b"\n"
        if self._can_write_now(len(data)):
            self._write_now(data)
            return

        self._unwritten += 1
        self._lines.append(data)
        self._has_lines.release()

    def _can_write_now(self, size: int) -> bool:
        """Return whether so many bytes can be written without a wait: the pipe is empty."""
        return (
            not self._unwritten and size <= self._capacity and not _count_unread(self._descriptor)
        )

    def _write_now(self, data: bytes) -> None:
        """Write a line without the thread, which would have to be woken. Raises BrokenPipeError."""
        try:
            self._write_line(data)
        except OSError:
            self._failed.set()
            raise BrokenPipeError from None
        finally:
            self._room.release()

    async def flush(self) -> None:
        """Wait until all lines are written. Raises BrokenPipeError."""
        for _ in range(_WRITE_AHEAD):
            await self._room.acquire()

        for _ in range(_WRITE_AHEAD):
            self._room.release()

        if self._failed.is_set():
            raise BrokenPipeError

    async def wait_for_failure(self) -> None:
        """Wait until nobody reads any more. Raises BrokenPipeError then."""
        await self._failed.wait()
        raise BrokenPipeError

    def _write_lines(self) -> None:
        while True:
            self._has_lines.acquire()

            try:
                self._write_line(self._lines.popleft())
            except OSError:
                # Whoever waits for room must learn of it.
                _notify(self._loop, self._failed.set)
                _notify(self._loop, self._settle)
                return

            if not _notify(self._loop, self._settle):
                return

    def _settle(self) -> None:
        """Make room for another line, because one is written."""
        self._unwritten -= 1
        self._room.release()

    def _write_line(self, line: bytes) -> None:
        remaining = memoryview(line)

        while remaining:
            written = os.write(self._descriptor, remaining[:_CHUNK_BYTES])
            remaining = remaining[written:]
            self.count += 1


def _measure_pipe(descriptor: int) -> int:
    """Return how many bytes an empty pipe takes; 0 for anything else, and if it is not known."""
    if not hasattr(fcntl, "F_GETPIPE_SZ"):
        return 0

    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    except OSError:
        return 0


def _count_unread(descriptor: int) -> int:
    """Return how many bytes in a pipe wait for its reader."""
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def _notify(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *values: object) -> bool:
    """Call something in a loop; return False if the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(call, *values)
    except RuntimeError:  # it is closed
        return False

    return True
