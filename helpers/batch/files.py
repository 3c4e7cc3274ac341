"""Files of a mixed batch, by their paths or by a pattern."""

import os
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

from abilities.declarations.limits import MAX_GLOBS_FILES, MAX_HITS
from abilities.declarations.read import FileItem, GlobItem, SearchItem
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, json_bytes
from abilities.helpers.batch.items import (
    AskedItem,
    BatchSources,
    Cursor,
    ItemOffer,
    Leaf,
    UnreadFile,
    count_down,
    describe_file,
    hash_versions,
    measure_piece,
    parse_countdown,
    split_line,
)
from abilities.helpers.files.confinement import express_path, parse_path
from abilities.helpers.files.file_walk import FoundFile
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.lister import MAX_BYTES, MAX_LISTED, ListingRequest, suggest_paths
from abilities.helpers.files.reader import FileText, OpenFile, ReadingSession, find_version
from abilities.helpers.files.searcher import Hit, SearchRequest
from abilities.helpers.reply.detail import FOUND_FILE, HIT
from abilities.helpers.reply.envelope import FoundItem, Item, format_item
from abilities.helpers.text.pieces import Piece

_LINE_BYTES = 100
"""About what a line takes that has not been read; most take less."""


class _SizedFile(NamedTuple):
    """A file that was opened and not read: about how many bytes of it are wanted."""

    stat: os.stat_result
    wanted: int


_PLAIN = FileItem(file="*")
"""The values of an item that is nothing but a path."""


def ask_for_file(path: str) -> AskedItem:
    """Return the item that a path stands for."""
    return AskedItem("file", path, format_item(path), _PLAIN)


async def gather_files(asked: Sequence[AskedItem], sources: BatchSources) -> list[ItemOffer]:
    """Return one offer per item: small files are read at once, of larger ones only their sizes."""
    if not asked:
        return []

    # Most files are small, and read when they are opened: together no more than a reply has room.
    sure_size = sources.max_bytes // len(asked)

    def begin(session: ReadingSession, item: AskedItem) -> FileText | _SizedFile:
        request = parse_path(_get_path(item))
        file = session.open(request)

        known = item.fields.known
        wanted = _measure_wanted(file, sources.max_chars)
        if wanted > sure_size or known is not None:
            os.close(file.fd)
            return _SizedFile(file.stat, wanted)

        return session.read_open(file, sources.max_chars)

    outcomes = await sources.files.map(begin, asked, sources.known_lines)
    mended: dict[int, Refused] = {}
    if sources.name_glob is not None:
        paths = list(map(_get_path, asked))
        mended = await suggest_paths(paths, outcomes, sources.lister, sources.name_glob)

    offers: list[ItemOffer] = []
    for place, (item, outcome) in enumerate(zip(asked, outcomes, strict=True)):
        offers.append(_build_offer(item, mended.get(place, outcome)))

    return offers


def name_glob(pattern: str) -> str:
    """Return the item that stands for the files of a pattern."""
    return f'{{"glob": {json_bytes(pattern).decode()}}}'


def _measure_wanted(file: OpenFile, max_chars: int) -> int:
    """Return about how many bytes of a file are wanted; how long lines are is not known before."""
    requested = file.request.range
    end = file.stat.st_size
    if requested.end is not None:
        end = min(end, requested.end)
    if requested.last_line is not None:
        end = min(end, (requested.last_line - (requested.first_line or 1) + 1) * _LINE_BYTES)
    if requested.trailing_lines is not None:
        end = min(end, requested.trailing_lines * _LINE_BYTES)

    return min(max(end - requested.start, 0), max_chars)


def _build_offer(item: AskedItem, outcome: FileText | _SizedFile | Exception) -> ItemOffer:
    if isinstance(outcome, Exception):
        return item.fail(outcome)

    version = None if item.fields.known is None else find_version(outcome.stat)
    offer = item.begin_offer(version)
    offer.is_begun = parse_path(_get_path(item)).range.version is not None
    if isinstance(outcome, FileText):
        found = describe_file(outcome)
        leaf = Leaf(found, measure_piece(found.piece))
    else:
        leaf = Leaf(UnreadFile(_get_path(item), outcome.stat.st_size), outcome.wanted)

    if not isinstance(item.item, str):
        leaf.continue_at = partial(_continue_file, item)

    offer.leaves.append(leaf)
    return offer


def _continue_file(item: AskedItem, point: str) -> Item:
    """Return the item for the rest of a file that was asked for by an object."""
    assert not isinstance(item.item, str)
    rest = {name: value for name, value in item.item.items() if name != "known"}
    return {**rest, "file": f"{parse_path(_get_path(item)).path}#{point}"}


def _get_path(item: AskedItem) -> str:
    if item.fields is _PLAIN:
        return cast(str, item.item)  # anything else is refused when it is parsed

    assert isinstance(item.fields, FileItem)
    return item.fields.file


async def gather_globs(asked: Sequence[AskedItem], sources: BatchSources) -> list[ItemOffer]:
    """Return one offer per pattern, with the files that match, unread."""
    offers: list[ItemOffer] = []
    left = MAX_GLOBS_FILES

    for item in asked:
        try:
            offer = await _gather_glob(item, sources, left)
        except Exception as error:
            offer = item.fail(error)

        left -= len(offer.leaves)
        offers.append(offer)

    return offers


async def _gather_glob(item: AskedItem, sources: BatchSources, most: int) -> ItemOffer:
    """Return the offer of a pattern with ``most`` files at most. Raises Refused."""
    fields = item.fields
    assert isinstance(fields, GlobItem)
    count, position = parse_countdown(item.cursor.position, fields.limit)

    if item.cursor.resume:
        most -= 1
    limit = max(min(count, most), 0)

    offer = item.begin_offer()
    offer.group = {}
    if item.cursor.resume:
        # The file may match no more; it is only read on where its reading was cut.
        path = express_path(position) or position
        source = UnreadFile(f"{parse_path(path).path}#{item.cursor.resume}", 0)
        offer.leaves.append(_build_leaf(path, position, limit, source, 0))

    if not limit:
        if count:
            offer.group["more"] = item.go_on(Cursor(count_down(None, position)))
        return offer

    request = ListingRequest(parse_pattern(fields.glob, "glob"), position, limit)
    listing = await sources.wait(sources.lister.list_files(request))
    if not listing.files and not offer.leaves and not sources.lister.has_workspace:
        raise Refused("no_workspace")

    if not listing.files and not position and "/" not in fields.glob:
        offer.group |= await _look_deeper(fields.glob, sources)
    for place, file in enumerate(listing.files, start=1):
        offer.leaves.append(_build_found_leaf(file, limit - place))

    if listing.skipped:
        offer.group["skipped"] = listing.skipped
    missing = limit - len(listing.files)
    if listing.after is not None and missing:
        offer.unfinished = Cursor(count_down(missing, listing.after))
    elif listing.after is not None:
        offer.group["more"] = item.go_on(Cursor(count_down(None, listing.after)))

    versions = [f"{file.position} {find_version(file.stat)}" for file in listing.files]
    offer.version = hash_versions(*versions)
    offer.is_unchanged = offer.version == fields.known
    return offer


async def _look_deeper(pattern: str, sources: BatchSources) -> JsonObject:
    """Return the pattern that finds files in all folders, and how many; nothing if it finds none.

    A pattern without a folder matches only what lies in none.
    """
    deeper = f"**/{pattern}"
    request = ListingRequest(parse_pattern(deeper, "glob"), "", MAX_LISTED)
    listing = await sources.wait(sources.lister.list_files(request))
    if not listing.files:
        return {}

    return {"did_you_mean": name_glob(deeper), "finds": len(listing.files)}


def _build_found_leaf(file: FoundFile, left: int) -> Leaf:
    source = UnreadFile(file.path, file.stat.st_size)
    return _build_leaf(file.path, file.position, left, source, file.stat.st_size)


def _build_leaf(path: str, position: str, left: int, source: UnreadFile, size: int) -> Leaf:
    """Return the leaf of a file; ``left`` counts the files that may come behind it."""
    return Leaf(
        source,
        size,
        position=count_down(left, position),
        leading={"path": path},
        shape=FOUND_FILE,
    )


def parse_pattern(pattern: str, field: str) -> Glob:
    """Return a pattern of an item's field. Raises Refused, which names the field."""
    try:
        return Glob(pattern)
    except Refused as error:
        raise Refused(error.reason, field, expected=error.expected) from None


_QUESTION_WORDS = 4
"""So many words in a row stand in few files; who asks for them means what they say."""


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
        glob=parse_pattern(fields.in_, "in"),
        context=fields.context,
        limit=count,
        after=split_line(place),
    )
    result = await sources.wait(sources.searcher.search(request))

    offer = item.begin_offer(hash_versions(*(f"{hit.path}\n{hit.text}" for hit in result.hits)))
    offer.group = {"searched": result.searched}
    if result.skipped:
        offer.group["skipped"] = result.skipped
    if not result.hits and not place and _is_question(fields) and sources.may_recall:
        asked = json_bytes({"recall": fields.search}).decode()
        if len(asked.encode()) <= MAX_BYTES:
            offer.group["did_you_mean"] = asked

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


def _is_question(fields: SearchItem) -> bool:
    """Return whether what was searched is rather a question in words than a text in files."""
    words = fields.search.split()
    return not fields.regex and (len(words) >= _QUESTION_WORDS or fields.search.endswith("?"))


def _build_hit_leaf(hit: Hit, left: int) -> Leaf:
    """Return the leaf of a hit; ``left`` counts the hits that may come behind it."""

    # A hit is read on as the part of its file that it is.
    def continue_at(point: str) -> Item:
        return hit.path

    size = len(hit.text.encode())
    data: JsonObject = {"source": hit.source, "content": "", "lines": list(hit.lines)}
    piece = Piece(hit.text, rest=hit.is_cut)
    found = FoundItem(data, piece, hit.path, continue_at, size)
    position = count_down(left, f"{hit.last_line}:{hit.position}")
    return Leaf(found, size, position, {"path": hit.path}, shape=HIT, atomic=True)
