"""The items of a mixed batch as they were asked for, and where contents are gathered from."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from abilities.declarations.faults import Refused
from abilities.declarations.read import Kind, ReadItem
from abilities.helpers.files.lister import FileLister
from abilities.helpers.files.reader import FileReader, LinesOfFiles
from abilities.helpers.files.searcher import FileSearcher
from abilities.helpers.gather.cursors import START, Cursor
from abilities.helpers.gather.offers import ItemOffer
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.reply.items import Item

CALL_SECONDS = 10.0
"""After that long what was not gathered is answered with a timeout."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class AskedItem:
    """An item of a call.

    ``item`` is what was sent, a path or an object, and ``text`` the same as its record repeats it.
    ``fields`` are its values, those of the model that belongs to its ``kind``.
    """

    kind: Kind
    item: Item
    text: str
    fields: ReadItem
    cursor: Cursor = START

    def go_on(self, cursor: Cursor) -> Item:
        """Return the item to send for what comes at a cursor."""
        assert not isinstance(self.item, str)  # a path goes on by its suffix
        rest = {name: value for name, value in self.item.items() if name != "known"}
        return {**rest, "after": cursor.format()}

    def begin_offer(self, version: str | int | None = None) -> ItemOffer:
        """Return an offer without contents; one is unchanged if the caller knows its version."""
        return ItemOffer(
            text=self.text,
            item=self.item,
            weight=self.fields.weight,
            version=version,
            is_unchanged=version is not None and str(version) == self.fields.known,
            go_on=self.go_on,
            is_begun=self.cursor != START,
        )

    def fail(self, fault: Exception) -> ItemOffer:
        """Return the offer of an item that failed."""
        return ItemOffer(self.text, self.item, fault=fault)


def _find_deadline() -> float:
    return asyncio.get_running_loop().time() + CALL_SECONDS


@dataclass(frozen=True, slots=True)
class BatchSources:
    """Where a call's items are gathered from, how much they may bring, and until when."""

    files: FileReader
    lister: FileLister
    searcher: FileSearcher
    memory: MemoryHelper
    max_bytes: int
    max_chars: int
    """Characters of one content at most."""
    name_glob: Callable[[str], str] | None = None
    """Returns how to ask for the files of a pattern; None if the caller may not list files."""
    may_recall: bool = True
    """Whether the caller may ask questions, so that a search may be answered with one."""
    deadline: float = field(default_factory=_find_deadline)
    known_lines: LinesOfFiles = field(default_factory=LinesOfFiles)

    async def wait(self, work: Awaitable[ResultT]) -> ResultT:
        """Return what a part of the call returns. Raises Refused("timeout") if time is over."""
        try:
            async with asyncio.timeout_at(self.deadline):
                return await work
        except TimeoutError:
            raise Refused("timeout") from None


GatherOne = Callable[[AskedItem, BatchSources], Awaitable[ItemOffer]]
"""Returns the offer of an item, or raises why it fails."""


async def gather_each(
    gather_one: GatherOne, asked: Sequence[AskedItem], sources: BatchSources
) -> list[ItemOffer]:
    """Return one offer per item; one that fails fails alone."""
    offers: list[ItemOffer] = []

    for item in asked:
        try:
            offers.append(await gather_one(item, sources))
        except Exception as error:
            offers.append(item.fail(error))

    return offers
