"""Fill one reply with the offers of a batch: whole items first, by their weight.

An item with several contents counts as one of their total size, and gets room from the front. At
most one content of a reply is cut, and nothing after it gets room. Files are read when their turn
comes, several at once as long as they surely fit.

Every reply makes progress, even with the least room that a call may have, which is that for a piece
of the largest item. So a next request needs no more room than its call: the cursors at which items
continue fit into the room that their first pieces leave.
"""

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.batch import items
from abilities.helpers.files.confinement import parse_path
from abilities.helpers.files.reader import ReadingSession
from abilities.helpers.reply import envelope
from abilities.helpers.reply.budget import MIN_SHARE, Allocator, Bound, rank
from abilities.helpers.reply.envelope import RecordForm, RecordShape
from abilities.helpers.text import replace_markers

_AMPLE_BYTES = 8192
"""Room that is enough for the least share of any item, so that it need not be measured."""

_WIDEST_BYTE = 6
"""The most bytes that one byte of a file takes in a reply: JSON escapes U+0001 as "\\u0001"."""

_UNFORESEEN_BYTES = 96
"""The most bytes of the fields that `foresee_file` lacks: the encoding, the numbers of replaced and
redacted places, and twice the end of the requested part.
"""

_WIDEST_RESUME = f"byte={'0' * 18}-{'0' * 18}@{'0' * 12}"
_WIDEST_COUNT = 10**7


async def fill_reply(
    request: envelope.BulkRequest,
    offers: Sequence[items.ItemOffer],
    bound: Bound,
    sources: items.BatchSources | None = None,
) -> JsonObject:
    """Return the reply to a batch, with as much of the offers as its bound allows.

    Files that the offers have not read are read from ``sources``.
    """
    sharing = _Sharing(request, offers, bound, sources)
    records = sharing.fill_whole()
    if records is None:
        records = await sharing.fill_in_turns()

    next_items = [record.next_item for record in records if record.next_item is not None]
    return envelope.assemble_reply(request, records, next_items)


class _Sharing:
    """The room of one reply, given to one offer after another."""

    def __init__(
        self,
        request: envelope.BulkRequest,
        offers: Sequence[items.ItemOffer],
        bound: Bound,
        sources: items.BatchSources | None,
    ) -> None:
        self._offers = offers
        self._bound = bound
        self._sources = sources
        self._shape = request.shape
        self._room = envelope.measure_room(request, bound)
        self._settled: list[envelope.ReplyRecord | None] = []
        self._drafts: dict[int, envelope.Entry] = {}

        # If not everything fits, every item is left out at first, and then gets room in turn.
        self._records: list[envelope.ReplyRecord] = []
        self._allocator = Allocator(0)

        # Some records need no room for a content.
        for offer in offers:
            record: envelope.ReplyRecord | None = None
            if offer.fault is not None:
                fault = Fault.from_exception(offer.fault)
                text = offer.text
                if fault.code == "INVALID_INPUT":
                    text = text[: envelope.INPUT_CHARS]
                form = RecordForm({"input": text}, shape=self._shape)
                record = envelope.ReplyRecord(form.build_failed(fault.to_payload()))
            elif offer.is_unchanged:
                record = envelope.ReplyRecord(
                    {"input": offer.text, "success": True, "unchanged": True}
                )
            self._settled.append(record)

    def fill_whole(self) -> list[envelope.ReplyRecord] | None:
        """Return all records whole; None if not all fit, have been read and are of one content.

        Most replies can be filled so.
        """
        room = self._room
        entries: list[envelope.Entry] = []

        for index, offer in enumerate(self._offers):
            entry: envelope.Entry | None = self._settled[index]
            if entry is None:
                if offer.group is not None or isinstance(offer.leaves[0].source, items.UnreadFile):
                    return None
                entry = self._draft_one(index)

            entries.append(entry)
            room -= entry.size

        if room < 0:
            return None

        return [_finish_whole(entry) for entry in entries]

    async def fill_in_turns(self) -> list[envelope.ReplyRecord]:
        """Return the records of all offers, in their order; read files when their turn comes."""
        waiting: list[int] = []
        for index, offer in enumerate(self._offers):
            record = self._settled[index]
            if record is None:
                waiting.append(index)
                form = RecordForm({"input": offer.text}, shape=self._shape)
                payload = form.build_left_out(offer.whole_size)
                record = envelope.ReplyRecord(payload, next_item=offer.item)
            self._records.append(record)

        self._allocator.room = self._room - sum(record.size for record in self._records)
        order = self._order(waiting)

        allocator = self._allocator
        for turn, index in enumerate(order):
            await self._load(order[turn:])
            if allocator.is_used_up:
                break

            offer, left_out = self._offers[index], self._records[index].size
            if offer.group is not None:
                await self._fill_group(index)
                continue

            draft = self._draft_one(index)
            if isinstance(draft, envelope.ReplyRecord):
                allocator.room += left_out - draft.size
                allocator.has_content = True
                self._records[index] = draft
                continue

            share = allocator.allocate(draft.measure(left_out), _find_min_share(offer))
            if share is not None:
                self._records[index] = draft.finish(share)

        return self._records

    def _order(self, waiting: Sequence[int]) -> list[int]:
        """Return the indices of the waiting offers in the order in which they get room."""
        room = self._allocator.room
        least: dict[int, int] = {}

        if room < _AMPLE_BYTES:
            for index in waiting:
                offer = self._offers[index]
                sizes = [self._measure_cut(offer, leaf) for leaf in offer.leaves]
                size = max(sizes, default=0)
                if offer.group is not None:
                    size += _Group(offer, self._shape).cut_overhead
                least[index] = size - self._records[index].size

        if max(least.values(), default=0) <= room:
            sizes = [self._offers[index].size for index in waiting]
            weights = [self._offers[index].weight for index in waiting]
            return [waiting[place] for place in rank(sizes, room, weights)]

        # The call is refused, with the size that its largest item needs.
        if not any(self._offers[index].is_begun for index in waiting):
            return sorted(waiting, key=least.__getitem__, reverse=True)

        # Cursors took the room. It comes back as items end, the small ones first.
        def rank_begun(index: int) -> tuple[bool, bool, int]:
            offer = self._offers[index]
            return least[index] > room, not offer.is_begun, offer.size

        return sorted(waiting, key=rank_begun)

    def _measure_cut(self, offer: items.ItemOffer, leaf: items.Leaf) -> int:
        """Return the size of a content's record with the least share."""
        if isinstance(leaf.source, items.UnreadFile):
            leaf = replace(leaf, source=items.foresee_file(leaf.source.path))

        draft = self._draft(offer, leaf)
        if isinstance(draft, envelope.ReplyRecord):
            return draft.size

        return draft.measure(0).cut_overhead + _find_min_share(offer)

    async def _load(self, order: Sequence[int]) -> None:
        """Read the file of the next offer, if any, and further files that fit in any case."""
        offer, allocator = self._offers[order[0]], self._allocator
        if allocator.is_used_up:
            return

        if offer.group is None and isinstance(offer.leaves[0].source, items.UnreadFile):
            size = self._measure_cut(offer, offer.leaves[0]) + _UNFORESEEN_BYTES
            room = allocator.room + self._records[order[0]].size
            if allocator.has_content and size > room:
                allocator.is_used_up = True  # reading it would be in vain
                return

        room = allocator.room
        unread: list[tuple[items.Leaf, int]] = []
        for index in order:
            offer = self._offers[index]
            room = self._list_unread(offer, offer.leaves, room, unread)
            if room < 0 or not unread:
                break

        await self._read(unread, allocator.room)

    def _list_unread(
        self,
        offer: items.ItemOffer,
        leaves: Sequence[items.Leaf],
        room: int,
        unread: list[tuple[items.Leaf, int]],
    ) -> int:
        """Add the files that seem to fit, at least one; return the remaining room.

        Each is paired with the most bytes of its record with the least share.
        """
        for leaf in leaves:
            if isinstance(leaf.source, items.UnreadFile):
                unread.append((leaf, self._measure_cut(offer, leaf) + _UNFORESEEN_BYTES))

            room -= leaf.size
            if room < 0:
                break

        return room

    async def _read(self, files: Sequence[tuple[items.Leaf, int]], room: int) -> None:
        """Read the first file and others that surely fit, and put them into their leaves.

        The size of a content is known only when it has been read, and several threads read at once.
        So each of them first takes the room that its file needs at most, and then gives the rest
        back.
        """
        if not files:
            return

        sources = self._sources
        assert sources is not None
        # No reply needs more characters than it has bytes.
        max_chars = min(sources.max_chars, self._bound.max_bytes)
        lock, is_over = Lock(), False

        def read(
            session: ReadingSession, file: tuple[items.Leaf, int]
        ) -> envelope.FoundItem | items.UnreadFile:
            nonlocal room, is_over
            leaf, overhead = file
            assert isinstance(leaf.source, items.UnreadFile)
            most = overhead + _WIDEST_BYTE * leaf.size
            with lock:
                is_over = is_over or (room < most and file is not files[0])
                if is_over:
                    return leaf.source  # this one and all that follow are read in their turn
                room -= most

            found = items.describe_file(session.read(parse_path(leaf.source.path), max_chars))
            size = self._bound.measure_content(replace_markers(found.piece.text))
            with lock:
                room += most - overhead - size
            return found

        try:
            outcomes = await sources.wait(sources.files.map(read, files, sources.known_lines))
        except Refused as error:
            outcomes = [error] * len(files)

        for (leaf, _), outcome in zip(files, outcomes, strict=True):
            leaf.source = outcome

    async def _fill_group(self, index: int) -> None:
        """Give room to an item with several contents, as many as fit."""
        offer = self._offers[index]
        allocator = self._allocator
        room = allocator.room + self._records[index].size
        group = _Group(offer, self._shape)

        for place, leaf in enumerate(offer.leaves):
            if isinstance(leaf.source, items.UnreadFile):
                unread: list[tuple[items.Leaf, int]] = []
                left = room - group.size
                self._list_unread(offer, offer.leaves[place:], left, unread)
                await self._read(unread, left)

            draft = self._draft(offer, leaf)
            if not group.take(leaf, draft, room):
                allocator.is_used_up = True
                group.cut(leaf, draft, room, has_content=allocator.has_content)
                break

        if allocator.is_used_up and group.is_empty:
            return

        record = group.build()
        self._records[index] = record
        allocator.room = room - record.size
        allocator.has_content = True

    def _draft_one(self, index: int) -> envelope.Entry:
        """Return the draft of an item with one content, which has been read."""
        if index not in self._drafts:
            offer = self._offers[index]
            (leaf,) = offer.leaves
            self._drafts[index] = self._draft(offer, leaf)

        return self._drafts[index]

    def _draft(self, offer: items.ItemOffer, leaf: items.Leaf) -> envelope.Entry:
        """Return the draft of a content, or the finished record of a leaf without content."""
        # The only content of an item is its record; several are records within it.
        form = leaf.form
        if offer.group is None:
            form = RecordForm({"input": offer.text}, shape=self._shape)
        elif self._shape is None:
            form = form._replace(shape=None)

        source = leaf.source
        if isinstance(source, envelope.FoundItem):
            if leaf.remembered:
                source = source._replace(data={**source.data, "remembered": leaf.remembered})
            if leaf.continue_at is not None:
                source = source._replace(continue_at=leaf.continue_at)
            return envelope.RecordDraft(source, self._bound, form)

        if isinstance(source, dict):
            return envelope.ReplyRecord(form.build(source))

        assert isinstance(source, Exception)
        return envelope.ReplyRecord(form.build_failed(Fault.from_exception(source).to_payload()))


def _find_min_share(offer: items.ItemOffer) -> int:
    """Return the least share of an item that comes first in a reply."""
    # The cursor of its next request takes some of the room that a new item gets now.
    return MIN_SHARE if offer.is_begun else 2 * MIN_SHARE


def _finish_whole(entry: envelope.Entry) -> envelope.ReplyRecord:
    return entry.finish(entry.content_size) if isinstance(entry, envelope.RecordDraft) else entry


class _Taken(NamedTuple):
    """A content that was taken, and the size of its record."""

    leaf: items.Leaf
    draft: envelope.Entry
    record: envelope.ReplyRecord
    size: int


class _Group:
    """The contents that were taken of an offer, from the front, and the cursor that continues it.

    ``cut_overhead`` is the size of the record without contents, if it continues at any cursor.
    """

    def __init__(self, offer: items.ItemOffer, shape: RecordShape | None) -> None:
        self._offer = offer
        self._form = RecordForm({"input": offer.text}, shape=shape)
        self._taken: list[_Taken] = []
        self._cursor = offer.unfinished
        self._overhead = self._assemble([], self._cursor, _WIDEST_COUNT).size

        positions = [leaf.position for leaf in offer.leaves]
        if offer.unfinished is not None:
            positions.append(offer.unfinished.position)
        widest = items.Cursor(max(positions, key=json_size, default=""), _WIDEST_RESUME)
        self.cut_overhead: int = self._assemble([], widest, _WIDEST_COUNT).size

    @property
    def is_empty(self) -> bool:
        """Whether no content was taken."""
        return not self._taken

    @property
    def size(self) -> int:
        """The bytes of the record as it is now."""
        return self._overhead + self._taken_size

    @property
    def _taken_size(self) -> int:
        return sum(taken.size for taken in self._taken)

    def take(self, leaf: items.Leaf, draft: envelope.Entry, room: int) -> bool:
        """Take the next content if the record still fits into the room; return whether it does."""
        if self.size + draft.size > room:
            return False

        self._taken.append(_Taken(leaf, draft, _finish_whole(draft), draft.size))
        return True

    def cut(self, leaf: items.Leaf, draft: envelope.Entry, room: int, *, has_content: bool) -> None:
        """End the group at a content that does not fit; take as much of that one as fits.

        Unless the reply ``has_content`` already, that is the least share of it in any case.
        """
        # The cursor takes room too, if need be that of the contents taken last.
        while self._taken and self.cut_overhead + self._taken_size > room:
            leaf, draft, _, _ = self._taken.pop()

        if self._taken:
            self._cursor = items.Cursor(self._taken[-1].leaf.position)
            has_content = True

        if isinstance(draft, envelope.ReplyRecord):
            # It cannot be cut, and a reply with nothing at all would make no progress.
            if not has_content:
                self._cursor = items.Cursor(leaf.position)
                self._taken.append(_Taken(leaf, draft, draft, draft.size))
            return

        if leaf.atomic and has_content:
            return

        share = room - self.cut_overhead - self._taken_size - draft.measure(0).cut_overhead
        if has_content and share < MIN_SHARE:
            return

        if not has_content:
            share = max(share, _find_min_share(self._offer))
        record = draft.finish(share)
        self._cursor = items.Cursor(leaf.position)
        if record.next_item is not None and not leaf.atomic:
            assert isinstance(leaf.source, envelope.FoundItem)
            self._cursor = items.Cursor(
                leaf.position, leaf.source.piece.resume(record.returned_chars)
            )
        self._taken.append(_Taken(leaf, draft, record, json_size(record.payload) + 1))

    def build(self) -> envelope.ReplyRecord:
        """Return the record."""
        records = [taken.record.payload for taken in self._taken]
        chars = sum(taken.record.returned_chars for taken in self._taken)
        return self._assemble(records, self._cursor, chars)

    def _assemble(
        self, records: list[JsonObject], cursor: items.Cursor | None, chars: int
    ) -> envelope.ReplyRecord:
        """Return the record of some contents, which continues at a cursor if one is given."""
        offer = self._offer
        data: JsonObject = {"items": records, **(offer.group or {})}
        if offer.version is not None:
            data["version"] = offer.version

        if cursor is None:
            return envelope.ReplyRecord(self._form.build(data), chars)

        assert offer.go_on is not None
        next_item = offer.go_on(cursor)
        reason = "time" if cursor is offer.unfinished else "budget"
        truncation = {"reason": reason, "returned_chars": chars, "next": next_item}
        return envelope.ReplyRecord(self._form.build(data, truncation), chars, next_item)
