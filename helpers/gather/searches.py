"""Searches of a mixed batch: the places in files at which a text stands."""

from abilities.declarations.limits import MAX_HITS
from abilities.declarations.read import SearchItem
from abilities.declarations.values import JsonObject
from abilities.helpers.files.searcher import Hit, SearchRequest
from abilities.helpers.files.suggesting import MAX_BYTES
from abilities.helpers.gather.asked import AskedItem, BatchSources
from abilities.helpers.gather.cursors import Cursor, count_down, parse_countdown, split_line
from abilities.helpers.gather.files import parse_pattern
from abilities.helpers.gather.offers import ItemOffer, Leaf, hash_versions
from abilities.helpers.reply.detail import HIT
from abilities.helpers.reply.encoding import json_bytes
from abilities.helpers.reply.envelope import FoundItem
from abilities.helpers.reply.items import Item
from abilities.helpers.text.pieces import Piece

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
        offer.leaves.append(_build_leaf(hit, count - number))

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


def _build_leaf(hit: Hit, left: int) -> Leaf:
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
