"""What a mixed batch finds among the files: those that match a pattern, and lines of them."""

from abilities.declarations.limits import MAX_HITS
from abilities.declarations.read import GlobItem, SearchItem
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, json_bytes
from abilities.helpers.batch import items
from abilities.helpers.files.confinement import express_path, parse_path
from abilities.helpers.files.globs import parse_glob
from abilities.helpers.files.listing import MAX_BYTES, MAX_LISTED, ListingRequest
from abilities.helpers.files.reader import find_version
from abilities.helpers.files.searcher import Hit, SearchRequest
from abilities.helpers.reply.envelope import FOUND_FILE, HIT, FoundItem, Item
from abilities.helpers.text import Piece

_QUESTION_WORDS = 4
"""Words of a search that rather is a question: few files contain so many in a row."""


def name_glob(pattern: str) -> str:
    """Return the item for the files of a pattern.

    >>> name_glob("*.md")
    '{"glob": "*.md"}'
    """
    return f'{{"glob": {json_bytes(pattern).decode()}}}'


async def gather_glob(item: items.AskedItem, sources: items.BatchSources) -> items.ItemOffer:
    """Return the offer of a pattern, with the unread files that match. Raises Refused."""
    fields = item.fields
    assert isinstance(fields, GlobItem)
    count, position = items.parse_countdown(item.cursor.position, fields.limit)
    limit = max(min(count, sources.files_left - bool(item.cursor.resume)), 0)

    offer = item.begin_offer()
    offer.group = {}
    if item.cursor.resume:
        # A file that was cut is read on, even if it no longer matches.
        path = express_path(position) or position
        source = items.UnreadFile(f"{parse_path(path).path}#{item.cursor.resume}", 0)
        offer.leaves.append(_build_leaf(path, position, limit, source, 0))
        sources.files_left -= 1

    if not limit:
        if count:
            offer.group["more"] = item.go_on(items.Cursor(items.count_down(None, position)))
        return offer

    request = ListingRequest(parse_glob(fields.glob, "glob"), position, limit)
    listing = await sources.wait(sources.files.list_files(request))
    sources.files_left -= len(listing.files)
    if not listing.files and not offer.leaves and not sources.files.has_workspace:
        raise Refused("no_workspace")

    if not listing.files and not position and "/" not in fields.glob:
        offer.group |= await _suggest_deeper(fields.glob, sources)
    remembered = await sources.remember(file.path for file in listing.files)
    for place, file in enumerate(listing.files, start=1):
        size = file.stat.st_size
        source = items.UnreadFile(file.path, size)
        leaf = _build_leaf(file.path, file.position, limit - place, source, size)
        leaf.remembered = remembered.get(file.path, ())
        offer.leaves.append(leaf)

    if listing.skipped:
        offer.group["skipped"] = listing.skipped
    missing = limit - len(listing.files)
    if listing.after is not None and missing:
        offer.unfinished = items.Cursor(items.count_down(missing, listing.after))
    elif listing.after is not None:
        offer.group["more"] = item.go_on(items.Cursor(items.count_down(None, listing.after)))

    versions = [f"{file.position} {find_version(file.stat)}" for file in listing.files]
    offer.version = items.hash_versions(*versions)
    offer.is_unchanged = offer.version == fields.known
    return offer


async def _suggest_deeper(pattern: str, sources: items.BatchSources) -> JsonObject:
    """Return the pattern for all folders, and the number of its files, if it finds any.

    A pattern without a folder matches only files outside of all folders.
    """
    deeper = f"**/{pattern}"
    request = ListingRequest(parse_glob(deeper, "glob"), "", MAX_LISTED)
    listing = await sources.wait(sources.files.list_files(request))
    if not listing.files:
        return {}

    return {"did_you_mean": name_glob(deeper), "finds": len(listing.files)}


def _build_leaf(
    path: str, position: str, left: int, source: items.UnreadFile, size: int
) -> items.Leaf:
    """Return the leaf of a file; ``left`` is the number of files that may follow."""
    return items.Leaf(
        source,
        size,
        position=items.count_down(left, position),
        leading={"path": path},
        shape=FOUND_FILE,
    )


async def gather_search(item: items.AskedItem, sources: items.BatchSources) -> items.ItemOffer:
    """Return the offer of a search. Raises Refused."""
    fields = item.fields
    assert isinstance(fields, SearchItem)
    count, place = items.parse_countdown(item.cursor.position, MAX_HITS)
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
        after=items.split_line(place),
    )
    result = await sources.wait(sources.files.search(request))

    offer = item.begin_offer(
        items.hash_versions(*(f"{hit.path}\n{hit.text}" for hit in result.hits))
    )
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
            place = items.count_down(count - len(result.hits), f"{line}:{position}")
            offer.unfinished = items.Cursor(place)
        else:
            offer.group["more"] = item.go_on(
                items.Cursor(items.count_down(None, f"{line}:{position}"))
            )

    return offer


def _build_hit_leaf(hit: Hit, left: int) -> items.Leaf:
    """Return the leaf of a hit; ``left`` is the number of hits that may follow."""

    # The path of a hit names the lines that it shows.
    def continue_at(point: str) -> Item:
        return hit.path

    size = len(hit.text.encode())
    data: JsonObject = {"source": hit.source, "content": "", "lines": list(hit.lines)}
    piece = Piece(hit.text, rest=hit.is_cut)
    found = FoundItem(data, piece, hit.path, continue_at, size)
    position = items.count_down(left, f"{hit.last_line}:{hit.position}")
    return items.Leaf(found, size, position, {"path": hit.path}, shape=HIT, atomic=True)
