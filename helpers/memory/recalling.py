"""The request of a recall to a store, and the cursors that continue its rankings."""

import asyncio
import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import orjson

from abilities.declarations.limits import MAX_WITHIN_DAYS
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.memory.targets import NotePart
from abilities.helpers.search.passages import Span, split_sentences
from abilities.helpers.search.ranking import RankedEntry, Ranking
from abilities.helpers.search.recall import Filters
from abilities.helpers.search.terms import Language
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import MemoryStore, WriteResult
from abilities.helpers.text import back_off

if TYPE_CHECKING:
    # It has many models, which few calls need.
    from abilities.declarations.recall import RecallInput

MOST_SIMILAR = 3
"""Memories to name that say nearly the same as a new one."""

_BEGINNING_CHARS = 120
_SENTENCE_CHARS = 2_000
"""Characters at the beginning of a content in which its first sentence ends."""

_LOOKUP_SECONDS = 2.0

_DIGEST_BYTES = 6

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30}
_log = logging.getLogger("abilities")

_TIME = re.compile(
    rf"\bsince (?:last )?({'|'.join(_WEEKDAYS)})\b"
    r"|\b(?:last|past) ([0-9]{1,3}) (day|week|month)s?\b"
    r"|\b(today|yesterday|(?:this|last) (?:week|month))\b"
)
"""Words of a question that name a time: since a weekday, a number of days, or a usual name."""


class RecallResult(NamedTuple):
    """The answers to the questions of a call: one ranking for each.

    ``memories`` are the loaded ones by their keys, or the errors of unreadable ones, and ``others``
    those of other namespaces; ``parts`` are the parts of notes by their names, and ``language`` is
    that of the words. ``names_something`` is whether any question has a word to search for; if none
    has, ``overview`` is its answer. ``within_days`` are the days that the questions name but the
    call did not limit.
    """

    rankings: Sequence[Ranking]
    memories: Mapping[str, StoredMemory | Exception]
    parts: Mapping[str, NotePart]
    language: Language = Language()
    names_something: bool = True
    overview: Sequence[JsonObject] = ()
    within_days: Sequence[int | None] = ()
    others: Mapping[str, Mapping[str, StoredMemory | Exception]] = {}

    def find_memory(self, entry: RankedEntry) -> StoredMemory | Exception | None:
        """Return the memory of an entry; None if it was not loaded."""
        memories = self.others[entry.origin] if entry.origin else self.memories
        return memories.get(entry.name)


async def find_similar(
    store: MemoryStore, namespace: str, results: Sequence[WriteResult]
) -> dict[str, list[JsonObject]]:
    """Return the memories that say nearly the same as new contents, by the keys of these.

    They are present, and the most alike come first. If the store cannot answer soon, none is
    found: this follows a write, which must not fail.
    """
    contents: dict[str, str] = {}
    for result in results:
        is_new = result.created or "content" in result.updated
        if is_new and result.stored is not None:
            contents[result.stored.row.key] = result.stored.row.content
    if not contents:
        return {}

    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            return await compare_contents(store, namespace, contents)
    except Exception as error:
        _log.debug("no similar memories were looked for: %s", error)
        return {}


async def compare_contents(
    store: MemoryStore, namespace: str, contents: Mapping[str, str]
) -> dict[str, list[JsonObject]]:
    """Return the memories that say nearly the same as contents, as `find_similar` does.

    Raises Refused.
    """
    alike = await store.find_alike(namespace, contents, await store.read_language())

    found: dict[str, list[JsonObject]] = {}
    for key, memories in alike.items():
        shown = memories[:MOST_SIMILAR]
        found[key] = [{"key": one.row.key, "content": _begin(one.row.content)} for one in shown]

    return found


def _begin(content: str) -> str:
    """Return the first sentence of a content, cut if it is long."""
    first, *_ = split_sentences(content[:_SENTENCE_CHARS]) or [Span(0, len(content))]
    sentence = content[first.start : first.end]
    if len(sentence) <= _BEGINNING_CHARS:
        return sentence

    return f"{sentence[: back_off(sentence, _BEGINNING_CHARS)]}…"


def find_within_days(question: str, today: date) -> int | None:
    """Return the days back to the time that a question in English names, if it names one.

    >>> find_within_days("What changed since Monday?", date(2026, 11, 26))
    3
    >>> find_within_days("What did Ada write in the last 2 weeks?", date(2026, 11, 26))
    14
    """
    match = _TIME.search(question.casefold())
    if match is None:
        return None

    weekday, count, unit, name = match.groups()
    if weekday:
        return (today.weekday() - _WEEKDAYS.index(weekday)) % 7 or 7
    if count:
        return min(int(count) * _UNIT_DAYS[unit], MAX_WITHIN_DAYS) or 1

    last_month = today.replace(day=1) - timedelta(days=1)
    days = {
        "today": 1,
        "yesterday": 1,
        "this week": today.weekday(),
        "last week": today.weekday() + 7,
        "this month": today.day - 1,
        "last month": (today - last_month.replace(day=1)).days,
    }
    return max(days[name], 1)


def build_filters(arguments: "RecallInput", since: date | None) -> Filters:
    """Return the filters of a call, with the day from which ``within_days`` counts."""
    return Filters(
        type=arguments.type,
        tags=tuple(dict.fromkeys(arguments.tags or ())),
        about=arguments.about,
        category=arguments.category,
        importance=arguments.importance,
        archived=arguments.archived,
        changed_since=None if since is None else f"{since.isoformat()}T00:00:00.000Z",
        as_of=arguments.as_of,
    )


def parse_positions(arguments: "RecallInput") -> list[int]:
    """Return the place in each question's ranking at which to continue.

    Raises Refused unless there is one cursor per question: too_few, too_many.
    """
    count = len(arguments.queries)
    cursors = arguments.after or [""] * count

    if len(cursors) != count:
        rule = {"min_items": count, "max_items": count}
        raise Refused("too_few" if len(cursors) < count else "too_many", "after", expected=rule)

    return [int(cursor.partition(".")[0] or 0) for cursor in cursors]


def format_cursor(position: int, ranking_hash: str) -> str:
    """Return the cursor that continues at a position of the ranking with this hash.

    >>> format_cursor(12, "q83vEjRW")
    '12.q83vEjRW'
    """
    return f"{position}.{ranking_hash}"


def check_cursors(arguments: "RecallInput", rankings: Sequence[Ranking]) -> None:
    """Raise Refused("memories_changed") if a cursor is from an outdated ranking."""
    for cursor, ranking in zip(arguments.after or (), rankings, strict=False):
        _, mark, digest = cursor.partition(".")
        if mark and digest != hash_ranking(ranking):
            raise Refused("memories_changed")


def hash_ranking(ranking: Ranking) -> str:
    """Return a hash of the names, scores and namespaces in a ranking (BLAKE2b, 48 bits)."""
    listed: list[object] = []  # flat, because a tuple per entry takes longer
    for columns in ranking.columns:
        listed += columns[:3]
        listed += filter(None, columns[6:7])  # another namespace

    digest = blake2b(orjson.dumps(listed), digest_size=_DIGEST_BYTES)
    return urlsafe_b64encode(digest.digest()).decode()
