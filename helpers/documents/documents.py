"""Find out which files are documents, and keep their texts.

Documents are converted in the background, several at once. The texts are kept, so that the next
piece of a document is read as fast as one of a text file.
"""

import logging
import os
import select
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from abilities.declarations.refusals import AbilitiesError, Reason, Refused
from abilities.helpers.documents.converter import MAX_TEXT_BYTES, SECONDS, WHOLE, send_request
from abilities.helpers.documents.reader import HEAD_BYTES, Reader
from abilities.helpers.threads.turns import start_daemon

CACHE_BYTES = 32_000_000
"""Bytes of texts that are kept; those that were not used for the longest time go first."""

CACHE_DOCUMENTS = 1_000

AT_ONCE = 4
"""Documents that are converted at the same time."""

MOST_OF_ONE_ROOT = AT_ONCE - 1
"""Of these, documents of one root, so that one namespace does not keep the others waiting."""

REST_IS_MISSING = b"[the rest is missing: it takes too much time or memory, or is damaged]\n"
"""The last line of a text that is not that of the whole document."""

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from abilities.helpers.documents.converter import serve; serve{arguments!r}"
)
_CHUNK = 64 * 1024

_log = logging.getLogger("abilities")

Text = Future[bytes | Reason]
"""The text of a document, or why it has none, as soon as that is known."""

_Key = tuple[int | str, ...]


class InstalledReader(NamedTuple):
    """A reader, and its place such as ``package.module:NAME``; none if it needs the extra."""

    reader: Reader
    place: str


class Converting(AbilitiesError):
    """A document is being converted, or waits for one that is: try again after ``text`` is done."""

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text


class Documents:
    """The texts of documents, by the versions of their files. May be used on any thread.

    ``suffixes`` are those of all readers; no other file is a document.
    """

    def __init__(self, readers: Sequence[InstalledReader] = ()) -> None:
        self._readers = readers
        suffixes = (suffix for installed in readers for suffix in installed.reader.suffixes)
        self.suffixes: tuple[str, ...] = tuple(suffixes)
        self._converter = _Converter([installed.place for installed in readers])
        self._texts: OrderedDict[_Key, Text] = OrderedDict()
        self._running: dict[Text, str] = {}
        self._lock = Lock()

    def close(self) -> None:
        """End all processes."""
        self._converter.close()

    def split_part(self, name: str) -> tuple[str, str] | None:
        """Split the name of a part from that of a document; None if it cannot have a part.

        For example ``book.xlsx#Sheet2``, where ``.xlsx`` is the suffix of a reader.
        """
        document, mark, part = name.rpartition("#")
        if mark and part and document.lower().endswith(self.suffixes):
            return document, part

        return None

    def find_text(self, root: str, name: str, fd: int, status: os.stat_result) -> bytes | None:
        """Return the text of an open document beneath a root; None if the file is not one.

        Raises Converting if it has not been converted yet, and Refused: reader_missing,
        unreadable_document, changed, resource_exhausted, io_error.
        """
        lower_name = name.lower()
        if not lower_name.endswith(self.suffixes):
            return None  # most files

        head = os.pread(fd, HEAD_BYTES, 0)
        for reader, place in self._readers:
            if lower_name.endswith(tuple(reader.suffixes)) and reader.magic in head:
                if not place:
                    raise Refused("reader_missing")

                return self._find_text(root, place, _find_key(status, place), fd)

        return None

    def _find_text(self, root: str, place: str, key: _Key, fd: int) -> bytes:
        with self._lock:
            text = self._texts.get(key)
            if text is None:
                own = [each for each, of_root in self._running.items() if of_root == root]
                if len(own) >= MOST_OF_ONE_ROOT or len(self._running) >= AT_ONCE:
                    raise Converting([*own, *self._running][0])

                text = self._texts[key] = self._begin(place, key, fd)
                self._running[text] = root

            self._texts.move_to_end(key)
            if not text.done():
                raise Converting(text)

            outcome = text.result()
            if isinstance(outcome, bytes):
                return outcome

            if outcome != "unreadable_document":
                del self._texts[key]  # the next call may succeed

            raise Refused(outcome)

    def _begin(self, place: str, key: _Key, fd: int) -> Text:
        """Begin to convert a document on a thread of its own. Raises Refused."""
        text = Text()
        document = os.dup(fd)

        def run() -> None:
            outcome: bytes | Reason
            try:
                outcome = self._converter.convert(place, document)
                if _find_key(os.fstat(document), place) != key:
                    outcome = "changed"
            except Refused as error:
                outcome = error.reason
            except Exception as error:  # else the others would wait for it
                _log.warning("a document could not be converted", exc_info=error)
                outcome = "resource_exhausted"
            finally:
                os.close(document)

            self._keep(text, outcome)

        if start_daemon(run, "abilities-document") is None:
            os.close(document)
            raise Refused("resource_exhausted")

        return text

    def _keep(self, text: Text, outcome: bytes | Reason) -> None:
        """Set an outcome, and forget the oldest texts if there are too many."""
        with self._lock:
            del self._running[text]
            text.set_result(outcome)
            done = {key: text.result() for key, text in self._texts.items() if text.done()}
            size = sum(map(len, done.values()))
            for oldest, kept in done.items():
                if size <= CACHE_BYTES and len(self._texts) <= CACHE_DOCUMENTS:
                    break

                size -= len(kept)
                del self._texts[oldest]


def _find_key(status: os.stat_result, place: str) -> _Key:
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *times, place)


class _Converter:
    """The process that converts documents, which is started when it is first needed."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = [place for place in places if place]
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._is_closed = False
        self._lock = Lock()

    def close(self) -> None:
        """End the process, and all that it has started."""
        with self._lock:
            self._end()
            self._is_closed = True

    def convert(self, place: str, document: int) -> bytes:
        """Return the text of a document. Raises Refused and OSError."""
        answer, output = os.pipe()
        try:
            try:
                process = self._send(place, document, output)
            finally:
                os.close(output)

            raw = _receive(answer)
        finally:
            os.close(answer)

        if raw.endswith(WHOLE):
            return raw.removesuffix(WHOLE)

        if not raw:
            has_ended = process.poll() is not None
            raise Refused("io_error" if has_ended else "unreadable_document")

        # A part of a character or a line may be last.
        complete = raw[:MAX_TEXT_BYTES].decode(errors="ignore").encode()
        if not complete.endswith(b"\n"):
            complete += b"\n"

        return complete + REST_IS_MISSING

    def _send(self, place: str, document: int, output: int) -> subprocess.Popen[bytes]:
        """Send a document to the process, and return that. Raises OSError."""
        with self._lock:
            if self._is_closed:
                raise Refused("io_error")

            if self._running is not None:
                process, channel = self._running
                with suppress(OSError):  # it has ended, for example because memory was short
                    send_request(channel, place, document, output)
                    return process

                self._end()

            process, channel = self._running = self._start()
            send_request(channel, place, document, output)
            return process

    def _end(self) -> None:
        if self._running is None:
            return

        process, channel = self._running
        self._running = None
        channel.close()
        process.kill()
        process.wait()

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        channel, theirs = socket.socketpair()
        path = [os.path.abspath(folder) for folder in sys.path]
        arguments = (theirs.fileno(), self._places, SECONDS)
        program = _PROGRAM.format(path=path, arguments=arguments)

        with theirs:
            try:
                process = subprocess.Popen(  # noqa: S603 - our own program, nothing of a caller
                    [sys.executable, "-I", "-c", program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    cwd="/",
                    env={},
                )
            except OSError:
                channel.close()
                raise

        return process, channel


def _receive(answer: int) -> bytes:
    """Return what a process writes until it ends or has written too much.

    Raises Refused("timeout") if it does neither, for example because it is not scheduled.
    """
    raw = bytearray()
    deadline = time.monotonic() + 2 * SECONDS
    poll = select.poll()
    poll.register(answer, select.POLLIN)

    while len(raw) <= MAX_TEXT_BYTES + len(WHOLE):
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise Refused("timeout")

        chunk = os.read(answer, _CHUNK)
        if not chunk:
            break
        raw += chunk

    return bytes(raw)
