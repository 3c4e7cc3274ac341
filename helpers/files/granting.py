"""Read the files of one call as far as their reply has room.

All are opened first, and the sizes decide which are read: a file that is left out is never read.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from abilities.declarations.faults import Refused
from abilities.helpers.files.file_text import FileText
from abilities.helpers.files.paths import PathRequest, parse_path
from abilities.helpers.files.reader import FileReader, OpenFile, ReadingSession
from abilities.helpers.threads.workers import SecondStep

RecordT_co = TypeVar("RecordT_co", covariant=True)
RecordT = TypeVar("RecordT")


class Room(Protocol[RecordT_co]):
    """The room that the files of a call share. A file is named by its index in the call."""

    @property
    def sure_size(self) -> int:
        """The bytes of a file up to which there is room for it, whatever the others need."""
        ...

    @property
    def is_used_up(self) -> bool:
        """Whether every ranked file that is not admitted yet is left out."""
        ...

    def rank(self, sizes: Sequence[int | None]) -> Sequence[int]:
        """Return the indices of all files that have a size, in the order to read them.

        A file of None has failed.
        """
        ...

    def count_fitting(self, index: int) -> int | None:
        """Return how many characters of a file may fit; None if it is to be left out."""
        ...

    def admit(self, index: int, read: FileText) -> RecordT_co:
        """Return the record of a file that was read."""
        ...

    def leave_out(self, index: int, size_bytes: int) -> RecordT_co:
        """Return the record of a file that was left out unread."""
        ...

    def settle_failure(self, index: int) -> None:
        """Take note that a file could not be read."""
        ...


class _WaitingFile(NamedTuple):
    """A file that was opened: about how many bytes of it are wanted, and how many it has."""

    request: PathRequest
    wanted: int
    size: int


async def read_within(
    reader: FileReader, paths: Sequence[object], max_chars: int, room: Room[RecordT]
) -> list[FileText | RecordT | Exception]:
    """Read as many of the paths as there is room for: one outcome per path, in their order.

    If there is room for all of them in any case, the outcomes are those of `FileReader.read`; else
    they are the room's records, and exceptions.
    """
    reading = _Reading(max_chars, room)
    steps = SecondStep(reading.plan, reading.finish)
    outcomes = await reader.map(reading.begin, list(enumerate(paths)), steps)

    if not reading.has_waiting:
        return cast("list[FileText | RecordT | Exception]", outcomes)

    return [reading.settle(index, outcome) for index, outcome in enumerate(outcomes)]


class _Reading(Generic[RecordT]):
    """The steps that a thread takes: begin every file, plan, and finish those that were begun."""

    def __init__(self, max_chars: int, room: Room[RecordT]) -> None:
        self._max_chars = max_chars
        self._room = room
        self._sure_size = room.sure_size
        self.has_waiting = False
        self._begun: list[FileText | _WaitingFile | Exception] = []

    def begin(
        self, session: ReadingSession, numbered: tuple[int, object]
    ) -> FileText | _WaitingFile | RecordT:
        """Open a path; read it at once if there is room for it in any case. Raises Refused."""
        index, path = numbered
        request = parse_path(path)
        file = session.open(request, is_read_later=True)

        # Most files are small, and a call with small files is over in one step.
        size = file.stat.st_size
        wanted = size
        if size > self._sure_size:
            wanted = measure_wanted(file, self._max_chars)
        if wanted <= self._sure_size:
            session.confirm(file)
            return session.read_open(file, self._max_chars)

        self.has_waiting = True
        session.keep(index, file)
        return _WaitingFile(request, wanted, size)

    def plan(self, results: Sequence[FileText | _WaitingFile | Exception]) -> Sequence[int]:
        """Return which files to finish, in which order: none if all of them were read at once."""
        if not self.has_waiting:
            return ()

        self._begun = list(results)
        sizes: list[int | None] = []
        for result in results:
            if isinstance(result, _WaitingFile):
                sizes.append(result.wanted)
            elif isinstance(result, FileText):
                sizes.append(len(result.piece.text))
            else:
                sizes.append(None)

        return self._room.rank(sizes)

    def finish(self, session: ReadingSession, index: int) -> RecordT:
        """Return a file's record; read it before, if there is room. Raises Refused."""
        record = self._finish(session, index)
        if self._room.is_used_up:
            session.skip_rest()

        return record

    def settle(
        self, index: int, outcome: FileText | _WaitingFile | RecordT | Exception
    ) -> FileText | RecordT | Exception:
        """Return the outcome of a file that may not have been finished."""
        if self._room.is_used_up:
            if isinstance(outcome, FileText):
                return self._room.admit(index, outcome)
            if isinstance(outcome, _WaitingFile):
                return self._room.leave_out(index, outcome.size)

        if isinstance(outcome, _WaitingFile):
            return Refused("timeout")  # the call was over before anybody read it

        return outcome

    def _finish(self, session: ReadingSession, index: int) -> RecordT:
        begun = self._begun[index]
        if isinstance(begun, FileText):
            return self._room.admit(index, begun)

        assert isinstance(begun, _WaitingFile)  # what has failed is not planned
        fitting = self._room.count_fitting(index)
        if fitting is None:
            return self._room.leave_out(index, begun.size)

        try:
            file = session.take(index, begun.request)
            # More characters than there is room for in bytes are never needed.
            read = session.read_open(file, min(self._max_chars, fitting))
            session.check()
        except Exception:
            self._room.settle_failure(index)
            raise

        return self._room.admit(index, read)


def measure_wanted(file: OpenFile, max_chars: int) -> int:
    """Return about how many bytes of a file are wanted; of lines it is not known before."""
    requested = file.request.range
    end = file.stat.st_size
    if requested.end is not None:
        end = min(end, requested.end)

    return min(max(end - requested.start, 0), max_chars)
