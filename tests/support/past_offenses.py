"""Offenses against the past, which its trials must notice: each breaks the store on purpose."""

import json
from itertools import count
from typing import Any

import pytest

from abilities.helpers.store import changing, history, past
from abilities.helpers.store.history import Entry, State
from abilities.helpers.store.model import dump_sorted_json
from abilities.helpers.store.saving import Found
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.support import law_offenses
from tests.support.law_offenses import instead_of

Offense = law_offenses.Offense


@instead_of(past, "describe_before")
def lose_a_link(describe_before: Any, *arguments: Any) -> str:
    """Write entries without the last of the links that a change replaced."""
    before = json.loads(describe_before(*arguments))
    if before.get("links"):
        before["links"].pop()
    return dump_sorted_json(before)


@instead_of(changing, "restore_memory")
async def give_a_version_twice(
    restore_memory: Any, transaction: Any, namespace: str, memory_id: str, found: Found, *rest: Any
) -> Any:
    """Give restored memories the version that the namespace gave last."""
    found = found._replace(last_version=found.last_version - 1)
    return await restore_memory(transaction, namespace, memory_id, found, *rest)


@instead_of(past, "delete_history")
async def keep_what_was_purged(*_: Any) -> None:
    """Delete a memory that is to be purged, and keep its history."""


@instead_of(past, "save_relinked")
async def forget_who_followed(*_: Any) -> None:
    """Write no entries for memories whose links followed a rename."""


def skip_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every fifth change out of what followers learn."""
    numbers = count(1)

    @instead_of(SqliteStore, "read_changes")
    async def read_fewer(read_changes: Any, *arguments: Any) -> Any:
        page = await read_changes(*arguments)
        return page._replace(changes=tuple(one for one in page.changes if next(numbers) % 5))

    read_fewer(monkeypatch)


@instead_of(history, "restore_row")
def restore_without_tags(restore_row: Any, *arguments: Any) -> Any:
    return restore_row(*arguments)._replace(tags="[]")


@instead_of(history, "undo")
def undo_too_little(undo: Any, state: State, entry: Entry) -> State:
    """Read earlier versions with the summary that the memory has now."""
    earlier: State = undo(state, entry)
    if state.row is None or earlier.row is None:
        return earlier
    return earlier._replace(row=earlier.row._replace(summary=state.row.summary))


@instead_of(SqliteStore, "read_entries")
async def export_no_deletions(read_entries: Any, *arguments: Any) -> list[Any]:
    """Leave the entries of deletions out of exports."""
    page = await read_entries(*arguments)
    return [entry for entry in page if getattr(entry, "action", None) != "deleted"]


@instead_of(SqliteStore, "change_many")
async def apply_half_a_batch(change_many: Any, *arguments: Any, atomic: bool) -> Any:
    """Keep what was made of an atomic batch before one of its changes was refused."""
    return await change_many(*arguments, atomic=False)


@instead_of(changing, "check_version")
def ignore_the_version(*_: Any) -> None:
    """Make changes whatever version they name."""


@instead_of(changing, "list_due")
async def expire_nothing(*_: Any) -> list[Any]:
    """Leave memories as they are when their end passes."""
    return []


OFFENSES = [lose_a_link, give_a_version_twice, keep_what_was_purged, forget_who_followed]
OFFENSES += [skip_changes, restore_without_tags, undo_too_little, export_no_deletions]
OFFENSES += [apply_half_a_batch, ignore_the_version, expire_nothing]
