"""Groups: the record of an item that brings several contents, while it is being filled."""

from typing import NamedTuple

from abilities.declarations.values import JsonObject
from abilities.helpers.gather.cursors import Cursor
from abilities.helpers.gather.offers import ItemOffer, Leaf
from abilities.helpers.reply.budget import MIN_SHARE
from abilities.helpers.reply.detail import RecordShape, shape_record
from abilities.helpers.reply.encoding import json_size
from abilities.helpers.reply.envelope import FoundItem, RecordDraft, ReplyRecord, measure_entry

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
