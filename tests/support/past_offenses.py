"""Offenses against the past, which its trials must notice: each breaks the store on purpose."""

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from abilities.helpers.store import changing, history, past
from abilities.helpers.store.changing import DueMemory
from abilities.helpers.store.history import ChangePage, Entry, State
from abilities.helpers.store.model import dump_sorted_json
from abilities.helpers.store.protocol import WriteResult
from abilities.helpers.store.saving import Found
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.store.transaction import Transaction

Offense = Callable[[pytest.MonkeyPatch], None]


def lose_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write entries without the last of the links that a change replaced."""
    describe_before = history.describe_before

    def describe_less(*arguments: Any) -> str:
        before = json.loads(describe_before(*arguments))
        if before.get("links"):
            before["links"].pop()
        return dump_sorted_json(before)

    monkeypatch.setattr(past, "describe_before", describe_less)


def give_a_version_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give restored memories the version that the namespace gave last."""
    restore_memory = changing.restore_memory

    async def restore_again(
        transaction: Transaction, namespace: str, memory_id: str, found: Found, *rest: Any
    ) -> WriteResult:
        found = found._replace(last_version=found.last_version - 1)
        return await restore_memory(transaction, namespace, memory_id, found, *rest)

    monkeypatch.setattr(changing, "restore_memory", restore_again)


def keep_what_was_purged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete a memory that is to be purged, and keep its history."""
    monkeypatch.setattr(changing, "delete_history", _do_nothing_later)


def forget_who_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no entries for memories whose links followed a rename."""
    monkeypatch.setattr(changing, "save_relinked", _do_nothing_later)


def skip_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every fifth change out of what followers learn."""
    read_changes = SqliteStore.read_changes
    numbers = count(1)

    async def read_fewer(store: SqliteStore, *arguments: Any) -> ChangePage:
        page = await read_changes(store, *arguments)
        told = tuple(change for change in page.changes if next(numbers) % 5)
        return page._replace(changes=told)

    monkeypatch.setattr(SqliteStore, "read_changes", read_fewer)


def restore_without_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    restore_row = history.restore_row

    def restore_less(*arguments: Any) -> Any:
        return restore_row(*arguments)._replace(tags="[]")

    monkeypatch.setattr(changing, "restore_row", restore_less)


def undo_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read earlier versions with the summary that the memory has now."""
    undo = history.undo

    def undo_less(state: State, entry: Entry) -> State:
        earlier = undo(state, entry)
        if state.row is None or earlier.row is None:
            return earlier
        return earlier._replace(row=earlier.row._replace(summary=state.row.summary))

    monkeypatch.setattr(history, "undo", undo_less)


def export_no_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the entries of deletions out of exports."""
    read_entries = SqliteStore.read_entries

    async def read_fewer(store: SqliteStore, *arguments: Any) -> Sequence[Any]:
        page = await read_entries(store, *arguments)
        return [entry for entry in page if getattr(entry, "action", None) != "deleted"]

    monkeypatch.setattr(SqliteStore, "read_entries", read_fewer)


def apply_half_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what was made of an atomic batch before one of its changes was refused."""
    change_many = SqliteStore.change_many

    async def change_some(store: SqliteStore, *arguments: Any, atomic: bool) -> Any:
        return await change_many(store, *arguments, atomic=False)

    monkeypatch.setattr(SqliteStore, "change_many", change_some)


def ignore_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make changes whatever version they name."""
    monkeypatch.setattr(changing, "check_version", _do_nothing)


def expire_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave memories as they are when their end passes."""

    async def list_nothing(*arguments: Any) -> list[DueMemory]:
        return []

    monkeypatch.setattr(changing, "list_due", list_nothing)


def _do_nothing(*arguments: Any) -> None: ...


async def _do_nothing_later(*arguments: Any) -> None: ...


OFFENSES: list[Offense] = [
    lose_a_link,
    give_a_version_twice,
    keep_what_was_purged,
    forget_who_followed,
    skip_changes,
    restore_without_tags,
    undo_too_little,
    export_no_deletions,
    apply_half_a_batch,
    ignore_the_version,
    expire_nothing,
]
