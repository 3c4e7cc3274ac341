"""The request of a recall to a store, and the cursors that continue its rankings."""

import asyncio
import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson

from abilities.declarations.limits import MAX_WITHIN_DAYS
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.files.reader import FileReader
from abilities.helpers.memory.namespaces import NamespaceReader
from abilities.helpers.memory.notes import NotePart, read_note_parts
from abilities.helpers.memory.targets import MemoryFiles
from abilities.helpers.search.meaning import Similarity
from abilities.helpers.search.passages import Span, split_sentences
from abilities.helpers.search.ranking import (
    LEAST_LIKENESS,
    RankedEntry,
    Ranking,
    compute_likeness,
)
from abilities.helpers.search.recall import Filters, NoteTerms, RecallRequest
from abilities.helpers.search.terms import Language, QuestionWord, split_question
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import MemoryStore, WriteResult
from abilities.helpers.text.pieces import back_off

if TYPE_CHECKING:
    # It has many models, which few calls need.
    from abilities.declarations.recall import RecallInput

MOST_SIMILAR = 3
"""Memories to name that say nearly the same as a new one."""

_COMPARED_CHARS = 2_000
"""Characters at the beginning of a content that are compared with those of others."""

_LOADED_BYTES = 1 << 20
"""Bytes of the contents that are loaded to be compared with those of a call."""

_BEGINNING_CHARS = 120
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


class Meaning(Protocol):
    """Compares the meaning of questions with that of memories and notes."""

    async def compare(
        self,
        store: MemoryStore,
        namespace: str,
        queries: Sequence[str],
        parts: Sequence[NotePart],
    ) -> tuple[Similarity, ...]:
        """Return the similarities to each question, or nothing if that fails."""
        ...

    def close(self) -> None:
        """Release everything, without waiting."""
        ...


class Recalling:
    """Asks the store of one namespace, or of several, and its agent's notes."""

    def __init__(
        self,
        namespace: str,
        store: MemoryStore,
        memories: NamespaceReader,
        notes: FileReader,
        files: MemoryFiles,
        meaning: Meaning | None,
    ) -> None:
        self._namespace = namespace
        self._store = store
        self._memories = memories
        self._notes = notes
        self._files = files
        self._meaning = meaning

    async def run(
        self,
        arguments: "RecallInput",
        today: date,
        starts: Sequence[int],
        room: int,
        explained: str | None = None,
    ) -> RecallResult:
        """Return the answers to the questions of a call.

        The rankings take turns to load memories, each from its place in ``starts`` on, until the
        contents exceed ``room`` bytes. They can explain the memory with the key ``explained``.
        Raises Refused.
        """
        language = await self._store.read_language()
        since: date | None = None
        if arguments.within_days is not None:
            since = today - timedelta(days=arguments.within_days)

        # Notes have none of the properties that memories are filtered by.
        parts: list[NotePart] = []
        if arguments.notes and not _filters_properties(arguments):
            parts = await read_note_parts(self._notes, self._files, today, since, language)

        request = build_request(arguments, since, parts, language)
        request = replace(request, explained=explained)
        requests = self._memories.split_request(request)
        if self._meaning is not None:
            for namespace, own in requests.items():
                compared = parts if namespace == self._namespace else []
                found = await self._meaning.compare(
                    self._store, namespace, arguments.queries, compared
                )
                requests[namespace] = replace(own, similarities=found)

        recalled = await self._memories.recall(requests, room, starts)
        by_name = {part.name: part for part in parts}
        days: list[int | None] = []
        if since is None and language.name == "english":
            days = [find_within_days(query, today) for query in arguments.queries]

        is_search = any(request.questions)
        rankings, memories, others = recalled
        return RecallResult(rankings, memories, by_name, language, is_search, (), days, others)

    async def find_similar(self, results: Sequence[WriteResult]) -> dict[str, list[JsonObject]]:
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
                return await self.compare_contents(contents)
        except Exception as error:
            _log.debug("no similar memories were looked for: %s", error)
            return {}

    async def compare_contents(self, contents: Mapping[str, str]) -> dict[str, list[JsonObject]]:
        """Return the memories that say nearly the same as contents, as `find_similar` does.

        Raises Refused.
        """
        language = await self._store.read_language()
        questions = {key: _split_beginning(text, language) for key, text in contents.items()}
        request = RecallRequest(tuple(questions.values()), alike=True)
        starts = [0] * len(contents)
        recalled = await self._store.recall(self._namespace, request, _LOADED_BYTES, starts)

        found: dict[str, list[JsonObject]] = {}
        for (key, question), ranking in zip(questions.items(), recalled.rankings, strict=True):
            terms = {word.term for word in question}
            alike: list[tuple[int, str, str]] = []
            for entry in ranking.entries:
                name, memory = entry.name, recalled.memories.get(entry.name)
                if name == key or not isinstance(memory, StoredMemory):
                    continue

                content = memory.row.content
                others = {word.term for word in _split_beginning(content, language)}
                likeness = compute_likeness(terms, others)
                if likeness >= LEAST_LIKENESS:
                    alike.append((-likeness, name, content))

            shown = [
                {"key": name, "content": _begin(content)}
                for _, name, content in sorted(alike)[:MOST_SIMILAR]
            ]
            if shown:
                found[key] = shown

        return found


def _split_beginning(content: str, language: Language) -> tuple[QuestionWord, ...]:
    return split_question(content[:_COMPARED_CHARS], language)


def _begin(content: str) -> str:
    """Return the first sentence of a content, cut if it is long."""
    first, *_ = split_sentences(content[:_COMPARED_CHARS]) or [Span(0, len(content))]
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


def has_filters(arguments: "RecallInput") -> bool:
    """Return whether only some memories may answer."""
    return _filters_properties(arguments) or arguments.within_days is not None


def _filters_properties(arguments: "RecallInput") -> bool:
    filters = (
        arguments.type,
        arguments.about,
        arguments.category,
        arguments.importance,
        arguments.as_of,
    )
    return bool(arguments.tags) or any(value is not None for value in filters)


def build_request(
    arguments: "RecallInput", since: date | None, parts: Sequence[NotePart], language: Language
) -> RecallRequest:
    """Return the request to a store whose index is in this language."""
    questions = [split_question(query, language) for query in arguments.queries]
    notes = [NoteTerms(part.name, part.terms) for part in parts]

    changed_since: str | None = None
    if since is not None:
        changed_since = f"{since.isoformat()}T00:00:00.000Z"

    filters = Filters(
        type=arguments.type,
        tags=tuple(dict.fromkeys(arguments.tags or ())),
        about=arguments.about,
        category=arguments.category,
        importance=arguments.importance,
        archived=arguments.archived,
        changed_since=changed_since,
        as_of=arguments.as_of,
    )
    at_least: int | None = None
    if arguments.at_least is not None:
        at_least = round(arguments.at_least * 1_000)

    return RecallRequest(
        tuple(questions), filters, arguments.hops, tuple(notes), at_least, language=language
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
