"""Many changes of one call: each on its own or all or none, in as few transactions as can be."""

import asyncio
import random
from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.limits import MAX_CONTENT_CHARS
from abilities.declarations.reasons import Reason
from abilities.helpers.memory.parts import UNKNOWN_VERSION, PartReader, Plan, plan_change
from abilities.helpers.stores.changes import Change, create_row, merge_change
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.protocol import MemoryStore, WriteResult

_MAX_TRIES = 40
"""How often an operation on the parts of a content is planned anew if others change them."""

_MAX_FOREIGN_TRIES = 5
"""How often a key of a further part may be found taken before it counts as somebody else's."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
"""Seconds that such an operation waits at most before it is planned anew."""


class Remembered(NamedTuple):
    """What became of an operation; ``parts`` is 0 unless it wrote a content of several parts."""

    result: WriteResult
    parts: int = 0


Outcome = Remembered | Exception


class Remembering:
    """Makes the changes of one call in one namespace."""

    def __init__(self, namespace: str, store: MemoryStore) -> None:
        self._namespace = namespace
        self._store = store
        self._reader = PartReader(namespace, store)

    async def run(self, changes: Sequence[Change | Refused], *, atomic: bool) -> list[Outcome]:
        """Make changes in their order; return one outcome per change.

        In the place of a change may stand its refusal. If they are ``atomic``, all are made or
        none. Otherwise those of long contents are transactions of their own, and all between them
        share one. Raises Refused if the store cannot answer, and nothing was changed.
        """
        valid = [change for change in changes if isinstance(change, Change)]
        if not atomic:
            return await _RememberRun(self, changes).finish()
        if len(valid) == len(changes):
            return await self.make_all(valid)

        outcomes: list[Outcome] = []
        for change in changes:
            outcomes.append(Refused("rolled_back") if isinstance(change, Change) else change)
        return outcomes

    async def make_all(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make all changes in one transaction, or none. Raises Refused."""
        obstacle: Change | None = None

        for tries in range(_MAX_TRIES):
            plans = _plan_all(changes, await self.read_parts(changes))
            single = [change for plan in plans for change in plan.changes]
            results = await self._store.change_many(self._namespace, single, atomic=True)

            obstacle = _find_obstacle(plans, results)
            if obstacle is None:
                return _collect(plans, results)
            if obstacle.if_version == 0 and tries > _MAX_FOREIGN_TRIES:
                break

            # Chosen at random, or those who met would meet again.
            longest = min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - nothing secret

        assert obstacle is not None
        # A memory that belongs to no content may have the key of a further part.
        reason: Reason = "key_taken" if obstacle.if_version == 0 else "busy"
        return [Refused(reason) for _ in changes]

    async def make_each(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make changes of one memory each, each on its own, in one transaction. Raises Refused."""
        results = await self._store.change_many(self._namespace, changes, atomic=False)

        outcomes: list[Outcome] = []
        for result in results:
            outcomes.append(Remembered(result) if isinstance(result, WriteResult) else result)
        return outcomes

    async def read_parts(self, changes: Sequence[Change]) -> dict[str, list[Row]]:
        """Return the parts of the contents that changes concern, by key. Raises Refused.

        A content of one part is returned only if a change needs it.
        """
        keys = list(dict.fromkeys(change.key for change in changes if change.key is not None))
        long = await self._reader.find(keys)
        needed = {change.key for change in changes if _needs_content(change)}
        short = [key for key in keys if key in needed and key not in long]

        first = await self._reader.read_first(short)
        parts: dict[str, list[Row]] = {key: [row] for key, row in first.items()}
        for key in keys:
            if key in long:
                parts[key] = await self._read_long(key)

        return parts

    async def _read_long(self, key: str) -> list[Row]:
        try:
            return [part.row for part in await self._reader.read(key)]
        except Refused as error:
            # A memory that is missing or damaged has no parts to take along.
            if error.reason not in ("memory_not_found", "checksum_mismatch"):
                raise

        return []


class _RememberRun:
    """The changes of one call, each made on its own, and what became of them so far."""

    def __init__(self, remembering: Remembering, changes: Sequence[Change | Refused]) -> None:
        self._remembering = remembering
        self._changes = changes
        self._outcomes: dict[int, Outcome] = {}
        self._pending: list[int] = []
        self._has_begun = False

    async def finish(self) -> list[Outcome]:
        """Make the changes. Raises Refused if the store cannot answer, and nothing was changed."""
        try:
            await self._make_changes()
        except Refused as error:
            if not self._has_begun:
                raise

            for index in range(len(self._changes)):
                self._outcomes.setdefault(index, error)

        return [self._outcomes[index] for index in range(len(self._changes))]

    async def _make_changes(self) -> None:
        parts = await self._read_parts(0)
        touched: set[str | None] = set()

        for index, change in enumerate(self._changes):
            if isinstance(change, Refused):
                self._outcomes[index] = change
                continue

            # How long a content has become is known only when it is written.
            is_uncertain = change.kind == "append" and change.key in touched
            plan = plan_change(change, parts.get(change.key or "", ()))
            if not is_uncertain and len(plan.changes) == 1:
                self._pending.append(index)
                touched.update((change.key, change.new_key))
                continue

            await self._make_pending()
            touched = set()
            (self._outcomes[index],) = await self._remembering.make_all([change])
            self._has_begun = True
            parts = await self._read_parts(index + 1)

        await self._make_pending()

    async def _make_pending(self) -> None:
        if not self._pending:
            return

        changes: list[Change] = []
        for index in self._pending:
            change = self._changes[index]
            assert isinstance(change, Change)
            changes.append(change)

        outcomes = await self._remembering.make_each(changes)
        self._has_begun = True
        for index, change, outcome in zip(self._pending, changes, outcomes, strict=True):
            # Somebody else may have added to the content since it was read.
            if _is_too_long(change, outcome):
                (outcome,) = await self._remembering.make_all([change])
            self._outcomes[index] = outcome

        self._pending = []

    async def _read_parts(self, start: int) -> dict[str, list[Row]]:
        later = [change for change in self._changes[start:] if isinstance(change, Change)]
        return await self._remembering.read_parts(later)


def _is_too_long(change: Change, outcome: Outcome) -> bool:
    """Return whether a content has no room for an addition, and could go on in another memory."""
    if change.kind != "append" or change.key is None:
        return False

    return isinstance(outcome, Refused) and outcome.reason == "too_long"


def _needs_content(change: Change) -> bool:
    if change.kind == "append" or change.new_key is not None:
        return True

    return len(change.fields.get("content", "")) > MAX_CONTENT_CHARS


def _plan_all(changes: Sequence[Change], parts: dict[str, list[Row]]) -> list[Plan]:
    """Plan changes one after another, each for what those before it will have made."""
    plans: list[Plan] = []

    for change in changes:
        rows = parts.pop(change.key or "", [])
        plan = plan_change(change, rows)
        plans.append(plan)

        rows = _foresee(plan, rows)
        if rows:
            parts[rows[0].key] = rows

    return plans


def _foresee(plan: Plan, rows: Sequence[Row]) -> list[Row]:
    """Return the parts of a content as a plan will make them, in versions that nobody knows yet."""
    before = {row.key: row for row in rows}
    after: list[Row] = []

    for change in plan.changes:
        row = before.pop(change.key or "", None)
        if row is None and change.kind == "store" and change.key is not None:
            row = create_row(change, "")
        if row is None or change.kind in ("delete", "purge"):
            continue

        merged = merge_change(change, row, ()).row
        after.append(merged._replace(version=UNKNOWN_VERSION))

    return [*after, *before.values()]


def _find_obstacle(
    plans: Sequence[Plan], results: Sequence[WriteResult | Exception]
) -> Change | None:
    """Return the change that met another version than its plan relies on, if one did."""
    remaining = iter(results)

    for plan in plans:
        for index, change in enumerate(plan.changes):
            result = next(remaining)
            is_conflict = isinstance(result, Refused) and result.reason == "version_conflict"
            if is_conflict and index in plan.guards:
                return change

    return None


def _collect(plans: Sequence[Plan], results: Sequence[WriteResult | Exception]) -> list[Outcome]:
    """Return the outcome of each plan: that of its first change, or why another one failed."""
    outcomes: list[Outcome] = []
    start = 0

    for plan in plans:
        own = results[start : start + len(plan.changes)]
        start += len(plan.changes)
        outcomes.append(_choose_outcome(plan, own))

    return outcomes


def _choose_outcome(plan: Plan, results: Sequence[WriteResult | Exception]) -> Outcome:
    first = results[0]
    errors = [result for result in results if isinstance(result, Exception)]

    for error in errors:
        if not (isinstance(error, Refused) and error.reason == "rolled_back"):
            return error

    if not isinstance(first, WriteResult):
        return first

    parts = plan.parts if plan.parts > 1 else 0
    return Remembered(first, parts)
