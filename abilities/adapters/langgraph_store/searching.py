"""Searches: the items beneath a namespace, ranked by the words of a question or newest first.

Which items pass the filter of a search, and which namespaces match conditions.

Reading items: any number of them in one read for each 10,000.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import NamedTuple, cast

from langgraph.store.base import ListNamespacesOp, MatchCondition, SearchOp

from abilities.adapters.langgraph_store.items import (
    ItemName,
    StoredItem,
    find_beginning,
    find_end,
    find_first_part,
    find_name,
    find_tag,
    parse_item,
    parse_memory_key,
)
from abilities.declarations.limits import MAX_QUESTION_CHARS
from abilities.declarations.recall import RecallInput
from abilities.declarations.refusals import Refused
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.search.ranking import SCORE_ONE
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.names import to_storable
from abilities.helpers.store.query import MemoryLine, Query

_ORDERS: Mapping[str, tuple[int, ...]] = {
    "$gt": (1,),
    "$gte": (0, 1),
    "$lt": (-1,),
    "$lte": (-1, 0),
}
"""What an operator accepts: a value that is less than the bound (-1), equal (0) or greater (1)."""


def passes(value: Mapping[str, object], conditions: Mapping[str, object] | None) -> bool:
    """Return whether a value has what each condition asks of one of its fields.

    A condition is a value, an object of operators such as ``{"$gt": 3}``, an object of conditions
    for fields within the field, or a list of conditions for each element. Raises ValueError for an
    operator that is not known.
    """
    for field, condition in (conditions or {}).items():
        if not _fits(value.get(field), condition):
            return False

    return True


def _fits(value: object, condition: object) -> bool:
    if isinstance(condition, Mapping):
        conditions = cast(Mapping[str, object], condition)
        if any(name.startswith("$") for name in conditions):
            return all(_compare(value, name, bound) for name, bound in conditions.items())

        return isinstance(value, dict) and passes(cast(dict[str, object], value), conditions)

    if isinstance(condition, list | tuple):
        return _fit_all(value, cast(Sequence[object], condition))

    return value == condition


def _fit_all(value: object, conditions: Sequence[object]) -> bool:
    if not isinstance(value, list):
        return False

    elements = cast(list[object], value)
    return len(elements) == len(conditions) and all(map(_fits, elements, conditions))


def _compare(value: object, operator: str, bound: object) -> bool:
    """Apply an operator. Raises ValueError for one that is not known."""
    if operator == "$eq":
        return value == bound
    if operator == "$ne":
        return value != bound

    accepted = _ORDERS.get(operator)
    if accepted is None:
        raise ValueError(f"Unsupported operator: {operator}")

    return _find_order(value, bound) in accepted


def _find_order(value: object, bound: object) -> int | None:
    """Return whether a value is less than (-1), equal to (0) or greater than (1) a bound."""
    number, limit = _to_number(value), _to_number(bound)
    if number is not None and limit is not None:
        return (number > limit) - (number < limit)

    # Such as dates, whose texts have their order.
    if isinstance(value, str) and isinstance(bound, str):
        return (value > bound) - (value < bound)

    return None


def _to_number(value: object) -> float | None:
    """Return a number, or the one that a text tells; None for anything else."""
    if not isinstance(value, int | float | str):
        return None

    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None

    return None if isnan(number) else number


def matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends with a path, in which ``*`` is any label.

    Raises ValueError for another kind of match.
    """
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False

    labels = namespace[: len(path)]
    if condition.match_type == "suffix":
        labels = namespace[len(namespace) - len(path) :]

    return all(wanted in ("*", label) for label, wanted in zip(labels, path, strict=True))


_log = logging.getLogger("abilities")

_KEYS_AT_ONCE = 10_000

Outcome = StoredItem | Exception | None
"""An item, why it cannot be read, or None if there is none."""


async def read_memories(
    memory: MemoryHelper, keys: Iterable[str]
) -> dict[str, StoredMemory | Exception]:
    """Return the memories with these keys, in one read for each 10,000. Raises Refused."""
    wanted = list(dict.fromkeys(keys))
    memories: dict[str, StoredMemory | Exception] = {}

    for start in range(0, len(wanted), _KEYS_AT_ONCE):
        portion = wanted[start : start + _KEYS_AT_ONCE]
        found = await memory.read_memories(portion)
        memories.update(zip(portion, found, strict=True))

    return memories


def load_items(memories: Mapping[str, StoredMemory | Exception]) -> dict[str, Outcome]:
    """Return the items of memories, by the memories' keys and in their order.

    Archived and missing memories are no items.
    """
    return {key: _parse(memory) for key, memory in memories.items()}


def _parse(memory: StoredMemory | Exception) -> Outcome:
    if isinstance(memory, Refused) and memory.reason == "memory_not_found":
        return None
    if isinstance(memory, Exception):
        return memory
    if memory.row.archived:
        return None

    try:
        return parse_item(memory.row)
    except Refused as error:
        return error


def select_sound(outcomes: Mapping[str, Outcome]) -> dict[str, StoredItem]:
    """Return the items that can be read; the log tells of the others."""
    sound: dict[str, StoredItem] = {}

    for key, outcome in outcomes.items():
        if isinstance(outcome, StoredItem):
            sound[key] = outcome
        elif outcome is not None:
            _log.warning("a search of a LangGraph store left out a damaged item: %s", outcome)

    return sound


_FIRST_LOOK = 256
"""Memories that a search looks at before it looks at as many as it may."""

_LINES_AT_ONCE = 500
"""Memories that are listed in one read to find namespaces."""

_ROOM = 16 * 2**20
"""Bytes of contents that a ranking brings along; more are read afterwards."""


class RankedItem(NamedTuple):
    """An item that a search found; a score is None if its words do not count."""

    item: StoredItem
    score: float | None


class Searcher:
    """Searches the items of a namespace's memory.

    A search looks at ``max_scanned`` memories at most.
    """

    def __init__(self, memory: MemoryHelper, max_scanned: int) -> None:
        self._memory = memory
        self._max_scanned = max_scanned

    async def search(self, op: SearchOp) -> list[RankedItem]:
        """Return the page that a search asks for.

        With a question, the items that hold words of it stand first; the others follow, as without
        one: those that were written last come first. Raises Refused, and ValueError for a filter
        with an unknown operator, and if the page lies behind what may be looked at.
        """
        page = slice(op.offset, op.offset + op.limit)
        wanted = page.stop if min(op.offset, op.limit) >= 0 else self._max_scanned
        if not op.query:
            scanned = await self._scan(op, wanted, frozenset(), is_strict=True)
            return [RankedItem(item, None) for item in scanned][page]

        ranked = await self._rank(op, op.query)
        if len(ranked) < wanted:
            known = frozenset(found.item.row.key for found in ranked)
            for item in await self._scan(op, wanted, known, is_strict=False):
                ranked.append(RankedItem(item, 0.0 if item.details.index else None))

        return ranked[page]

    async def _rank(self, op: SearchOp, question: str) -> list[RankedItem]:
        """Return the items that answer a question, best first."""
        arguments = RecallInput(
            queries=[to_storable(question[:MAX_QUESTION_CHARS])],
            tags=[find_tag(op.namespace_prefix)],
            notes=False,
        )
        result = await self._memory.recall(arguments, [0], _ROOM)
        (ranking,) = result.rankings

        scores: dict[str, float] = {}
        for entry in ranking.entries:  # best first, so that an item has the score of its best part
            scores.setdefault(find_first_part(entry.name), entry.score / SCORE_ONE)

        missing = [key for key in scores if key not in result.memories]
        memories = {**result.memories, **await read_memories(self._memory, missing)}
        items = await self._load_passing(op, {key: memories[key] for key in scores})
        return [RankedItem(item, scores[item.row.key]) for item in items if item.details.index]

    async def _scan(
        self, op: SearchOp, wanted: int, known: frozenset[str], *, is_strict: bool
    ) -> list[StoredItem]:
        """Return items that pass, newest first, without known ones: all, or as many as wanted.

        Raises ValueError if there may be more than were looked at, and the search is strict.
        """
        tag = find_tag(op.namespace_prefix)
        first_look = min(max(_FIRST_LOOK, wanted + len(known)), self._max_scanned)
        items: list[StoredItem] = []

        for limit in dict.fromkeys((first_look, self._max_scanned)):
            query = Query(tags=(tag,), sort_by="updated_at", limit=limit)
            page = await self._memory.query(query)
            memories: dict[str, StoredMemory | Exception] = {}
            for number, found in enumerate(page.memories):
                key = found.row.key if isinstance(found, StoredMemory) else f"#{number}"
                if key not in known:
                    memories[key] = found

            items = await self._load_passing(op, memories)
            if len(items) >= wanted or page.total <= limit:
                return items

        if is_strict:
            raise ValueError(
                f"the search would look at more than {self._max_scanned:,} memories; "
                "name a deeper namespace, or set max_scanned"
            )
        return items

    async def _load_passing(
        self, op: SearchOp, memories: dict[str, StoredMemory | Exception]
    ) -> list[StoredItem]:
        """Return the items among memories that lie beneath the prefix and pass the filter."""
        prefix = tuple(op.namespace_prefix)
        candidates: dict[str, StoredMemory | Exception] = {}
        for key, memory in memories.items():
            if isinstance(memory, Exception) or _lies_beneath(memory, prefix):
                candidates[key] = memory

        sound = select_sound(load_items(candidates))
        return [item for item in sound.values() if passes(item.value, op.filter)]

    async def list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """Return the namespaces that have items and match, in order.

        Raises Refused, and ValueError if it would look at too many memories.
        """
        found = await self._find_namespaces(_find_prefix(op))
        conditions = op.match_conditions or ()
        matching: set[tuple[str, ...]] = set()
        for namespace in found:
            if all(matches(namespace, condition) for condition in conditions):
                matching.add(namespace[: op.max_depth])

        return sorted(matching)[op.offset : op.offset + op.limit]

    async def _find_namespaces(self, prefix: Sequence[str]) -> set[tuple[str, ...]]:
        beginning, after = find_beginning(prefix), ""
        namespaces: set[tuple[str, ...]] = set()
        looked_at = 0

        while looked_at <= self._max_scanned:
            lines = await self._memory.versions.list_memories(
                beginning, after, _LINES_AT_ONCE, archived=False
            )
            namespaces.update(name.namespace for name in await self._find_names(lines))
            if len(lines) < _LINES_AT_ONCE:
                return namespaces

            # What else lies in the same namespace need not be listed.
            looked_at += len(lines)
            after = lines[-1].key
            last = parse_memory_key(after)
            if last is not None:
                after = find_end(last)

        raise ValueError(
            f"listing namespaces would look at more than {self._max_scanned:,} memories; "
            "name a prefix, or set max_scanned"
        )

    async def _find_names(self, lines: Iterable[MemoryLine | DamagedMemory]) -> list[ItemName]:
        names: list[ItemName] = []
        shortened: list[str] = []

        for line in lines:
            name = parse_memory_key(line.key)
            if name is not None:
                names.append(name)
            elif "~" in line.key and "#" not in line.key:
                shortened.append(line.key)

        for memory in (await read_memories(self._memory, shortened)).values():
            name = find_name(memory.row) if isinstance(memory, StoredMemory) else None
            if name is not None:
                names.append(name)

        return names


def _lies_beneath(memory: StoredMemory, prefix: tuple[str, ...]) -> bool:
    """Return whether a memory is the first part of an item beneath a prefix."""
    name = find_name(memory.row)
    return name is not None and name.namespace[: len(prefix)] == prefix


def _find_prefix(op: ListNamespacesOp) -> tuple[str, ...]:
    """Return the longest path without ``*`` that all matching namespaces begin with."""
    longest: tuple[str, ...] = ()

    for condition in op.match_conditions or ():
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            literal = path[: path.index("*")] if "*" in path else path
            longest = max(longest, literal, key=len)

    return longest
