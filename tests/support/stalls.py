"""Stalls: system calls that hang, a drive that stops answering, a network that stops forwarding.

The drive is a file system in user space. It speaks the kernel's protocol itself (`linux/fuse.h`,
version 7.31), reads only, and lets the kernel keep nothing, so that every system call comes here.
"""

import asyncio
import ctypes
import errno
import os
import select
import stat
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

from abilities.helpers.threads.circuit_breaker import CircuitBreaker
from tests.support.waiting import wait_until

SystemCall = Literal["open", "read", "scandir"]


NEVER = 3600.0
"""Seconds that no test takes: a limit that is not reached."""

SOON = 0.1
"""Seconds after which a thread counts as stuck where a test does not care which ones do."""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stall:
    """System calls hang beneath a path while it is on; those that hang may never come back.

    ``most`` is how many threads hung at the same time.
    """

    def __init__(self, name: SystemCall, path: Path) -> None:
        self.is_on = True
        self.hanging = 0
        self.most = 0
        self._name = name
        self._path = path
        self._lock = threading.Lock()
        self._released = threading.Event()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        call = getattr(os, self._name)

        def call_or_hang(subject: Any, *rest: Any, **more: Any) -> Any:
            if self.is_on and self._affects(subject, more.get("dir_fd")):
                self._hang()
            return call(subject, *rest, **more)

        patch.setattr(os, self._name, call_or_hang)

    def end(self) -> None:
        """Let new calls through. Threads that hang stay away."""
        self.is_on = False

    def release(self) -> None:
        """Let the threads that hang come back, and none hang any more."""
        self.is_on = False
        self._released.set()

    async def wait_for_threads(self, count: int) -> None:
        await wait_until(lambda: self.hanging >= count)

    def _affects(self, subject: Any, folder: int | None) -> bool:
        path = subject
        if isinstance(subject, int):
            path = os.readlink(f"/proc/self/fd/{subject}")
        elif folder is not None:
            path = Path(os.readlink(f"/proc/self/fd/{folder}"), subject)
        return Path(path).is_relative_to(self._path)

    def _hang(self) -> None:
        with self._lock:
            self.hanging += 1
            self.most = max(self.most, self.hanging)
        self._released.wait()
        with self._lock:
            self.hanging -= 1


@contextmanager
def stalling(patch: pytest.MonkeyPatch, name: SystemCall, path: Path) -> Iterator[Stall]:
    """Let a system call hang beneath a path; in the end all threads come back."""
    stall = Stall(name, path.resolve())
    with patch.context() as own:
        stall.install(own)
        try:
            yield stall
        finally:
            stall.release()


@contextmanager
def item_seconds(patch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """Count a thread as stuck after so long; look as often at the calls that wait for threads."""
    with patch.context() as own:
        own.setattr("abilities.helpers.threads.workers.ITEM_SECONDS", seconds)
        own.setattr("abilities.helpers.threads.workers._POLL_SECONDS", min(seconds, SOON))
        if seconds == NEVER:
            own.setattr("abilities.helpers.threads.workers.CALL_SECONDS", seconds)
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    breaker = partial(CircuitBreaker, clock)
    monkeypatch.setattr("abilities.helpers.threads.workers.CircuitBreaker", breaker)
    return clock


_HEADER = struct.Struct("<IIQQIIII")
_ATTRIBUTES = struct.Struct("<6Q10I")
_DETACH = 2
_POLL_MILLISECONDS = 20
_ROOT = 1

_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _RELEASE = 1, 2, 3, 14, 15, 18
_FLUSH, _INIT, _OPENDIR, _READDIR, _RELEASEDIR, _INTERRUPT, _BATCH_FORGET = (
    25,
    26,
    27,
    28,
    29,
    36,
    42,
)

_libc = ctypes.CDLL(None, use_errno=True)


class HungFolder:
    """A mounted folder of text files. `stall` lets each system call beneath it hang."""

    def __init__(self, device: int, files: dict[str, bytes]) -> None:
        self._device = device
        self._files = list(files.items())
        self._answers = threading.Event()
        self._answers.set()

    def stall(self) -> None:
        self._answers.clear()

    def resume(self) -> None:
        self._answers.set()

    def serve(self) -> None:
        """Answer the kernel until the folder is unmounted: a thread's body."""
        poll = select.poll()
        poll.register(self._device, select.POLLIN)
        while True:
            # A request that was taken and not answered could not be killed, so none is taken.
            self._answers.wait()
            if not poll.poll(_POLL_MILLISECONDS) or not self._answers.is_set():
                continue

            try:
                request = os.read(self._device, 1 << 20)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return  # unmounted
                continue

            self._reply(request)

    def _reply(self, request: bytes) -> None:
        _, operation, unique, node, *_ = _HEADER.unpack_from(request)
        if operation in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            return

        answer = self._answer(operation, node, request[_HEADER.size :])
        code = 0
        if answer is None:
            answer, code = b"", -errno.ENOSYS
            if operation == _LOOKUP:
                code = -errno.ENOENT

        os.write(self._device, struct.pack("<IiQ", 16 + len(answer), code, unique) + answer)

    def _answer(self, operation: int, node: int, body: bytes) -> bytes | None:
        if operation == _INIT:
            return struct.pack("<4I2H2I2HI7I", 7, 31, 0, 0, 8, 8, 4096, 1, 1, 0, 0, *[0] * 7)
        if operation == _LOOKUP:
            return self._find(body.rstrip(b"\0").decode())
        if operation == _GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self._describe(node)
        if operation in (_OPEN, _OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if operation in (_READ, _READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            if operation == _READ:
                return self._files[node - 2][1][offset : offset + size]
            return self._list(offset)
        if operation in (_RELEASE, _RELEASEDIR, _FLUSH):
            return b""
        return None

    def _find(self, name: str) -> bytes | None:
        names = [name for name, _ in self._files]
        if name not in names:
            return None
        node = names.index(name) + 2
        return struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + self._describe(node)

    def _describe(self, node: int) -> bytes:
        mode, size = stat.S_IFDIR | 0o755, 0
        if node != _ROOT:
            mode, size = stat.S_IFREG | 0o644, len(self._files[node - 2][1])
        return _ATTRIBUTES.pack(
            node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0
        )

    def _list(self, offset: int) -> bytes:
        entries = b""
        for index, (name, _) in enumerate(self._files):
            if index >= offset:
                raw = name.encode()
                entry = struct.pack("<QQII", index + 2, index + 1, len(raw), 8) + raw
                entries += entry.ljust(-(-len(entry) // 8) * 8, b"\0")
        return entries


@contextmanager
def mounted(folder: Path, files: dict[str, bytes]) -> Iterator[HungFolder]:
    """Mount a folder of files; it answers again before it is unmounted.

    Raises OSError if this user may not mount.
    """
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40755,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    path = os.fsencode(folder)
    if _libc.mount(b"hung", path, b"fuse", 0, options.encode()):
        os.close(device)
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    hung = HungFolder(device, files)
    thread = threading.Thread(target=hung.serve, daemon=True)
    thread.start()
    try:
        yield hung
    finally:
        hung.resume()
        _libc.umount2(path, _DETACH)
        thread.join(10)
        os.close(device)


class Proxy:
    """Forwards connections to an address while it runs; a stalled one keeps what it is sent."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._host, self._port = parts.hostname, parts.port
        self._runs = asyncio.Event()
        self._runs.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    def stall(self) -> None:
        self._runs.clear()

    def resume(self) -> None:
        self._runs.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        async with await asyncio.start_server(self._accept, "127.0.0.1", 0) as listener:
            yield listener.sockets[0].getsockname()[1]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.append(asyncio.create_task(self._forward(reader, writer)))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._runs.wait()
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        self._writers.append(far_writer)
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                await self._runs.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def forwarding(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    parts = urlsplit(url)
    proxy = Proxy(url)
    async with proxy.listening() as port:
        user = parts.netloc.rpartition("@")[0]
        yield proxy, parts._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()
