"""Fill one reply with what the items of a mixed batch offer: whole items first, by their weight.

An item that brings several contents counts as one with the size of all. It is granted from the
front: of a reply, one content is cut at most, and behind it nothing more is granted. Files are read
when their turn comes, several at once as long as there seems to be room for them.

Each reply brings its caller further, also with the least room that a call may have, which is that
for a piece of the item that takes the most. So a next request needs no more than the call that it
belongs to; where items go on is said in room that their first pieces leave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.files.paths import parse_path
from abilities.helpers.files.reader import FileReader, ReadingSession
from abilities.helpers.gather.found_file import describe_file, foresee_file
from abilities.helpers.gather.groups import Group, count_content_bytes
from abilities.helpers.gather.offers import ItemOffer, Leaf, UnreadFile
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.budget import MIN_SHARE, Allotment, rank
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

_AMPLE_BYTES = 8192
"""Room in which there is some for any content: what items need at least is not counted."""


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
        if self._allotment.spare < _AMPLE_BYTES:
            least = {index: self._measure_least(index) for index in waiting}
            if max(least.values(), default=0) > self._allotment.spare:
                return self._rank_narrowly(waiting, least)

        sizes = [self._offers[index].size for index in waiting]
        weights = [self._offers[index].weight for index in waiting]
        return [waiting[place] for place in rank(sizes, self._allotment.spare, weights)]

    def _rank_narrowly(self, waiting: Sequence[int], least: Mapping[int, int]) -> list[int]:
        """Return the order if there is no room for the item that takes the most."""
        if not any(self._offers[index].is_begun for index in waiting):
            return sorted(waiting, key=least.__getitem__, reverse=True)  # the call is refused

        # Cursors took the room; it comes back as items end, the small ones the soonest.
        def height(index: int) -> tuple[bool, bool, int]:
            offer = self._offers[index]
            return least[index] > self._allotment.spare, not offer.is_begun, offer.size

        return sorted(waiting, key=height)

    def _measure_least(self, index: int) -> int:
        """Return the bytes that an item takes with the least of any content, but not left out."""
        offer = self._offers[index]
        if offer.group is None:
            (leaf,) = offer.leaves
            cut = self._measure_cut(offer, leaf, {"input": offer.text}, None, self._shape)
            return cut - self._reserved[index]

        cuts = [
            self._measure_cut(offer, leaf, leaf.leading, leaf.trailing, self._find_shape(leaf))
            for leaf in offer.leaves
        ]
        frame = Group(offer, self._shape).cut_frame
        return frame + max(cuts, default=0) - self._reserved[index]

    def _measure_cut(
        self,
        offer: ItemOffer,
        leaf: Leaf,
        leading: JsonObject,
        trailing: JsonObject | None,
        shape: RecordShape | None,
    ) -> int:
        """Return the bytes of a content's record with the least of the content."""
        if isinstance(leaf.source, UnreadFile):
            leaf = replace(leaf, source=foresee_file(leaf.source.path))

        draft = self._draft(leaf, leading, trailing, shape)
        if isinstance(draft, ReplyRecord):
            return _measure(draft)

        return draft.measure_cost(0).cut + _find_share(offer)

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
            self._allotment.has_content = True
            return Filled(draft)

        granted: int | None = draft.content_size
        if not self._allotment.grant_whole(draft.frame_size + draft.content_size, reserved):
            granted = self._allotment.grant(draft.measure_cost(reserved), _find_share(offer))
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
                has_content = allotment.has_content
                group.cut(leaf, draft, room, least=_find_share(offer), has_content=has_content)
                break

        if allotment.is_used_up and not group.count:
            return Filled(self._left_out[index])

        record = group.build()
        allotment.spare = room - _measure(record)
        allotment.has_content = True
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


def _find_share(offer: ItemOffer) -> int:
    """Return the bytes of content that there must be for an item that comes first."""
    # When it goes on, its cursor takes some of what it gets now.
    return MIN_SHARE if offer.is_begun else 2 * MIN_SHARE


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
