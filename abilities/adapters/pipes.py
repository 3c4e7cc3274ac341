"""Lines over pipes, none of which blocks the loop. What waits on either side is bounded.

A thread reads and another one writes: a descriptor may be a pipe, a socket, a terminal or a file,
not all of which can be watched. Threads are daemons: a blocking read or write can neither be
cancelled nor delay the end of the process.
"""

import asyncio
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator

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
        self._room = threading.Semaphore(_READ_AHEAD)

        threading.Thread(target=self._read_lines, name="abilities-stdin", daemon=True).start()

    async def read(self) -> bytes | None:
        """Return the next line, or None at the end of the input."""
        line = await self._lines.get()
        self._room.release()
        return line

    def _read_lines(self) -> None:
        splitter = LineSplitter()
        is_open = True

        while is_open:
            chunk = self._read_chunk()
            is_open = bool(chunk)
            for line in splitter.split(chunk):
                self._wait_for_room()
                is_open &= _notify(self._loop, self._lines.put_nowait, line)

        _notify(self._loop, self._lines.put_nowait, None)
        _notify(self._loop, self.ended.set)

    def _read_chunk(self) -> bytes:
        """Return what is there when something is, or nothing at the end."""
        while True:
            try:
                return os.read(self._descriptor, _CHUNK_BYTES)
            except BlockingIOError:  # made so by somebody who shares the descriptor
                _watch(self._descriptor, select.POLLIN).poll()
            except OSError:  # a terminal or a socket that has gone
                return b""

    def _wait_for_room(self) -> None:
        """Wait until a line is taken, and look now and then whether more can come."""
        hang_up = _watch(self._descriptor, _HANG_UP)

        while not self._room.acquire(timeout=_HANG_UP_SECONDS):
            if any(events & _HANG_UP for _, events in hang_up.poll(0)):
                _notify(self._loop, self.ended.set)


def _watch(descriptor: int, events: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, events)
    return poll


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


class LineWriter:
    """Writes lines to a descriptor, in order. ``count`` grows with every piece that was taken."""

    def __init__(self, descriptor: int) -> None:
        self.count = 0
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_WRITE_AHEAD)
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

        self._lines.append(line + b"\n")
        self._has_lines.release()

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
                _notify(self._loop, self._room.release)
                return

            if not _notify(self._loop, self._room.release):
                return

    def _write_line(self, line: bytes) -> None:
        remaining = memoryview(line)

        while remaining:
            written = os.write(self._descriptor, remaining[:_CHUNK_BYTES])
            remaining = remaining[written:]
            self.count += 1


def _notify(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *values: object) -> bool:
    """Call something in a loop; return False if the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(call, *values)
    except RuntimeError:  # it is closed
        return False

    return True
