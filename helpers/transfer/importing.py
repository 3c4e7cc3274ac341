"""Import: memories and their history from a file into a store, in batches.

Importing again changes nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.store.changes import Outcome, is_passing
from abilities.helpers.store.history import Entry
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.transfer.opening import OpenedSource
from abilities.helpers.transfer.patience import Patience
from abilities.helpers.transfer.sources import Source, SourceItem

BATCH = 500
"""Memories or entries of the history that are handed to the store together, or a few more."""

HISTORY = "entries of history"
"""What an import counts the entries under that it stored."""


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
    "--replace puts this one in its place.",
    "purged": "It was purged from this store for good, and no import brings it back.",
}
"""Why a memory is refused, for the person who imports it, by the reason."""

Report = Callable[[ImportNote], None]
"""Is called with each remark."""

Progress = Callable[[int], None]
"""Is called with how much of the source was imported so far, in bytes or memories."""


async def import_memories(
    store: ServableStore,
    opened: OpenedSource,
    options: ImportOptions,
    report: Report,
    progress: Progress,
    counts: Counter[str],
) -> None:
    """Import memories, and count those added, replaced, unchanged, kept, adjusted and refused.

    The history of memories that have none here is stored too, and its entries are counted. It
    waits for a store that does not answer, as `Patience` says. If an import is interrupted,
    ``counts`` says how far it came; run it again to finish it. Every memory that is adjusted,
    refused, or kept although it differs is reported; what a source has that is not kept is counted.
    Raises Refused if the store can take nothing.
    """
    patience = Patience()

    async for batch in _read_batches(opened.source):
        for item in batch:
            _report_item(item, counts, report)

        await _import_history(store, batch, options, counts, patience)
        await _import_batch(store, batch, options, counts, report, patience)
        progress(batch[-1].position)

    progress(opened.length)


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
    """Yield items in lists of at least `BATCH` memories, entries or items, or what is left."""
    batch: list[SourceItem] = []
    parts = 0

    async for item in source:
        batch.append(item)
        parts += len(item.memories) + len(item.past)

        # An item may be many memories, or none if it is unusable, so both are counted.
        if max(parts, len(batch)) >= BATCH:
            yield batch
            batch = []
            parts = 0

    if batch:
        yield batch


async def _import_history(
    store: ServableStore,
    batch: list[SourceItem],
    options: ImportOptions,
    counts: Counter[str],
    patience: Patience,
) -> None:
    entries: list[Entry] = []
    for item in batch:
        entries += item.past

    if entries and not options.dry_run:
        counts[HISTORY] += await patience.call(partial(store.import_entries, entries))


async def _import_batch(
    store: ServableStore,
    batch: list[SourceItem],
    options: ImportOptions,
    counts: Counter[str],
    report: Report,
    patience: Patience,
) -> None:
    waiting = [(item.place, memory) for item in batch for memory in item.memories]

    while waiting:
        memories = [memory for _, memory in waiting]
        work = partial(
            store.import_batch, memories, replace=options.replace, dry_run=options.dry_run
        )
        outcomes = await patience.call(work)

        unanswered: list[tuple[str, IncomingMemory]] = []
        for (place, memory), outcome in zip(waiting, outcomes, strict=True):
            if is_passing(outcome):
                unanswered.append((place, memory))
            else:
                _count_outcome(place, memory, outcome, counts, report)

        if len(unanswered) == len(waiting):
            assert isinstance(outcomes[0], Refused)
            await patience.wait(outcomes[0])
        waiting = unanswered


def _count_outcome(
    place: str,
    memory: IncomingMemory,
    outcome: Outcome | Exception,
    counts: Counter[str],
    report: Report,
) -> None:
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
