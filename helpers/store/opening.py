"""Opening and repairing the store at a URL."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from abilities.helpers.search.terms import Language
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.past import DEFAULT_RULES, StoreRules
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.store.repairing import RepairReport
from abilities.helpers.store.sqlite.file import is_store_header as is_store_header
from abilities.helpers.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from abilities.helpers.store.postgres.store import PostgresStore

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")

STORE_SUFFIXES = ("-", ".before-")
"""Continuations of a store's name in the files beside it: its log, lock and earlier states."""


def store_path(url: str) -> Path | None:
    """Return the absolute path of a store that is a file, or None for a database on a server."""
    if not url.startswith(_SQLITE):
        return None

    return Path(url.removeprefix(_SQLITE)).expanduser().absolute()


def check_store_url(url: str) -> None:
    """Raise ValueError, with the valid forms, if a store URL has neither of them."""
    for scheme in (_SQLITE, *_POSTGRES):
        if url.startswith(scheme) and url != scheme:
            return

    raise ValueError(
        "must be 'sqlite:///' and a path, for example 'sqlite:///~/.abilities/memory.db', "
        "or 'postgresql://user@host/database'"
    )


def open_store(
    url: str,
    *,
    max_memories: int | None = None,
    language: str = "english",
    history: HistoryLimits = DEFAULT_RULES.history,
) -> ServableStore:
    """Return the memory store at a URL; it connects when first used.

    ``max_memories`` limits the memories of one namespace; None sets no limit. ``language`` is the
    language of the recall index if the store is new. ``history`` limits the history.

    Raises ValueError if the URL cannot be used, or if its database driver is not installed.
    """
    check_store_url(url)
    path = store_path(url)

    named, rules = Language(language), StoreRules(max_memories, history)
    if path is not None:
        return SqliteStore(path, named, rules)

    return _open_postgres(url, named, rules)


async def repair_store(
    url: str, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
) -> RepairReport:
    """Repair the store at a URL; see `sqlite.repair` and `PostgresStore.repair`.

    Raises ValueError as `open_store` does, and FileExistsError, OSError, Refused, UnsoundCopy.
    """
    path = store_path(url)
    if path is not None:
        from abilities.helpers.store.sqlite.repair import repair

        return await asyncio.to_thread(repair, path, originals, progress, dry_run=dry_run)

    store = _open_postgres(url)
    try:
        return await store.repair(originals, progress, dry_run=dry_run)
    finally:
        await store.close()


def _open_postgres(
    url: str, language: Language | None = None, rules: StoreRules = DEFAULT_RULES
) -> "PostgresStore":
    try:  # not at the top, because the driver is an optional dependency
        from abilities.helpers.store.postgres.store import PostgresStore
    except ImportError:
        raise ValueError(
            "PostgreSQL is not installed; run: pip install 'agent-abilities[postgres]'"
        ) from None

    return PostgresStore(url, language, rules)
