"""Fill one reply while its items are still being read, so that nothing is read in vain."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from abilities.declarations.values import JsonObject
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.budget import MIN_SHARE, Allotment, rank
from abilities.helpers.reply.detail import RecordShape
from abilities.helpers.reply.encoding import json_size
from abilities.helpers.reply.envelope import (
    FoundItem,
    RecordDraft,
    ReplyRecord,
    build_left_out,
    measure_room,
)
from abilities.helpers.reply.items import MAX_ITEM_CHARS, BulkRequest, format_item

FAILED_BYTES = 256
"""No record of a failure takes more beyond its item."""

CUT_BYTES = 448
"""No record of a file whose content is cut takes more beyond its item, which it names four times.

The fourth place is the next request.
"""

_WIDEST_SIZE = 10**15

ReadT = TypeVar("ReadT")


class Filling(Generic[ReadT]):
    """The room of one reply, given to its items one after another, each when it has been read.

    Until then the bytes are reserved that an item takes if it is left out. ``describe`` turns into
    a FoundItem what was read; ``items_size`` is what `check_items_size` returned. Several threads
    may share a filling once its items are ranked.
    """

    def __init__(
        self,
        request: BulkRequest,
        items_size: int,
        describe: Callable[[ReadT], FoundItem],
        bound: Bound,
    ) -> None:
        self._describe = describe
        self._request = request
        self._bound = bound
        self._room = measure_room(request, bound)
        self._allotment = Allotment(0)
        self._lock = Lock()

        # The fair level is not below an equal part of what is left beyond all reserves.
        count = len(request.items)
        self.sure_size: int = (self._room - 2 * items_size) // count - _LEFT_OUT_BYTES

    @property
    def is_used_up(self) -> bool:
        """Whether every item that is not admitted yet is left out."""
        return self._allotment.is_used_up

    def rank(self, sizes: Sequence[int | None]) -> list[int]:
        """Return the indices of all items that have a size, in the order to read them.

        An item of None has failed.
        """
        self._texts = [format_item(item)[:MAX_ITEM_CHARS] for item in self._request.items]
        self._sizes = [json_size(text) for text in self._texts]
        self._reserved = [_LEFT_OUT_BYTES + 2 * size for size in self._sizes]
        self._allotment = Allotment(self._room - sum(self._reserved))

        found: list[int] = []
        for index, size in enumerate(sizes):
            if size is None:
                self.settle_failure(index)
            else:
                found.append(index)

        order = rank([sizes[index] or 0 for index in found], self._allotment.spare)
        return [found[place] for place in order]

    def count_fitting(self, index: int) -> int | None:
        """Return how many characters of an item may fit; None if it is left out."""
        with self._lock:
            allotment = self._allotment
            room = allotment.spare + self._reserved[index]
            if allotment.is_used_up:
                return None

            needed = CUT_BYTES + 4 * self._sizes[index] + MIN_SHARE
            if allotment.has_content and room < needed:
                allotment.is_used_up = True
                return None

            return max(room, MIN_SHARE)

    def admit(self, index: int, read: ReadT) -> ReplyRecord:
        """Return the record of an item that was read, with as much of it as there is room for."""
        leading: JsonObject = {"input": self._texts[index]}
        shape = self._request.shape
        draft = RecordDraft(self._describe(read), self._bound, leading, shape=shape)
        reserved = self._reserved[index]
        granted: int | None = draft.content_size
        with self._lock:
            # One item of a reply is cut at most: what the others would cost cut need not be known.
            if not self._allotment.grant_whole(draft.frame_size + draft.content_size, reserved):
                granted = self._allotment.grant(draft.measure_cost(reserved))

        return draft.finish(granted)

    def leave_out(self, index: int, size_bytes: int) -> ReplyRecord:
        """Return the record of an item of a size that was left out unread."""
        return _build_left_out(self._texts[index], size_bytes, self._request.shape)

    def settle_failure(self, index: int) -> None:
        """Reserve for an item what it takes as a failure, instead."""
        with self._lock:
            self._allotment.spare += self._reserved[index] - FAILED_BYTES - self._sizes[index]


def _build_left_out(item: str, size_bytes: int, shape: RecordShape | None = None) -> ReplyRecord:
    payload = build_left_out(size_bytes, {"input": item}, shape=shape)
    return ReplyRecord(payload, next_item=item)


# Without the quotation marks of its item, which are counted with it; commas follow both.
_LEFT_OUT_BYTES = json_size(_build_left_out("", _WIDEST_SIZE).payload) - 2 + 2
