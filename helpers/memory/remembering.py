"""Many changes of one call: each on its own or all or none, in as few transactions as can be."""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason
from abilities.helpers.memory.attempts import find_cause, pause
from abilities.helpers.memory.leftovers import Leftovers
from abilities.helpers.memory.naming import name_changed, resolve_ids
from abilities.helpers.memory.parts import (
    UNKNOWN_VERSION,
    PartReader,
    Plan,
    is_long,
    plan_alone,
    plan_change,
)
from abilities.helpers.memory.restoring import Restoring
from abilities.helpers.stores.changes import Change, ContinuedError, create_row, merge_change
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.protocol import HistoryStore, WriteResult

_MAX_TRIES = 40
"""How often an operation on the parts of a content is planned anew if others change them."""

_MAX_FOREIGN_TRIES = 5
"""How often a key of a further part may be found taken before it counts as somebody else's."""


class Remembered(NamedTuple):
    """What became of an operation; ``parts`` is 0 unless it wrote a content of several parts."""

    result: WriteResult
    parts: int = 0


Outcome = Remembered | Exception

_Parts = list[Row] | None
"""The memories that hold a content; None if one of them is damaged."""


class Remembering:
    """Makes the changes of one call in one namespace."""

    def __init__(self, namespace: str, store: HistoryStore) -> None:
        self._namespace = namespace
        self._store = store
        self._reader = PartReader(namespace, store)
        self._leftovers = Leftovers(namespace, store)
        self._restoring = Restoring(namespace, store)

    async def run(self, changes: Sequence[Change | Refused], *, atomic: bool) -> list[Outcome]:
        """Make changes in their order; return one outcome per change.

        In the place of a change may stand its refusal. If they are ``atomic``, all are made or
        none. Otherwise those of long contents are transactions of their own, and all between them
        share one. Raises Refused if the store cannot answer, and nothing was changed.
        """
        valid = [change for change in changes if isinstance(change, Change)]
        if not atomic:
            made = iter(await _RememberRun(self).finish(valid))
        elif len(valid) == len(changes):
            made = iter(await self.make_all(valid))
        else:
            made = iter([Refused("rolled_back") for _ in valid])

        outcomes: list[Outcome] = []
        for change in changes:
            outcomes.append(next(made) if isinstance(change, Change) else change)

        return outcomes

    async def make_all(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make all changes in one transaction, or none. Raises Refused."""
        if any(_needs_plan(change) for change in changes):
            return await self.make_planned(changes)

        try:
            return await self.make_alone(changes, atomic=True)
        except ContinuedError as error:
            return await self.make_planned(name_changed(changes, error))

    async def make_alone(self, changes: Sequence[Change], *, atomic: bool) -> list[Outcome]:
        """Make changes of one memory each in one transaction, without reading anything before.

        Raises Refused, and ContinuedError if one of them concerns several memories.
        """
        plans = [plan_alone(change) for change in changes]
        single = [change for plan in plans for change in plan.changes]
        results = await self._store.change_many(self._namespace, single, atomic=atomic)
        return _collect(plans, results)

    async def make_planned(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make all changes in one transaction, or none, each with the parts that it concerns.

        Raises Refused.
        """
        reason: Reason = "busy"
        if len(changes) > 1:
            changes = await resolve_ids(self._namespace, self._store, changes)

        for tries in range(_MAX_TRIES):
            if tries:
                await pause(tries)

            restorations = [await self._try_to_plan_restoration(change) for change in changes]
            if any(isinstance(one, Refused) for one in restorations):
                rolled_back = Refused("rolled_back")
                return [one if isinstance(one, Refused) else rolled_back for one in restorations]

            plans = _plan_all(changes, await self._read_parts(changes), restorations)
            single = [change for plan in plans for change in plan.changes]
            try:
                results = await self._store.change_many(self._namespace, single, atomic=True)
            except ContinuedError as error:
                place = _find_plan(plans, error.place)
                changes = name_changed(changes, ContinuedError(error.key, place))
                continue

            obstacle = _find_obstacle(plans, results)
            if obstacle is None:
                return _collect(plans, results)

            # A memory that belongs to no content may have the key of a further part.
            if obstacle.is_taken and not (obstacle.key and await self._delete_leftovers(obstacle)):
                reason = "key_taken"
                if tries > _MAX_FOREIGN_TRIES:
                    break

        return [Refused(reason) for _ in changes]

    async def _try_to_plan_restoration(self, change: Change) -> Plan | Refused | None:
        """Return the plan of a restoration, or why there is none; None for any other change."""
        if change.kind != "restore":
            return None

        try:
            return await self._restoring.plan(change)
        except Refused as error:
            return error

    async def _delete_leftovers(self, obstacle: "_Obstacle") -> bool:
        key, number, change = obstacle.key, obstacle.number, obstacle.change
        return await self._leftovers.delete(key, number, change)

    async def _read_parts(self, changes: Sequence[Change]) -> dict[str, _Parts]:
        """Return the parts of the contents that changes concern, by key. Raises Refused.

        A content of one part is returned only if a change needs it.
        """
        keys = list(dict.fromkeys(change.key for change in changes if change.key is not None))
        long = await self._reader.find(keys)
        needed = {change.key for change in changes if _needs_content(change)}
        short = [key for key in keys if key in needed and key not in long]

        first = await self._reader.read_first(short)
        parts: dict[str, _Parts] = {key: [row] for key, row in first.items()}
        for key in keys:
            if key in long:
                parts[key] = await self._read_long(key)

        return parts

    async def _read_long(self, key: str) -> _Parts:
        try:
            return [part.row for part in await self._reader.read(key)]
        except Refused as error:
            if error.reason == "memory_not_found":
                return []
            if error.reason in ("checksum_mismatch", "invalid_stored_value"):
                return None
            raise


class _RememberRun:
    """The changes of one call, each made on its own, and what became of them so far."""

    def __init__(self, remembering: Remembering) -> None:
        self._remembering = remembering
        self._outcomes: list[Outcome] = []

    async def finish(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make the changes. Raises Refused if the store cannot answer, and nothing was changed."""
        try:
            await self._make(changes)
        except Refused as error:
            if not self._outcomes:
                raise

            missing = len(changes) - len(self._outcomes)
            self._outcomes += [error] * missing

        return self._outcomes

    async def _make(self, changes: Sequence[Change]) -> None:
        start = 0
        for index, change in enumerate(changes):
            if _needs_plan(change):
                await self._make_short(changes[start:index])
                self._outcomes += await self._remembering.make_planned([change])
                start = index + 1

        await self._make_short(changes[start:])

    async def _make_short(self, changes: Sequence[Change]) -> None:
        """Make changes together, except those that turn out to concern several memories."""
        while changes:
            try:
                self._outcomes += await self._remembering.make_alone(changes, atomic=False)
                return
            except ContinuedError as error:
                place = error.place
                named = name_changed(changes, error)

            await self._make_short(changes[:place])
            self._outcomes += await self._remembering.make_planned([named[place]])
            changes = changes[place + 1 :]


def _needs_plan(change: Change) -> bool:
    """Return whether a change may take several memories, also if the present content is short."""
    return change.kind == "restore" or is_long(change)


def _needs_content(change: Change) -> bool:
    return change.kind == "append" or change.new_key is not None or is_long(change)


def _plan_all(
    changes: Sequence[Change],
    parts: dict[str, _Parts],
    restorations: Sequence[Plan | Refused | None],
) -> list[Plan]:
    """Plan changes one after another, each for what those before it will have made."""
    plans: list[Plan] = []

    for change, restoration in zip(changes, restorations, strict=True):
        rows = parts.pop(change.key or "", [])
        if isinstance(restoration, Plan):
            plans.append(restoration)
            continue

        if rows is None:
            plans.append(Plan((change,)))  # which mends the first one, or deletes it
            continue

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


class _Obstacle(NamedTuple):
    """A change that cannot be made as planned, of the part of a content with a number.

    ``is_taken`` says that another memory has the key of the part.
    """

    key: str
    number: int
    change: Change
    is_taken: bool


def _find_plan(plans: Sequence[Plan], place: int) -> int:
    """Return the index of the plan that has the change in a place among those of all plans."""
    for index, plan in enumerate(plans):
        if place < len(plan.changes):
            return index
        place -= len(plan.changes)

    raise IndexError(place)


def _find_obstacle(
    plans: Sequence[Plan], results: Sequence[WriteResult | Exception]
) -> _Obstacle | None:
    """Return the change that met something else than its plan relies on, if one did."""
    remaining = iter(results)

    for plan in plans:
        first = plan.changes[0]
        key = first.new_key or first.key or ""
        for index, change in enumerate(plan.changes):
            result = next(remaining)
            if not isinstance(result, Refused):
                continue
            if index and result.reason in ("version_conflict", "memory_not_found", "key_taken"):
                is_taken = change.if_version == 0 or result.reason == "key_taken"
                return _Obstacle(key, index + 1, change, is_taken)
            if not index and plan.is_guarded and result.reason == "version_conflict":
                return _Obstacle(key, 1, change, is_taken=False)

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
    cause = find_cause(results)
    if cause is not None:
        return cause
    if not isinstance(first, WriteResult):
        return first

    parts = plan.parts if plan.parts > 1 else 0
    return Remembered(first, parts)
