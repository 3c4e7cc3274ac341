"""The store that the settings name."""

from abilities.helpers.stores.protocol import MemoryStore
from abilities.helpers.stores.sqlite import SqliteStore
from abilities.settings import Settings


def store_of(settings: Settings) -> MemoryStore:
    """The memory store at ``store_url``; it is opened when first needed.

    Raises ValueError for a URL that cannot be used, or where what it needs is not installed.
    """
    if settings.in_file:
        return SqliteStore(settings.store_path, max_memories=settings.max_memories)
    try:
        from abilities.helpers.stores.postgres import PostgresStore
    except ImportError:
        raise ValueError("PostgreSQL is not installed; run: pip install 'agent-abilities[postgres]'") from None
    return PostgresStore(settings.store_url, max_memories=settings.max_memories)
