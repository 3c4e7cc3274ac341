"""Open the store that a URL names."""

from pathlib import Path

from abilities.helpers.stores.protocol import ServableStore
from abilities.helpers.stores.sqlite.store import SqliteStore

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


def store_path(url: str) -> Path | None:
    """Return the absolute path of a store that is a file, or None for a database on a server."""
    if not url.startswith(_SQLITE):
        return None

    return Path(url.removeprefix(_SQLITE)).expanduser().absolute()


def check_store_url(url: str) -> None:
    """Raise ValueError, with a sentence that shows the right form, if a store's URL has another."""
    for scheme in (_SQLITE, *_POSTGRES):
        if url.startswith(scheme) and url != scheme:
            return

    raise ValueError(
        "must be 'sqlite:///' and a path, for example 'sqlite:///~/.abilities/memory.db', "
        "or 'postgresql://user@host/database'"
    )


def open_store(url: str, *, max_memories: int | None = None) -> ServableStore:
    """Return the memory store at a URL; it connects when first used.

    ``max_memories`` is the most that one namespace may hold; None sets no limit.
    Raises ValueError if the URL cannot be used, or if its database driver is not installed.
    """
    check_store_url(url)
    path = store_path(url)

    if path is not None:
        return SqliteStore(path, max_memories=max_memories)

    # Imported here, because the driver is an optional dependency.
    try:
        from abilities.helpers.stores.postgres.store import PostgresStore
    except ImportError:
        raise ValueError(
            "PostgreSQL is not installed; run: pip install 'agent-abilities[postgres]'"
        ) from None

    return PostgresStore(url, max_memories=max_memories)
