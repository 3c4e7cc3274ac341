"""Offenses against the law, which its trials must notice: each breaks the store on purpose."""

import json
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from abilities import registry
from abilities.cli import backups
from abilities.declarations.refusals import Refused
from abilities.helpers.store import changing, saving
from abilities.helpers.store.changes import Change
from abilities.helpers.store.history import ChangePage
from abilities.helpers.store.model import Row, StoredMemory, dump_sorted_json
from abilities.helpers.store.protocol import WalkResult, WriteResult
from abilities.helpers.store.recall_index import change_terms
from abilities.helpers.store.sqlite import transaction
from abilities.helpers.store.sqlite.backup import RestoredStore
from abilities.helpers.store.sqlite.copying import Progress
from abilities.helpers.store.sqlite.search import add_text
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.store.transaction import Transaction
from abilities.schemas import validate_arguments

Offense = Callable[[pytest.MonkeyPatch], None]


def forget_a_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show a memory without its last tag."""
    read_linked = SqliteStore.read_linked

    async def read_fewer(store: SqliteStore, *arguments: Any) -> StoredMemory:
        stored = await read_linked(store, *arguments)
        tags = dump_sorted_json(json.loads(stored.row.tags)[:-1])
        return stored._replace(row=stored.row._replace(tags=tags))

    monkeypatch.setattr(SqliteStore, "read_linked", read_fewer)


def acknowledge_what_was_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledge deletions without deleting."""
    change = SqliteStore.change

    async def pretend(store: SqliteStore, namespace: str, requested: Change) -> WriteResult:
        if requested.kind == "delete":
            return WriteResult(None, created=False, updated=())
        return await change(store, namespace, requested)

    monkeypatch.setattr(SqliteStore, "change", pretend)


def accept_a_score_of_80(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a score that is too large for none."""

    def validate(model: Any, arguments: Any) -> Any:
        if arguments.get("memory_score") == 80:
            arguments = {**arguments, "memory_score": None}
        return validate_arguments(model, arguments)

    monkeypatch.setattr(registry, "validate_arguments", validate)


def change_what_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archive the memory whose new key is taken."""
    change = SqliteStore.change

    async def refuse(store: SqliteStore, namespace: str, requested: Change) -> WriteResult:
        try:
            return await change(store, namespace, requested)
        except Refused as refused:
            if refused.reason == "key_taken":
                await change(store, namespace, Change("archive", requested.now, requested.id))
            raise

    monkeypatch.setattr(SqliteStore, "change", refuse)


def walk_the_wrong_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow a memory's own links, whichever are asked for."""
    walk = SqliteStore.walk

    async def walk_out(store: SqliteStore, *arguments: Any) -> WalkResult:
        return await walk(store, *arguments[:3])

    monkeypatch.setattr(SqliteStore, "walk", walk_out)


def export_no_archived_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_fewer(store: SqliteStore, *arguments: Any) -> list[Any]:
        page = await read_page(store, *arguments)
        return [memory for memory in page if not cast(StoredMemory, memory).row.archived]

    read_page = SqliteStore.read_page
    monkeypatch.setattr(SqliteStore, "read_page", read_fewer)


def archive_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archive, at every twentieth change, the memory that the twentieth last change was about."""
    change = SqliteStore.change
    ids: deque[str] = deque(maxlen=20)
    numbers = count(1)

    async def harm(store: SqliteStore, namespace: str, requested: Change) -> WriteResult:
        result = await change(store, namespace, requested)
        if result.stored is not None:
            ids.append(result.stored.row.id)

        if next(numbers) % 20 == 0:
            with suppress(Refused):
                await change(store, namespace, Change("archive", requested.now, ids[0]))
        return result

    monkeypatch.setattr(SqliteStore, "change", harm)


def forget_sometimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledge every tenth deletion for good without deleting."""
    change = SqliteStore.change
    numbers = count(1)

    async def pretend(store: SqliteStore, namespace: str, requested: Change) -> WriteResult:
        if requested.kind != "delete" or next(numbers) % 10:
            return await change(store, namespace, requested)

        with suppress(Refused):
            await change(store, namespace, replace(requested, kind="update"))
            return WriteResult(None, created=False, updated=())
        return await change(store, namespace, requested)

    monkeypatch.setattr(SqliteStore, "change", pretend)


def index_half_a_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the search index know the first half of changed texts."""

    def add_half(connection: sqlite3.Connection, memory: int, text: str) -> None:
        add_text(connection, memory, text[: len(text) // 2])

    monkeypatch.setattr(transaction, "add_text", add_half)


def recall_old_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the words of recall as they are when a memory is renamed."""

    async def follow(
        transaction: Transaction, before: Row | None, after: Row | None, *place: Any
    ) -> None:
        if before is None or after is None or before.key == after.key:
            await change_terms(transaction, before, after, *place)

    monkeypatch.setattr(saving, "change_terms", follow)


def recall_what_is_archived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the words of recall among those of present memories when one is archived."""

    async def follow(
        transaction: Transaction, before: Row | None, after: Row | None, *place: Any
    ) -> None:
        if before is not None and after is not None:
            after = after._replace(archived=before.archived)
        await change_terms(transaction, before, after, *place)

    monkeypatch.setattr(saving, "change_terms", follow)


def keep_old_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the ranks of links as they are when the score of a memory changes."""

    async def ignore(transaction: Transaction, row: Row) -> None: ...

    monkeypatch.setattr(saving, "update_ranks", ignore)


def restore_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that a backup was restored, and leave the store as it is."""

    def pretend(copy: Path, store: Path, progress: Progress, *, replace: bool) -> RestoredStore:
        return RestoredStore(None, [])

    monkeypatch.setattr(backups, "restore", pretend)


def make_half_of_what_belongs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what can be made of changes of which all are to be made or none."""
    change_many = SqliteStore.change_many

    async def change_some(
        store: SqliteStore, namespace: str, changes: Sequence[Change], *, atomic: bool
    ) -> list[WriteResult | Exception]:
        results = await change_many(store, namespace, changes, atomic=atomic)
        if any(isinstance(result, Exception) for result in results) and atomic:
            await change_many(store, namespace, changes, atomic=False)
        return results

    monkeypatch.setattr(SqliteStore, "change_many", change_some)


def heed_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make changes whatever the version is that they name."""

    def ignore(change: Change, row: Row | None) -> None: ...

    monkeypatch.setattr(changing, "check_version", ignore)


def list_no_archived_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    list_memories = SqliteStore.list_memories

    async def list_fewer(store: SqliteStore, *arguments: Any, archived: bool) -> list[Any]:
        return list(await list_memories(store, *arguments, archived=False))

    monkeypatch.setattr(SqliteStore, "list_memories", list_fewer)


def miss_the_last_change(monkeypatch: pytest.MonkeyPatch) -> None:
    read_changes = SqliteStore.read_changes

    async def read_fewer(store: SqliteStore, *arguments: Any) -> ChangePage:
        page = await read_changes(store, *arguments)
        return page._replace(changes=page.changes[:-1])

    monkeypatch.setattr(SqliteStore, "read_changes", read_fewer)


OFFENSES: list[Offense] = [
    forget_a_tag,
    acknowledge_what_was_not_done,
    accept_a_score_of_80,
    change_what_was_refused,
    walk_the_wrong_way,
    export_no_archived_memories,
]
"""Those that any trial notices soon."""

LATENT_OFFENSES: list[Offense] = [
    archive_another,
    forget_sometimes,
    index_half_a_content,
    recall_old_keys,
    recall_what_is_archived,
    keep_old_ranks,
    restore_nothing,
    make_half_of_what_belongs_together,
    heed_no_version,
    list_no_archived_memories,
    miss_the_last_change,
]
"""Those that show only sometimes, or not in the record of the memory that a call named."""
