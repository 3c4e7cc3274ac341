"""Offenses against the law, which its trials must notice: each breaks the store on purpose."""

import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from itertools import count
from typing import Any

import pytest

from abilities import registry
from abilities.cli import store as commands
from abilities.declarations.refusals import Refused
from abilities.helpers.store import changing, linking, saving
from abilities.helpers.store.changes import Change
from abilities.helpers.store.model import Row, dump_sorted_json
from abilities.helpers.store.protocol import WriteResult
from abilities.helpers.store.sqlite import transaction
from abilities.helpers.store.sqlite.backup import RestoredStore
from abilities.helpers.store.sqlite.store import SqliteStore

Offense = Callable[[pytest.MonkeyPatch], None]


def instead_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], Offense]:
    """Make an offense of what is done in place of a function; it gets that function first."""

    def make_offense(act: Callable[..., Any]) -> Offense:
        @wraps(act)
        def offend(monkeypatch: pytest.MonkeyPatch) -> None:
            original = getattr(owner, name)

            def act_instead(*arguments: Any, **named: Any) -> Any:
                return act(original, *arguments, **named)

            monkeypatch.setattr(owner, name, act_instead)

        return offend

    return make_offense


@instead_of(SqliteStore, "read_linked")
async def forget_a_tag(read_linked: Any, *arguments: Any) -> Any:
    """Show a memory without its last tag."""
    stored = await read_linked(*arguments)
    tags = dump_sorted_json(json.loads(stored.row.tags)[:-1])
    return stored._replace(row=stored.row._replace(tags=tags))


@instead_of(SqliteStore, "change")
async def acknowledge_what_was_not_done(
    change: Any, store: SqliteStore, namespace: str, requested: Change
) -> Any:
    """Acknowledge deletions without deleting."""
    if requested.kind == "delete":
        return WriteResult(None, created=False, updated=())
    return await change(store, namespace, requested)


@instead_of(registry, "validate_arguments")
def accept_a_score_of_80(validate: Any, model: Any, arguments: Any) -> Any:
    """Take a score that is too large for none."""
    if arguments.get("memory_score") == 80:
        arguments = {**arguments, "memory_score": None}
    return validate(model, arguments)


@instead_of(SqliteStore, "change")
async def change_what_was_refused(
    change: Any, store: SqliteStore, namespace: str, requested: Change
) -> Any:
    """Archive the memory whose new key is taken."""
    try:
        return await change(store, namespace, requested)
    except Refused as refused:
        if refused.reason == "key_taken":
            await change(store, namespace, Change("archive", requested.now, requested.id))
        raise


@instead_of(SqliteStore, "walk")
async def walk_the_wrong_way(walk: Any, store: SqliteStore, *arguments: Any) -> Any:
    """Follow a memory's own links, whichever are asked for."""
    return await walk(store, *arguments[:3])


@instead_of(SqliteStore, "read_page")
async def export_no_archived_memories(read_page: Any, *arguments: Any) -> Any:
    return [memory for memory in await read_page(*arguments) if not memory.row.archived]


def archive_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archive, at every twentieth change, the memory that the twentieth last change was about."""
    ids: deque[str] = deque(maxlen=20)
    numbers = count(1)

    @instead_of(SqliteStore, "change")
    async def harm(change: Any, store: SqliteStore, namespace: str, requested: Change) -> Any:
        result = await change(store, namespace, requested)
        if result.stored is not None:
            ids.append(result.stored.row.id)
        if next(numbers) % 20 == 0:
            with suppress(Refused):
                await change(store, namespace, Change("archive", requested.now, ids[0]))
        return result

    harm(monkeypatch)


def forget_sometimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledge every tenth deletion for good without deleting."""
    numbers = count(1)

    @instead_of(SqliteStore, "change")
    async def pretend(change: Any, store: SqliteStore, namespace: str, requested: Change) -> Any:
        if requested.kind != "delete" or next(numbers) % 10:
            return await change(store, namespace, requested)
        with suppress(Refused):
            await change(store, namespace, replace(requested, kind="update"))
            return WriteResult(None, created=False, updated=())
        return await change(store, namespace, requested)

    pretend(monkeypatch)


@instead_of(transaction, "add_text")
def index_half_a_content(add_text: Any, connection: Any, memory: int, text: str) -> None:
    """Let the search index know the first half of changed texts."""
    add_text(connection, memory, text[: len(text) // 2])


@instead_of(saving, "change_terms")
async def recall_old_keys(
    change_terms: Any, transaction: Any, before: Row | None, after: Row | None, *place: Any
) -> None:
    """Leave the words of recall as they are when a memory is renamed."""
    if before is None or after is None or before.key == after.key:
        await change_terms(transaction, before, after, *place)


@instead_of(saving, "change_terms")
async def recall_what_is_archived(
    change_terms: Any, transaction: Any, before: Row | None, after: Row | None, *place: Any
) -> None:
    """Leave the words of recall among those of present memories when one is archived."""
    if before is not None and after is not None:
        after = after._replace(archived=before.archived)
    await change_terms(transaction, before, after, *place)


@instead_of(linking, "update_ranks")
async def keep_old_ranks(*_: Any) -> None:
    """Leave the ranks of links as they are when the score of a memory changes."""


@instead_of(commands, "restore")
def restore_nothing(*_: Any, replace: bool) -> RestoredStore:
    """Say that a backup was restored, and leave the store as it is."""
    return RestoredStore(None, [])


@instead_of(SqliteStore, "change_many")
async def make_half_of_what_belongs_together(
    change_many: Any, *arguments: Any, atomic: bool
) -> Any:
    """Make what can be made of changes of which all are to be made or none."""
    results = await change_many(*arguments, atomic=atomic)
    if any(isinstance(result, Exception) for result in results) and atomic:
        await change_many(*arguments, atomic=False)
    return results


@instead_of(changing, "check_version")
def heed_no_version(*_: Any) -> None:
    """Make changes whatever the version is that they name."""


@instead_of(SqliteStore, "list_memories")
async def list_no_archived_memories(
    list_memories: Any, *arguments: Any, archived: bool
) -> list[Any]:
    return list(await list_memories(*arguments, archived=False))


@instead_of(SqliteStore, "read_changes")
async def miss_the_last_change(read_changes: Any, *arguments: Any) -> Any:
    page = await read_changes(*arguments)
    return page._replace(changes=page.changes[:-1])


OFFENSES = [forget_a_tag, acknowledge_what_was_not_done, accept_a_score_of_80]
OFFENSES += [change_what_was_refused, walk_the_wrong_way, export_no_archived_memories]
"""Those that any trial notices soon."""

LATENT_OFFENSES = [archive_another, forget_sometimes, index_half_a_content, recall_old_keys]
LATENT_OFFENSES += [recall_what_is_archived, keep_old_ranks, restore_nothing]
LATENT_OFFENSES += [make_half_of_what_belongs_together, heed_no_version]
LATENT_OFFENSES += [list_no_archived_memories, miss_the_last_change]
"""Those that show only sometimes, or not in the record of the memory that a call named."""
