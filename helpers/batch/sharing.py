"""Fill one reply with what the items of a batch offer: whole items first, by their weight.

An item that brings several contents counts as one with the size of all. It is granted from the
front: of a reply, one content is cut at most, and behind it nothing more is granted. Files are read
when their turn comes, several at once as long as they surely have room.

Each reply brings its caller further, also with the least room that a call may have, which is that
for a piece of the item that takes the most. So a next request needs no more than the call that it
belongs to; where items go on is said in room that their first pieces leave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.batch.items import (
    BatchSources,
    Cursor,
    ItemOffer,
    Leaf,
    UnreadFile,
    describe_file,
    foresee_file,
)
from abilities.helpers.files.confinement import parse_path
from abilities.helpers.files.reader import ReadingSession
from abilities.helpers.reply.budget import MIN_SHARE, Allotment, Bound, rank
from abilities.helpers.reply.detail import RecordShape, shape_record
from abilities.helpers.reply.envelope import (
    INPUT_CHARS,
    BulkRequest,
    FailedRecord,
    FoundItem,
    RecordDraft,
    ReplyRecord,
    assemble_reply,
    build_left_out,
    measure_entry,
    measure_room,
)
from abilities.helpers.text.codec import replace_markers

_AMPLE_BYTES = 8192
"""Room in which there is some for any content: what items need at least is not counted."""

_WIDEST_BYTE = 6
"""Bytes that one of a file may take in a reply: JSON writes U+0001 as an escape of six."""

_UNFORESEEN_BYTES = 96
"""What the record of a file may have besides: its encoding, counts of what was replaced, and twice
the end of the part that was asked for.
"""


async def fill_reply(
    request: BulkRequest,
    offers: Sequence[ItemOffer],
    bound: Bound,
    sources: BatchSources | None = None,
) -> JsonObject:
    """Return the reply to a batch, with as much of the offers as its bound allows.

    Files that the offers have not read are read from ``sources``.
    """
    records = await _Sharing(request, offers, bound, sources).run()
    next_items = [record.next_item for record in records if record.next_item is not None]
    return assemble_reply(request, records, next_items)


class _Sharing:
    """The room of one reply, given to one offer after another."""

    def __init__(
        self,
        request: BulkRequest,
        offers: Sequence[ItemOffer],
        bound: Bound,
        sources: BatchSources | None,
    ) -> None:
        self._offers = offers
        self._bound = bound
        self._sources = sources
        self._shape = request.shape
        self._room = measure_room(request, bound)
        self._allotment = Allotment(0)
        self._done: list[ReplyRecord | None] = [self._settle(offer) for offer in offers]
        self._drafts: dict[int, RecordDraft | ReplyRecord] = {}
        self._left_out: dict[int, ReplyRecord] = {}
        self._reserved: list[int] = []

    async def run(self) -> list[ReplyRecord]:
        """Return the records of all offers, in their order. Reads files as they are needed."""
        if self._has_room_for_all():
            return [done or self._fill_whole(index) for index, done in enumerate(self._done)]

        self._reserve()
        order = self._rank()

        for turn, index in enumerate(order):
            if not self._allotment.is_used_up:
                await self._load(order[turn:])
            if not self._allotment.is_used_up:
                self._done[index] = await self._fill(index)

        return [done or self._left_out[index] for index, done in enumerate(self._done)]

    def _has_room_for_all(self) -> bool:
        """Return whether all has been read, one content per item, and fits: most replies do."""
        room = self._room
        for index, (offer, done) in enumerate(zip(self._offers, self._done, strict=True)):
            if done is not None:
                room -= _measure(done)
                continue

            if offer.group is not None or isinstance(offer.leaves[0].source, UnreadFile):
                return False

            draft = self._draft_one(index)
            if isinstance(draft, ReplyRecord):
                room -= _measure(draft)
            else:
                room -= draft.frame_size + draft.content_size

        return room >= 0

    def _fill_whole(self, index: int) -> ReplyRecord:
        draft = self._draft_one(index)
        return draft if isinstance(draft, ReplyRecord) else draft.finish(draft.content_size)

    def _reserve(self) -> None:
        """Reserve for each item what it takes if it is left out."""
        for index, done in enumerate(self._done):
            if done is None:
                self._left_out[index] = self._leave_out(self._offers[index])
            record = self._left_out[index] if done is None else done
            self._reserved.append(_measure(record))

        self._allotment.spare = self._room - sum(self._reserved)

    async def _fill(self, index: int) -> ReplyRecord:
        if self._offers[index].group is None:
            return self._fill_one(index)

        return await self._fill_group(index)

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
        cuts = [self._measure_cut(offer, leaf) for leaf in offer.leaves]
        frame = 0 if offer.group is None else Group(offer, self._shape).cut_frame
        return frame + max(cuts, default=0) - self._reserved[index]

    def _measure_cut(self, offer: ItemOffer, leaf: Leaf) -> int:
        """Return the bytes of a content's record with the least of the content."""
        if isinstance(leaf.source, UnreadFile):
            leaf = replace(leaf, source=foresee_file(leaf.source.path))

        draft = self._draft(offer, leaf)
        if isinstance(draft, ReplyRecord):
            return _measure(draft)

        return draft.measure_cost(0).cut + _find_share(offer)

    def _settle(self, offer: ItemOffer) -> ReplyRecord | None:
        """Return the record of an offer that needs no room for a content; None for any other."""
        if offer.fault is not None:
            fault = Fault.from_exception(offer.fault)
            text = offer.text
            if fault.code == "INVALID_INPUT":
                text = text[:INPUT_CHARS]
            failed = FailedRecord(fault, {"input": text}, None, self._shape)
            return ReplyRecord(failed.payload)

        if offer.is_unchanged:
            payload: JsonObject = {"input": offer.text, "success": True, "unchanged": True}
            return ReplyRecord(payload)

        return None

    def _leave_out(self, offer: ItemOffer) -> ReplyRecord:
        payload = build_left_out(offer.whole_size, {"input": offer.text}, None, self._shape)
        return ReplyRecord(payload, next_item=offer.item)

    async def _load(self, order: Sequence[int]) -> None:
        """Read the file of the next offer, if any, and of those for which there is room anyway."""
        offer, allotment = self._offers[order[0]], self._allotment
        if offer.group is None and isinstance(offer.leaves[0].source, UnreadFile):
            least = self._foresee(offer, offer.leaves[0]) - self._reserved[order[0]]
            if allotment.has_content and least > allotment.spare:
                allotment.is_used_up = True  # it would be read in vain
                return

        room = allotment.spare
        unread: list[tuple[Leaf, int]] = []

        for index in order:
            offer = self._offers[index]
            room = self._list_unread(offer, offer.leaves, room, unread)
            if room < 0 or not unread:
                break

        await self._read(unread, allotment.spare)

    def _list_unread(
        self,
        offer: ItemOffer,
        leaves: Sequence[Leaf],
        room: int,
        unread: list[tuple[Leaf, int]],
    ) -> int:
        """Add the files for which there seems room, one at least; return the room that is left.

        Each has the bytes that its record takes in any case.
        """
        for leaf in leaves:
            if isinstance(leaf.source, UnreadFile):
                unread.append((leaf, self._foresee(offer, leaf)))

            room -= leaf.size
            if room < 0:
                break

        return room

    def _foresee(self, offer: ItemOffer, leaf: Leaf) -> int:
        """Return the most bytes that the record of a file takes with the least of its content."""
        return self._measure_cut(offer, leaf) + _UNFORESEEN_BYTES

    async def _read(self, files: Sequence[tuple[Leaf, int]], room: int) -> None:
        """Put into leaves what reading their files brings: the first, and others that surely fit.

        How much a content takes is only known when it has been read, and several threads read at
        once: each reserves the most that its file may take, and gives back what that did not.
        """
        if not files:
            return

        sources = self._sources
        assert sources is not None
        # More characters than the reply has bytes are never needed.
        max_chars = min(sources.max_chars, self._bound.max_bytes)
        lock, is_over = Lock(), False

        def read(session: ReadingSession, file: tuple[Leaf, int]) -> FoundItem | UnreadFile:
            nonlocal room, is_over
            leaf, frame = file
            assert isinstance(leaf.source, UnreadFile)
            most = frame + _WIDEST_BYTE * leaf.size
            with lock:
                is_over = is_over or (room < most and file is not files[0])
                if is_over:
                    return leaf.source  # and so are all behind it, which have their turn later
                room -= most

            found = describe_file(session.read(parse_path(leaf.source.path), max_chars))
            size = self._bound.measure_content(replace_markers(found.piece.text))
            with lock:
                room += most - frame - size
            return found

        try:
            outcomes = await sources.wait(sources.files.map(read, files, sources.known_lines))
        except Refused as error:
            outcomes = [error] * len(files)

        for (leaf, _), outcome in zip(files, outcomes, strict=True):
            leaf.source = outcome

    def _fill_one(self, index: int) -> ReplyRecord:
        """Return the record of an item with one content."""
        offer = self._offers[index]
        reserved = self._reserved[index]
        draft = self._draft_one(index)
        if isinstance(draft, ReplyRecord):
            self._allotment.spare += reserved - _measure(draft)
            self._allotment.has_content = True
            return draft

        granted: int | None = draft.content_size
        if not self._allotment.grant_whole(draft.frame_size + draft.content_size, reserved):
            granted = self._allotment.grant(draft.measure_cost(reserved), _find_share(offer))
        if granted is None:
            return self._left_out[index]

        return draft.finish(granted)

    async def _fill_group(self, index: int) -> ReplyRecord:
        """Return the record of an item with several contents, as many as there is room for."""
        offer = self._offers[index]
        allotment = self._allotment
        room = allotment.spare + self._reserved[index]
        group = Group(offer, self._shape)

        for place, leaf in enumerate(offer.leaves):
            if isinstance(leaf.source, UnreadFile):
                unread: list[tuple[Leaf, int]] = []
                left = room - group.used
                self._list_unread(offer, offer.leaves[place:], left, unread)
                await self._read(unread, left)

            draft = self._draft(offer, leaf)
            if not group.take(leaf, draft, room):
                allotment.is_used_up = True
                has_content = allotment.has_content
                group.cut(leaf, draft, room, least=_find_share(offer), has_content=has_content)
                break

        if allotment.is_used_up and not group.count:
            return self._left_out[index]

        record = group.build()
        allotment.spare = room - _measure(record)
        allotment.has_content = True
        return record

    def _draft_one(self, index: int) -> RecordDraft | ReplyRecord:
        """Return the draft of an item with one content, which has been read."""
        if index not in self._drafts:
            offer = self._offers[index]
            (leaf,) = offer.leaves
            self._drafts[index] = self._draft(offer, leaf)

        return self._drafts[index]

    def _draft(self, offer: ItemOffer, leaf: Leaf) -> RecordDraft | ReplyRecord:
        """Return the draft of a content, or the finished record of what has none."""
        # The one content of an item is its record; of several, each is a record within it.
        leading, trailing, shape = leaf.leading, leaf.trailing, leaf.shape
        if offer.group is None:
            leading, trailing, shape = {"input": offer.text}, None, self._shape
        if self._shape is None:
            shape = None

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


def _find_share(offer: ItemOffer) -> int:
    """Return the bytes of content that there must be for an item that comes first."""
    # When it goes on, its cursor takes some of what it gets now.
    return MIN_SHARE if offer.is_begun else 2 * MIN_SHARE


def _measure(record: ReplyRecord) -> int:
    return measure_entry(record.payload, record.next_item)


_WIDEST_RESUME = f"byte={'0' * 18}-{'0' * 18}@{'0' * 12}"
_WIDEST_COUNT = 10**7


class _Taken(NamedTuple):
    """A content that was taken, and the bytes that its record takes."""

    leaf: Leaf
    draft: RecordDraft | ReplyRecord
    record: ReplyRecord
    size: int


class Group:
    """The contents that were taken of an offer, from the front, and where it goes on."""

    def __init__(self, offer: ItemOffer, shape: RecordShape | None) -> None:
        self._offer = offer
        self._shape = shape
        self._taken: list[_Taken] = []
        self._cursor = offer.unfinished

        self._frame = self._measure_frame(self._cursor)
        self._cut_frame = self._measure_frame(self._find_widest_cursor())

    @property
    def count(self) -> int:
        """How many contents were taken."""
        return len(self._taken)

    @property
    def cut_frame(self) -> int:
        """The bytes of the record without contents, if it goes on anywhere."""
        return self._cut_frame

    @property
    def used(self) -> int:
        """The bytes of the record as it is now."""
        return self._frame + self._size

    def take(self, leaf: Leaf, draft: RecordDraft | ReplyRecord, room: int) -> bool:
        """Take the next content, if the record still fits into the room; return whether it does."""
        if isinstance(draft, RecordDraft):
            size = draft.frame_size + draft.content_size
        else:
            size = measure_entry(draft.payload, None)

        if self.used + size > room:
            return False

        record = draft.finish(draft.content_size) if isinstance(draft, RecordDraft) else draft
        self._taken.append(_Taken(leaf, draft, record, size))
        return True

    def cut(
        self,
        leaf: Leaf,
        draft: RecordDraft | ReplyRecord,
        room: int,
        *,
        least: int,
        has_content: bool,
    ) -> None:
        """End the group at a content that does not fit; take as much of that one as does.

        Unless the reply ``has_content`` already, that is ``least`` bytes of it in any case.
        """
        # Saying where it goes on takes room too, which what was taken last may have to make.
        while self._taken and self._cut_frame + self._size > room:
            leaf, draft, _, _ = self._taken.pop()

        if self._taken:
            self._cursor = Cursor(self._taken[-1].leaf.position)
            has_content = True

        if isinstance(draft, ReplyRecord):
            # It cannot be cut, and a reply with nothing at all would not get ahead.
            if not has_content:
                self._cursor = Cursor(leaf.position)
                self._taken.append(_Taken(leaf, draft, draft, measure_entry(draft.payload, None)))
            return

        if leaf.atomic and has_content:
            return

        granted = room - self._cut_frame - self._size - draft.measure_cost(0).cut
        if granted < MIN_SHARE and has_content:
            return

        record = draft.finish(granted if has_content else max(granted, least))
        self._cursor = Cursor(leaf.position)
        if record.next_item is not None and not leaf.atomic:
            assert isinstance(leaf.source, FoundItem)
            self._cursor = Cursor(leaf.position, leaf.source.piece.resume(record.returned_chars))
        self._taken.append(_Taken(leaf, draft, record, measure_entry(record.payload, None)))

    def build(self) -> ReplyRecord:
        """Return the record."""
        records = [taken.record.payload for taken in self._taken]
        chars = sum(taken.record.returned_chars for taken in self._taken)
        return self._assemble(records, self._cursor, chars)

    @property
    def _size(self) -> int:
        return sum(taken.size for taken in self._taken)

    def _find_widest_cursor(self) -> Cursor:
        positions = [leaf.position for leaf in self._offer.leaves]
        if self._offer.unfinished is not None:
            positions.append(self._offer.unfinished.position)

        return Cursor(max(positions, key=json_size, default=""), _WIDEST_RESUME)

    def _measure_frame(self, cursor: Cursor | None) -> int:
        """Return the bytes of the record without contents, if it goes on at a cursor, or ends."""
        record = self._assemble([], cursor, _WIDEST_COUNT)
        return measure_entry(record.payload, record.next_item)

    def _assemble(
        self, records: list[JsonObject], cursor: Cursor | None, chars: int
    ) -> ReplyRecord:
        offer = self._offer
        data: JsonObject = {"items": records, **(offer.group or {})}
        if offer.version is not None:
            data["version"] = offer.version

        payload: JsonObject = {"input": offer.text, "success": True, "data": data}
        if cursor is None:
            return ReplyRecord(shape_record(payload, self._shape), chars)

        assert offer.go_on is not None
        next_item = offer.go_on(cursor)
        reason = "time" if cursor is offer.unfinished else "budget"
        payload["truncation"] = {"reason": reason, "returned_chars": chars, "next": next_item}
        return ReplyRecord(shape_record(payload, self._shape), chars, next_item)
