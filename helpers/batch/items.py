"""The items of one call as they were asked for, what each offers, and where that is gathered."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from abilities.declarations.read import Kind, ReadItem
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.files.confinement import parse_path
from abilities.helpers.files.lister import FileLister
from abilities.helpers.files.reader import FileReader, FileText, LinesOfFiles
from abilities.helpers.files.searcher import FileSearcher
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.reply.detail import RecordShape
from abilities.helpers.reply.envelope import FoundItem, Item
from abilities.helpers.text.pieces import WHOLE, Piece, Range, parse_range


class Cursor(NamedTuple):
    """A place in what an item brings, as ``RESUME/POSITION``.

    With a resume point, the item goes on within what is at the position, otherwise behind it. No
    resume point holds a slash, so the first one ends it.
    """

    position: str = ""
    resume: str = ""

    def format(self) -> str:
        """Return the cursor as it is sent."""
        return f"{self.resume}/{self.position}"

    def parse_resume(self) -> Range:
        """Return the range of the resume point; the whole without one. Raises Refused."""
        if not self.resume:
            return WHOLE

        return parse_range(self.resume)

    def find_range(self, position: str) -> Range:
        """Return which part of what is at a position is asked for. Raises Refused."""
        return self.parse_resume() if position == self.position else WHOLE


START = Cursor()


def parse_cursor(text: str | None) -> Cursor:
    """Return the cursor that was sent, or the start. Raises Refused: invalid_format."""
    if text is None:
        return START

    resume, slash, position = text.partition("/")
    cursor = Cursor(position, resume)
    is_resume = not resume or resume.startswith("byte=")
    if not slash or not is_resume:
        raise invalid_cursor()

    try:
        cursor.parse_resume()
    except Refused:
        raise invalid_cursor() from None

    return cursor


def invalid_cursor() -> Refused:
    """Return the refusal of a cursor that no answer can have handed out."""
    rule = {"format": "as next_request has it"}
    return Refused("invalid_format", "after", expected=rule)


def count_down(left: int | None, position: str) -> str:
    """Return a position with how many contents may come behind it; None is as many as asked."""
    return f"{'' if left is None else left}:{position}"


def parse_countdown(position: str, limit: int) -> tuple[int, str]:
    """Return how many contents may come behind a position, and itself. Raises Refused."""
    if not position:
        return limit, ""

    left, colon, rest = position.partition(":")
    if not colon or (left and not (left.isascii() and left.isdigit() and len(left) <= 3)):
        raise invalid_cursor()

    return min(int(left or limit), limit), rest


def format_place(place: int, version: str, end: int | None = None) -> str:
    """Return the position of a place in a list that has a version.

    ``end`` is the place before which the list ends, if an item's own limit ends it.
    """
    position = f"{place}.{version}"
    return position if end is None else f"{position}.{end}"


def parse_place(cursor: Cursor) -> int:
    """Return at which place of a list to begin. Raises Refused: invalid_format."""
    if not cursor.position:
        return 0

    place, _, _ = _split_place(cursor)
    return place if cursor.resume else place + 1


def check_place(cursor: Cursor, version: str) -> None:
    """Raise Refused("memories_changed") if a cursor is of a list with another version."""
    if cursor.position and _split_place(cursor)[1] != version:
        raise Refused("memories_changed")


def parse_end(cursor: Cursor) -> int | None:
    """Return the place before which a list ends; None if no cursor says so. Raises Refused."""
    if not cursor.position:
        return None

    return _split_place(cursor)[2]


def _split_place(cursor: Cursor) -> tuple[int, str, int | None]:
    place, _, rest = cursor.position.partition(".")
    version, _, end = rest.partition(".")
    if not _is_place(place) or not version or (end and not _is_place(end)):
        raise invalid_cursor()

    return int(place), version, int(end) if end else None


def _is_place(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def split_line(place: str) -> tuple[str, int]:
    """Return the file and the line of a place in a search, ``LINE:PATH``. Raises Refused."""
    if not place:
        return "", 0

    line, colon, path = place.partition(":")
    if not colon or not (line.isascii() and line.isdigit() and len(line) <= 12):
        raise invalid_cursor()

    return path, int(line)


_VERSION_BYTES = 6


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that was found, and is read only if there is room for it.

    ``path`` may have a suffix; ``size_bytes`` is the size of the whole file.
    """

    path: str
    size_bytes: int


@dataclass(slots=True)
class Leaf:
    """One content that an item brings, or why there is none, or the data of a record without one.

    ``size`` is about how many bytes it takes; of a file that was not read, those on the disk.
    ``leading``, ``trailing`` and ``shape`` are those of its record within a group, and ``position``
    its place in the group's cursors. ``continue_at`` takes a resume point and returns the item for
    the rest, if that is not what the content itself says. A leaf that is ``atomic`` is cut only if
    a reply has no other content, and then the group goes on behind it.
    """

    source: FoundItem | UnreadFile | JsonObject | Exception
    size: int
    position: str = ""
    leading: JsonObject = field(default_factory=dict[str, object])
    trailing: JsonObject | None = None
    shape: RecordShape | None = None
    continue_at: Callable[[str], Item] | None = None
    atomic: bool = False


@dataclass(slots=True)
class ItemOffer:
    """What one item of a call brings.

    ``text`` is the item as its record repeats it. An item that brings several contents has
    ``group``, the fields of its record's data beside them. ``version`` stands for all contents,
    whatever part of them was asked for; ``is_unchanged`` is whether the caller has that one.
    ``fault`` is why the item failed as a whole. ``go_on`` returns the item to send for what comes
    at a cursor; an item that ran out of time has one in ``unfinished``. ``is_begun`` is whether the
    item itself goes on where an earlier reply ended.
    """

    text: str
    item: Item
    weight: int = 1
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    group: JsonObject | None = None
    version: str | int | None = None
    is_unchanged: bool = False
    fault: Exception | None = None
    go_on: Callable[[Cursor], Item] | None = None
    unfinished: Cursor | None = None
    is_begun: bool = False

    @property
    def size(self) -> int:
        """About how many bytes all contents take together."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def whole_size(self) -> int:
        """The bytes of the file or memory that the item is a part of; of several, `size`."""
        if self.group is None and self.leaves:
            (leaf,) = self.leaves
            if isinstance(leaf.source, FoundItem | UnreadFile):
                return leaf.source.size_bytes

        return self.size


def measure_piece(piece: Piece) -> int:
    """Return the bytes of a piece's text in UTF-8, in which a marker takes as many as U+FFFD."""
    return len(piece.text.encode("utf-8", "surrogatepass"))


def hash_versions(*parts: str) -> str:
    """Return a version that stands for several, which changes with each of them and their order."""
    digest = blake2b(digest_size=_VERSION_BYTES)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)

    return digest.hexdigest()


_WIDEST_NUMBER = 10**12


def describe_file(file: FileText) -> FoundItem:
    """Return a file that was read as an item that was found."""

    def continue_at(point: str) -> Item:
        return f"{file.path}#{point}"

    return FoundItem(file.to_data(), file.piece, file.original, continue_at, file.stat.st_size)


def foresee_file(path: str) -> FoundItem:
    """Return a file that was not read as it may be found, at the widest, without a content."""
    name = parse_path(path).path
    data: JsonObject = {
        "path": name,
        "source": "workspace",
        "content": "",
        "size_bytes": _WIDEST_NUMBER,
        "modified_at": "2000-01-01T00:00:00.000000Z",
        "version": "0" * 24,
        "lines": _WIDEST_NUMBER,
    }
    piece = Piece("", start=_WIDEST_NUMBER, total_chars=_WIDEST_NUMBER)

    def continue_at(point: str) -> Item:
        return f"{name}#{point}"

    return FoundItem(data, piece, path, continue_at, _WIDEST_NUMBER)


CALL_SECONDS = 10.0
"""After that long what was not gathered is answered with a timeout."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class AskedItem:
    """An item of a call.

    ``item`` is what was sent, a path or an object, and ``text`` the same as its record repeats it.
    ``fields`` are its values, those of the model that belongs to its ``kind``.
    """

    kind: Kind
    item: Item
    text: str
    fields: ReadItem
    cursor: Cursor = START

    def go_on(self, cursor: Cursor) -> Item:
        """Return the item to send for what comes at a cursor."""
        assert not isinstance(self.item, str)  # a path goes on by its suffix
        rest = {name: value for name, value in self.item.items() if name != "known"}
        return {**rest, "after": cursor.format()}

    def begin_offer(self, version: str | int | None = None) -> ItemOffer:
        """Return an offer without contents; one is unchanged if the caller knows its version."""
        return ItemOffer(
            text=self.text,
            item=self.item,
            weight=self.fields.weight,
            version=version,
            is_unchanged=version is not None and str(version) == self.fields.known,
            go_on=self.go_on,
            is_begun=self.cursor != START,
        )

    def fail(self, fault: Exception) -> ItemOffer:
        """Return the offer of an item that failed."""
        return ItemOffer(self.text, self.item, fault=fault)


def _find_deadline() -> float:
    return asyncio.get_running_loop().time() + CALL_SECONDS


@dataclass(frozen=True, slots=True)
class BatchSources:
    """Where a call's items are gathered from, how much they may bring, and until when."""

    files: FileReader
    lister: FileLister
    searcher: FileSearcher
    memory: MemoryHelper
    max_bytes: int
    max_chars: int
    """Characters of one content at most."""
    name_glob: Callable[[str], str] | None = None
    """Returns how to ask for the files of a pattern; None if the caller may not list files."""
    may_recall: bool = True
    """Whether the caller may ask questions, so that a search may be answered with one."""
    deadline: float = field(default_factory=_find_deadline)
    known_lines: LinesOfFiles = field(default_factory=LinesOfFiles)

    async def wait(self, work: Awaitable[ResultT]) -> ResultT:
        """Return what a part of the call returns. Raises Refused("timeout") if time is over."""
        try:
            async with asyncio.timeout_at(self.deadline):
                return await work
        except TimeoutError:
            raise Refused("timeout") from None


GatherOne = Callable[[AskedItem, BatchSources], Awaitable[ItemOffer]]
"""Returns the offer of an item, or raises why it fails."""


async def gather_each(
    gather_one: GatherOne, asked: Sequence[AskedItem], sources: BatchSources
) -> list[ItemOffer]:
    """Return one offer per item; one that fails fails alone."""
    offers: list[ItemOffer] = []

    for item in asked:
        try:
            offers.append(await gather_one(item, sources))
        except Exception as error:
            offers.append(item.fail(error))

    return offers
