"""An import into an open store, as tests make it that look at the store meanwhile or thereafter."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.transfer.importing import (
    ImportNote,
    ImportOptions,
    import_memories,
    open_source,
)


async def import_file(
    store: ServableStore,
    source: Path,
    *,
    namespace: str = "default",
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    note: Callable[[ImportNote], None] = lambda _: None,
) -> Counter[str]:
    """Import a file, or a folder of sessions, and return the numbers of the outcomes."""
    counts: Counter[str] = Counter()
    async with open_source(source, namespace, all_into_it=False) as opened:
        options = ImportOptions(dry_run=dry_run)
        await import_memories(store, opened, options, note, progress, counts)

    return counts
