"""The items of one call, the offer of each, and the sources that offers are gathered from.

Offers say where an item continues by a `Cursor`. Here are also the offers of the simplest items,
which are paths of files, and of what a mixed batch finds among the files: those that match a
pattern, and lines of them.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, TypeVar, cast

from abilities.declarations.limits import MAX_GLOBS_FILES, MAX_HITS
from abilities.declarations.read import FileItem, GlobItem, Kind, ReadItem, SearchItem
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, json_bytes
from abilities.helpers.files.confinement import PathRequest, express_path, parse_path
from abilities.helpers.files.file_walk import MAX_BYTES, MAX_LISTED, ListingRequest
from abilities.helpers.files.files import Files
from abilities.helpers.files.globs import parse_glob
from abilities.helpers.files.reader import FileText, LinesOfFiles, ReadingSession, find_version
from abilities.helpers.files.searcher import Hit, SearchRequest
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.reply.envelope import (
    FOUND_FILE,
    HIT,
    FoundItem,
    Item,
    RecordForm,
    format_item,
)
from abilities.helpers.text import WHOLE, Piece, Range, parse_range

CALL_SECONDS = 10.0
"""Time limit of a call; items not gathered by then fail with a timeout."""

_PLACE = re.compile(r"([0-9]{1,6})\.([^.]+)(?:\.([0-9]{1,6})?)?")
_COUNTDOWN = re.compile(r"([0-9]{0,3}):(.*)", re.DOTALL)
_LINE = re.compile(r"([0-9]{1,12}):(.*)", re.DOTALL)
_VERSION_BYTES = 6
_WIDEST_NUMBER = 10**12

_LINE_BYTES = 100
"""The assumed size of a line of an unread file; most lines are shorter."""

_PLAIN = FileItem(file="*")
"""The values of an item that is only a path."""

_ALONE = RecordForm({})
"""The form of the only content of an item, whose record is that of the item itself."""

ResultT = TypeVar("ResultT")


class Cursor(NamedTuple):
    """A place in the contents of an item, as ``RESUME/POSITION``.

    With a resume point, the item continues within the content at the position, otherwise after it.
    No resume point contains a slash, so the first slash ends it.

    >>> Cursor("7:notes.md", "byte=120").format()
    'byte=120/7:notes.md'
    """

    position: str = ""
    resume: str = ""

    def format(self) -> str:
        """Return the cursor as it is sent."""
        return f"{self.resume}/{self.position}"

    def parse_resume(self) -> Range:
        """Return the range of the resume point, or the whole without one. Raises Refused."""
        if not self.resume:
            return WHOLE

        return parse_range(self.resume)

    def find_range(self, position: str) -> Range:
        """Return the requested part of the content at a position. Raises Refused."""
        return self.parse_resume() if position == self.position else WHOLE


START = Cursor()


def parse_cursor(text: str | None) -> Cursor:
    """Return the cursor of a text, or the start for None. Raises Refused: invalid_format."""
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
    """Return the refusal of a cursor that no answer can contain."""
    rule = {"format": "as next_request has it"}
    return Refused("invalid_format", "after", expected=rule)


def count_down(left: int | None, position: str) -> str:
    """Return a position with the number of contents that may follow; None keeps the item's limit.

    >>> count_down(3, "a.md")
    '3:a.md'
    """
    return f"{'' if left is None else left}:{position}"


def parse_countdown(position: str, limit: int) -> tuple[int, str]:
    """Return how many contents may follow a position, and the position. Raises Refused.

    >>> parse_countdown("3:a.md", limit=20)
    (3, 'a.md')
    """
    if not position:
        return limit, ""

    match = _COUNTDOWN.fullmatch(position)
    if match is None:
        raise invalid_cursor()

    return min(int(match[1] or limit), limit), match[2]


def format_place(place: int, version: str, end: int | None = None) -> str:
    """Return the position of a place in a list that has a version.

    ``end`` is the place before which the item's own limit ends the list, if it does.

    >>> format_place(4, "9f02", end=20)
    '4.9f02.20'
    """
    position = f"{place}.{version}"
    return position if end is None else f"{position}.{end}"


class Part(NamedTuple):
    """The part of a list at which to go on; without a ``version``, its beginning."""

    begin: int = 0
    end: int | None = None
    version: str = ""

    def check(self, version: str) -> None:
        """Raise Refused("memories_changed") if the list has another version now."""
        if self.version not in ("", version):
            raise Refused("memories_changed")


def parse_place(cursor: Cursor) -> Part:
    """Return the part of a list that a cursor requests. Raises Refused: invalid_format."""
    if not cursor.position:
        return Part()

    match = _PLACE.fullmatch(cursor.position)
    if match is None:
        raise invalid_cursor()

    place, version, end = match.groups()
    begin = int(place) if cursor.resume else int(place) + 1
    return Part(begin, int(end) if end else None, version)


def split_line(place: str) -> tuple[str, int]:
    """Return the file and the line of a place in a search, ``LINE:PATH``. Raises Refused.

    >>> split_line("12:src/app.py")
    ('src/app.py', 12)
    """
    if not place:
        return "", 0

    match = _LINE.fullmatch(place)
    if match is None:
        raise invalid_cursor()

    return match[2], int(match[1])


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that was found, and is read only if there is room for it.

    ``path`` may have a suffix; ``size_bytes`` is the size of the whole file.
    """

    path: str
    size_bytes: int


@dataclass(slots=True)
class Leaf:
    """One content of an item, or the error in its place, or the data of a record without content.

    ``size`` is about how many bytes it takes; for an unread file, those on the disk. ``form`` is
    that of its record within a group, and ``position`` is its place in the group's cursors.
    ``continue_at`` takes a resume point and returns the item for the rest; it replaces that of the
    content. An ``atomic`` leaf is cut only if a reply has no other content, and then the group
    continues after it. ``remembered`` is what a file's record says of memories.
    """

    source: FoundItem | UnreadFile | JsonObject | Exception
    size: int
    position: str = ""
    form: RecordForm = _ALONE
    continue_at: Callable[[str], Item] | None = None
    atomic: bool = False
    remembered: Sequence[JsonObject] = ()


@dataclass(slots=True)
class ItemOffer:
    """The contents of one item of a call.

    ``text`` is the item as its record repeats it. An item with several contents has a ``group``:
    the other fields of its record's data, such as ``more``. ``version`` is that of all contents,
    whatever part of them was requested, and ``known`` the one that the caller has. ``fault`` is the
    error if the item failed as a whole. ``go_on`` returns the item that continues at a cursor;
    ``unfinished`` is the cursor of an item that ran out of time. ``is_begun`` is whether the item
    itself continues an earlier reply.
    """

    text: str
    item: Item
    weight: int = 1
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    group: JsonObject | None = None
    version: str | int | None = None
    known: str | None = None
    fault: Exception | None = None
    go_on: Callable[[Cursor], Item] | None = None
    unfinished: Cursor | None = None
    is_begun: bool = False

    @property
    def is_unchanged(self) -> bool:
        """Whether the caller has this version."""
        return self.version is not None and str(self.version) == self.known

    @property
    def size(self) -> int:
        """The approximate size of all contents together, in bytes."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def whole_size(self) -> int:
        """The bytes of the whole file or memory; for several contents, `size`."""
        if self.group is None and self.leaves:
            (leaf,) = self.leaves
            if isinstance(leaf.source, FoundItem | UnreadFile):
                return leaf.source.size_bytes

        return self.size


def measure_piece(piece: Piece) -> int:
    """Return the bytes of a piece's text in UTF-8; a marker takes as many as U+FFFD."""
    text = piece.text
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def hash_versions(*parts: str) -> str:
    """Return one version for several, which changes with each of them and with their order."""
    digest = blake2b(digest_size=_VERSION_BYTES)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)

    return digest.hexdigest()


def describe_file(file: FileText) -> FoundItem:
    """Return the item of a file that was read."""

    def continue_at(point: str) -> Item:
        return f"{file.path}#{point}"

    return FoundItem(file.to_data(), file.piece, file.original, continue_at, file.stat.st_size)


def foresee_file(path: str) -> FoundItem:
    """Return the item of an unread file with the widest fields that it may have, and no content."""
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


@dataclass(frozen=True, slots=True)
class AskedItem:
    """An item of a call.

    ``item`` is the path or object that was sent, and ``text`` the same as its record repeats it.
    ``fields`` are its values, as the model of its ``kind``.
    """

    kind: Kind
    item: Item
    text: str
    fields: ReadItem
    cursor: Cursor = START

    def go_on(self, cursor: Cursor) -> Item:
        """Return the item that continues at a cursor."""
        assert not isinstance(self.item, str)  # a path continues by its suffix
        rest = {name: value for name, value in self.item.items() if name != "known"}
        return {**rest, "after": cursor.format()}

    def continue_within(self, position: str) -> Callable[[str], Item]:
        """Return a function that takes a resume point in the content at a position.

        It returns the item for the rest.
        """
        return lambda point: self.go_on(Cursor(position, point))

    def begin_offer(self, version: str | int | None = None) -> ItemOffer:
        """Return an offer without contents."""
        return ItemOffer(
            text=self.text,
            item=self.item,
            weight=self.fields.weight,
            version=version,
            known=self.fields.known,
            go_on=self.go_on,
            is_begun=self.cursor != START,
        )

    def fail(self, fault: Exception) -> ItemOffer:
        """Return the offer of an item that failed."""
        return ItemOffer(self.text, self.item, fault=fault)


@dataclass(slots=True)
class BatchSources:
    """The sources of a call's items, with the limits on their size and on the time."""

    files: Files
    memory: MemoryHelper
    max_bytes: int
    max_chars: int
    """The most characters of one content."""
    name_glob: Callable[[str], str] | None = None
    """Returns the request for the files of a pattern; None if the caller may not list files."""
    may_recall: bool = True
    """Whether the caller may ask questions, so that a search may suggest one."""
    remembers: bool = False
    """Whether files come with what is remembered about them."""
    deadline: float = field(
        default_factory=lambda: asyncio.get_running_loop().time() + CALL_SECONDS
    )
    told: set[str] = field(default_factory=set[str])
    """The keys of memories that a file of the call already comes with."""
    files_left: int = MAX_GLOBS_FILES
    """The number of files that the patterns of the call may still match."""
    known_lines: LinesOfFiles = field(default_factory=LinesOfFiles)

    async def remember(self, paths: Iterable[str]) -> Mapping[str, Sequence[JsonObject]]:
        """Return what is remembered about files of which the beginning is requested, by path."""
        names: dict[str, str] = {}
        for path in paths:
            with suppress(Refused):
                request = parse_path(path)
                if self.remembers and request.range.is_beginning:
                    names[path] = request.name
        if not names:
            return {}

        found = await self.memory.find_about(list(dict.fromkeys(names.values())))
        remembered: dict[str, list[JsonObject]] = {}
        for path, name in names.items():
            for memory in found.get(name, ()):
                # A memory about many files says the same of each.
                key = memory["key"]
                told = {"key": key} if key in self.told else memory
                self.told.add(key)
                remembered.setdefault(path, []).append(told)

        return remembered

    async def wait(self, work: Awaitable[ResultT]) -> ResultT:
        """Return the result of a part of the call. Raises Refused("timeout") after the deadline."""
        try:
            async with asyncio.timeout_at(self.deadline):
                return await work
        except TimeoutError:
            raise Refused("timeout") from None


GatherOne = Callable[[AskedItem, BatchSources], Awaitable[ItemOffer]]
"""Returns the offer of an item, or raises the error that it fails with."""


async def gather_each(
    gather_one: GatherOne, asked: Sequence[AskedItem], sources: BatchSources
) -> list[ItemOffer]:
    """Return one offer per item; an item that fails does not affect the others."""
    offers: list[ItemOffer] = []

    for item in asked:
        try:
            offers.append(await gather_one(item, sources))
        except Exception as error:
            offers.append(item.fail(error))

    return offers


class _SizedFile(NamedTuple):
    """A file that was opened but not read, with about how many bytes of it are requested."""

    stat: os.stat_result
    size: int


_Found = tuple[PathRequest, FileText | _SizedFile]


def ask_for_file(path: str) -> AskedItem:
    """Return the item for a path."""
    return AskedItem("file", path, format_item(path), _PLAIN)


async def gather_files(asked: Sequence[AskedItem], sources: BatchSources) -> list[ItemOffer]:
    """Return one offer per item: small files are read at once, larger ones only measured."""
    if not asked:
        return []

    # Most files fit into an equal share of the reply, and are read as soon as they are open.
    share = sources.max_bytes // len(asked)

    def begin(session: ReadingSession, item: AskedItem) -> _Found:
        file = session.open(parse_path(_get_path(item)))
        known = item.fields.known
        if known is None or known != find_version(file.stat):
            file = session.show_text(file)

        # The length of the lines is unknown, so this is an estimate.
        requested = file.request
        part = requested.range
        end = file.size
        if part.end is not None:
            end = min(end, part.end)
        if part.last_line is not None:
            end = min(end, (part.last_line - (part.first_line or 1) + 1) * _LINE_BYTES)
        if part.trailing_lines is not None:
            end = min(end, part.trailing_lines * _LINE_BYTES)

        # A file that the caller may already have is not read: it may be unchanged.
        size = min(max(end - part.start, 0), sources.max_chars)
        if size > share or known is not None:
            os.close(file.fd)
            return requested, _SizedFile(file.stat, size)

        return requested, session.read_open(file, sources.max_chars)

    paths = list(map(_get_path, asked))
    outcomes = await sources.files.map(begin, asked, sources.known_lines)
    found = zip(paths, outcomes, strict=True)
    remembered = await sources.remember(
        path for path, outcome in found if not isinstance(outcome, Exception)
    )
    corrected: dict[int, Refused] = {}
    is_any_refused = any(isinstance(outcome, Refused) for outcome in outcomes)
    if is_any_refused and sources.name_glob is not None:
        corrected = await sources.files.suggest_paths(paths, outcomes, sources.name_glob)

    offers: list[ItemOffer] = []
    for place, (item, outcome) in enumerate(zip(asked, outcomes, strict=True)):
        offer = _build_offer(item, corrected.get(place, outcome))
        for leaf in offer.leaves:
            leaf.remembered = remembered.get(paths[place], ())
        offers.append(offer)

    return offers


def _build_offer(item: AskedItem, outcome: _Found | Exception) -> ItemOffer:
    if isinstance(outcome, Exception):
        return item.fail(outcome)

    request, file = outcome
    version = None if item.fields.known is None else find_version(file.stat)
    offer = item.begin_offer(version)
    offer.is_begun = request.range.version is not None
    if isinstance(file, FileText):
        found = describe_file(file)
        leaf = Leaf(found, measure_piece(found.piece))
    else:
        leaf = Leaf(UnreadFile(_get_path(item), file.stat.st_size), file.size)

    if isinstance(item.item, dict):
        # An object continues as an object, with its weight.
        fields = {name: value for name, value in item.item.items() if name != "known"}
        leaf.continue_at = lambda point: {**fields, "file": f"{request.path}#{point}"}

    offer.leaves.append(leaf)
    return offer


def _get_path(item: AskedItem) -> str:
    if item.fields is _PLAIN:
        return cast(str, item.item)  # any other value was refused by the parser

    assert isinstance(item.fields, FileItem)
    return item.fields.file


_QUESTION_WORDS = 4
"""Words of a search that rather is a question: few files contain so many in a row."""


def name_glob(pattern: str) -> str:
    """Return the item for the files of a pattern.

    >>> name_glob("*.md")
    '{"glob": "*.md"}'
    """
    return f'{{"glob": {json_bytes(pattern).decode()}}}'


async def gather_glob(item: AskedItem, sources: BatchSources) -> ItemOffer:
    """Return the offer of a pattern, with the unread files that match. Raises Refused."""
    fields = item.fields
    assert isinstance(fields, GlobItem)
    count, position = parse_countdown(item.cursor.position, fields.limit)
    limit = max(min(count, sources.files_left - bool(item.cursor.resume)), 0)

    offer = item.begin_offer()
    offer.group = {}
    if item.cursor.resume:
        # A file that was cut is read on, even if it no longer matches.
        path = express_path(position) or position
        source = UnreadFile(f"{parse_path(path).path}#{item.cursor.resume}", 0)
        offer.leaves.append(_build_leaf(path, position, limit, source, 0))
        sources.files_left -= 1

    if not limit:
        if count:
            offer.group["more"] = item.go_on(Cursor(count_down(None, position)))
        return offer

    request = ListingRequest(parse_glob(fields.glob, "glob"), position, limit)
    listing = await sources.wait(sources.files.list_files(request))
    sources.files_left -= len(listing.files)
    if not listing.files and not offer.leaves and not sources.files.has_workspace:
        raise Refused("no_workspace")

    if not listing.files and not position and "/" not in fields.glob:
        # A pattern without a folder matches only files outside of all folders.
        deeper = f"**/{fields.glob}"
        request = ListingRequest(parse_glob(deeper, "glob"), "", MAX_LISTED)
        found = await sources.wait(sources.files.list_files(request))
        if found.files:
            offer.group |= {"did_you_mean": name_glob(deeper), "finds": len(found.files)}

    remembered = await sources.remember(file.path for file in listing.files)
    for place, file in enumerate(listing.files, start=1):
        size = file.stat.st_size
        source = UnreadFile(file.path, size)
        leaf = _build_leaf(file.path, file.position, limit - place, source, size)
        leaf.remembered = remembered.get(file.path, ())
        offer.leaves.append(leaf)

    if listing.skipped:
        offer.group["skipped"] = listing.skipped
    missing = limit - len(listing.files)
    if listing.after is not None and missing:
        offer.unfinished = Cursor(count_down(missing, listing.after))
    elif listing.after is not None:
        offer.group["more"] = item.go_on(Cursor(count_down(None, listing.after)))

    versions = [f"{file.position} {find_version(file.stat)}" for file in listing.files]
    offer.version = hash_versions(*versions)
    return offer


def _build_leaf(path: str, position: str, left: int, source: UnreadFile, size: int) -> Leaf:
    """Return the leaf of a file; ``left`` is the number of files that may follow."""
    form = RecordForm({"path": path}, shape=FOUND_FILE)
    return Leaf(source, size, count_down(left, position), form)


async def gather_search(item: AskedItem, sources: BatchSources) -> ItemOffer:
    """Return the offer of a search. Raises Refused."""
    fields = item.fields
    assert isinstance(fields, SearchItem)
    count, place = parse_countdown(item.cursor.position, MAX_HITS)
    if not count:
        offer = item.begin_offer()
        offer.group = {}
        return offer

    request = SearchRequest(
        text=fields.search,
        is_regex=fields.regex,
        is_whole=fields.whole,
        glob=parse_glob(fields.in_, "in"),
        context=fields.context,
        limit=count,
        after=split_line(place),
    )
    result = await sources.wait(sources.files.search(request))

    offer = item.begin_offer(hash_versions(*(f"{hit.path}\n{hit.text}" for hit in result.hits)))
    offer.group = {"searched": result.searched}
    if result.skipped:
        offer.group["skipped"] = result.skipped

    words = fields.search.split()
    is_question = len(words) >= _QUESTION_WORDS or fields.search.endswith("?")
    if is_question and not (fields.regex or result.hits or place) and sources.may_recall:
        question = json_bytes({"recall": fields.search})
        if len(question) <= MAX_BYTES:
            offer.group["did_you_mean"] = question.decode()

    for number, hit in enumerate(result.hits, start=1):
        offer.leaves.append(_build_hit_leaf(hit, count - number))

    if result.after is not None:
        position, line = result.after
        if result.is_over_time:
            place = count_down(count - len(result.hits), f"{line}:{position}")
            offer.unfinished = Cursor(place)
        else:
            offer.group["more"] = item.go_on(Cursor(count_down(None, f"{line}:{position}")))

    return offer


def _build_hit_leaf(hit: Hit, left: int) -> Leaf:
    """Return the leaf of a hit; ``left`` is the number of hits that may follow."""

    # The path of a hit names the lines that it shows.
    def continue_at(point: str) -> Item:
        return hit.path

    size = len(hit.text.encode())
    data: JsonObject = {"source": hit.source, "content": "", "lines": list(hit.lines)}
    piece = Piece(hit.text, rest=hit.is_cut)
    found = FoundItem(data, piece, hit.path, continue_at, size)
    position = count_down(left, f"{hit.last_line}:{hit.position}")
    form = RecordForm({"path": hit.path}, shape=HIT)
    return Leaf(found, size, position, form, atomic=True)
