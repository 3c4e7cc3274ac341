"""Fill one reply with what the items of a mixed batch offer: whole items first, by their weight.

An item that brings several contents counts as one with the size of all. It is granted from the
front: of a reply, one content is cut at most, and behind it nothing more is granted. Files are read
when their turn comes, several at once as long as there seems to be room for them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.files.paths import parse_path
from abilities.helpers.files.reader import FileReader, ReadingSession
from abilities.helpers.gather.found_file import describe_file
from abilities.helpers.gather.groups import Group, count_content_bytes
from abilities.helpers.gather.offers import ItemOffer, Leaf, UnreadFile
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.budget import Allotment, rank
from abilities.helpers.reply.detail import ITEM, RecordShape, choose_shape, shape_record
from abilities.helpers.reply.envelope import (
    FailedRecord,
    FoundItem,
    RecordDraft,
    ReplyRecord,
    build_left_out,
    measure_entry,
)
from abilities.helpers.reply.items import INPUT_CHARS


class Filled(NamedTuple):
    """An item's finished record, and the bytes and the number of the contents in it."""

    record: ReplyRecord
    granted_bytes: int = 0
    granted_leaves: int = 0


class Sharing:
    """The room of one reply, given to one offer after another.

    ``room`` is what `measure_room` returns for the call.
    """

    def __init__(
        self, offers: Sequence[ItemOffer], room: int, bound: Bound, *, is_full: bool
    ) -> None:
        self._offers = offers
        self._bound = bound
        self._is_full = is_full
        self._shape = choose_shape(ITEM, "full" if is_full else "concise")
        self._done: list[Filled | None] = [self._settle(offer) for offer in offers]
        self._left_out = [self._leave_out(offer) for offer in offers]
        self._reserved = [_measure(record) for record in self._left_out]

        for index, done in enumerate(self._done):
            if done is not None:
                self._reserved[index] = _measure(done.record)

        self._allotment = Allotment(room - sum(self._reserved))

    async def run(self, reader: FileReader) -> list[Filled]:
        """Return the records of all offers, in their order. Reads files as they are needed."""
        order = self._rank()

        for turn, index in enumerate(order):
            if not self._allotment.is_used_up:
                await self._load(order[turn:], reader)
                self._done[index] = await self._fill(index, reader)

        return [done or Filled(self._left_out[index]) for index, done in enumerate(self._done)]

    async def _fill(self, index: int, reader: FileReader) -> Filled:
        if self._offers[index].group is None:
            return self._fill_one(index)

        return await self._fill_group(index, reader)

    def _rank(self) -> list[int]:
        waiting = [index for index, done in enumerate(self._done) if done is None]
        sizes = [self._offers[index].size for index in waiting]
        weights = [self._offers[index].weight for index in waiting]
        return [waiting[place] for place in rank(sizes, self._allotment.spare, weights)]

    def _settle(self, offer: ItemOffer) -> Filled | None:
        """Return the record of an offer that needs no room for a content; None for any other."""
        if offer.fault is not None:
            fault = Fault.from_exception(offer.fault)
            text = offer.text
            if fault.code == "INVALID_INPUT":
                text = text[:INPUT_CHARS]
            failed = FailedRecord(fault, {"input": text}, None, self._shape)
            return Filled(ReplyRecord(failed.payload))

        if offer.is_unchanged:
            payload: JsonObject = {"input": offer.text, "success": True, "unchanged": True}
            return Filled(ReplyRecord(payload))

        return None

    def _leave_out(self, offer: ItemOffer) -> ReplyRecord:
        payload = build_left_out(offer.size, {"input": offer.text}, None, self._shape)
        return ReplyRecord(payload, next_item=offer.item)

    async def _load(self, order: Sequence[int], reader: FileReader) -> None:
        """Read the files of the next offer, if any, and of those for which there seems room too."""
        room = self._allotment.spare
        unread: list[Leaf] = []

        for index in order:
            room = _list_unread(self._offers[index].leaves, room, unread)
            if room < 0 or not unread:
                break

        await self._read(unread, reader)

    async def _read(self, leaves: Sequence[Leaf], reader: FileReader) -> None:
        """Put into leaves what reading their files brings."""

        # More characters than the reply has bytes are never needed.
        def read(session: ReadingSession, leaf: Leaf) -> FoundItem:
            assert isinstance(leaf.source, UnreadFile)
            return describe_file(session.read(parse_path(leaf.source.path), self._bound.max_bytes))

        if leaves:
            for leaf, outcome in zip(leaves, await reader.map(read, leaves), strict=True):
                leaf.source = outcome

    def _fill_one(self, index: int) -> Filled:
        """Return the record of an item with one content."""
        offer = self._offers[index]
        reserved = self._reserved[index]
        (leaf,) = offer.leaves
        draft = self._draft(leaf, {"input": offer.text}, None, self._shape)
        if isinstance(draft, ReplyRecord):
            self._allotment.spare += reserved - _measure(draft)
            return Filled(draft)

        granted: int | None = draft.content_size
        if not self._allotment.grant_whole(draft.frame_size + draft.content_size, reserved):
            granted = self._allotment.grant(draft.measure_cost(reserved))
        if granted is None:
            return Filled(self._left_out[index])

        record = draft.finish(granted)
        return Filled(record, count_content_bytes(record), 1)

    async def _fill_group(self, index: int, reader: FileReader) -> Filled:
        """Return the record of an item with several contents, as many as there is room for."""
        offer = self._offers[index]
        allotment = self._allotment
        room = allotment.spare + self._reserved[index]
        group = Group(offer, self._shape)

        for place, leaf in enumerate(offer.leaves):
            if isinstance(leaf.source, UnreadFile):
                unread: list[Leaf] = []
                _list_unread(offer.leaves[place:], room - group.used, unread)
                await self._read(unread, reader)

            draft = self._draft(leaf, leaf.leading, leaf.trailing, self._find_shape(leaf))
            if not group.take(leaf, draft, room):
                allotment.is_used_up = True
                group.cut(leaf, draft, room, has_content=allotment.has_content)
                break

        if allotment.is_used_up and not group.count:
            return Filled(self._left_out[index])

        record = group.build()
        allotment.spare = room - _measure(record)
        allotment.has_content = allotment.has_content or record.returned_chars > 0
        return Filled(record, group.count_bytes(), group.count)

    def _draft(
        self,
        leaf: Leaf,
        leading: JsonObject,
        trailing: JsonObject | None,
        shape: RecordShape | None,
    ) -> RecordDraft | ReplyRecord:
        """Return the draft of a content, or the finished record of what has none."""
        source = leaf.source
        if isinstance(source, FoundItem):
            if leaf.continue_at is not None:
                source = source._replace(continue_at=leaf.continue_at)
            return RecordDraft(source, self._bound, leading, trailing, shape)

        if isinstance(source, dict):
            entry: JsonObject = {**leading, "success": True, "data": source}
            return ReplyRecord(shape_record(entry, shape))

        assert isinstance(source, Exception)
        fault = Fault.from_exception(source)
        return ReplyRecord(FailedRecord(fault, leading, trailing, shape).payload)

    def _find_shape(self, leaf: Leaf) -> RecordShape | None:
        return None if self._is_full else leaf.shape


def _list_unread(leaves: Sequence[Leaf], room: int, unread: list[Leaf]) -> int:
    """Add the files to read for which there is room, one at least; return the room that is left."""
    for leaf in leaves:
        if isinstance(leaf.source, UnreadFile):
            unread.append(leaf)

        room -= leaf.size
        if room < 0:
            break

    return room


def _measure(record: ReplyRecord) -> int:
    return measure_entry(record.payload, record.next_item)
