"""Import: memories from a file into a store, in batches. Importing again changes nothing."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import IncomingMemory
from abilities.helpers.stores.protocol import TransferableStore
from abilities.helpers.transfer.opening import OpenedSource
from abilities.helpers.transfer.sources import Source, SourceItem

BATCH = 500
"""Memories that are handed to the store together."""


class ImportNote(NamedTuple):
    """A remark on one memory: its place in the file, its key if known, and sentences.

    A remark on a kind of rows has the number of them, and its place says which they are.
    """

    place: str
    key: str | None
    words: str
    rows: int | None = None


class ImportOptions(NamedTuple):
    """What a person asks of one import.

    Memories that exist and differ are kept, unless ``replace`` is set. A ``dry_run`` changes
    nothing.
    """

    replace: bool = False
    dry_run: bool = False


_HINTS = {
    "checksum_mismatch": "The stored memory is damaged and was kept; "
    "--replace puts this one in its place."
}
"""Why a memory is refused, for the person who imports it, by the reason."""

Report = Callable[[ImportNote], None]
"""Is called with each remark."""

Progress = Callable[[int], None]
"""Is called with how much of the source was imported so far, in bytes or memories."""


async def import_memories(
    store: TransferableStore,
    opened: OpenedSource,
    options: ImportOptions,
    report: Report,
    progress: Progress,
) -> Counter[str]:
    """Import memories, and count those added, replaced, unchanged, kept, adjusted and refused.

    If an import is interrupted, run it again to finish it. Every memory that is adjusted, refused,
    or kept although it differs is reported; what a source has that is not kept is counted. Raises
    Refused if the store can take nothing.
    """
    counts: Counter[str] = Counter()

    async for batch in _read_batches(opened.source):
        for item in batch:
            _report_item(item, counts, report)

        await _import_batch(store, batch, options, counts, report)
        progress(batch[-1].position)

    progress(opened.length)
    return counts


def _report_item(item: SourceItem, counts: Counter[str], report: Report) -> None:
    """Report what the source itself says of an item, before a store has seen it."""
    words = " ".join(item.notes)

    if item.unusable is not None:
        counts["refused"] += 1
        report(ImportNote(item.place, None, item.unusable))
    elif item.rows is not None:
        report(ImportNote(item.place, None, words, item.rows))
    elif words:
        counts["adjusted"] += 1
        report(ImportNote(item.place, item.memories[0].stored.row.key, words))


async def _read_batches(source: Source) -> AsyncIterator[list[SourceItem]]:
    """Yield items in lists of at least `BATCH` memories or items; the last one is shorter."""
    batch: list[SourceItem] = []
    memories = 0

    async for item in source:
        batch.append(item)
        memories += len(item.memories)

        # An item may be many memories, or none if it is unusable, so both are counted.
        if max(memories, len(batch)) >= BATCH:
            yield batch
            batch = []
            memories = 0

    if batch:
        yield batch


async def _import_batch(
    store: TransferableStore,
    batch: list[SourceItem],
    options: ImportOptions,
    counts: Counter[str],
    report: Report,
) -> None:
    places: list[str] = []
    memories: list[IncomingMemory] = []

    for item in batch:
        places += [item.place] * len(item.memories)
        memories += item.memories

    if not memories:
        return

    outcomes = await store.import_batch(memories, replace=options.replace, dry_run=options.dry_run)

    for place, memory, outcome in zip(places, memories, outcomes, strict=True):
        key = memory.stored.row.key

        if isinstance(outcome, Refused):
            counts["refused"] += 1
            report(ImportNote(place, key, _HINTS.get(outcome.reason, outcome.message)))
        elif isinstance(outcome, Exception):
            raise outcome  # nothing about this one memory, so the next ones would fail too
        else:
            counts[outcome] += 1

        if outcome == "kept":
            report(ImportNote(place, key, "It differs from the stored memory, which was kept."))
