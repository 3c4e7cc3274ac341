"""A file system in user space that stops answering when a test says so: a real dead drive.

It speaks the kernel's protocol itself (`linux/fuse.h`, version 7.31), reads only, and lets the
kernel keep nothing, so that every system call comes here.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
