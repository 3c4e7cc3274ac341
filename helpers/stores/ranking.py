"""The order of a memory's links while some ranks wait for an update.

A link keeps two ranks, one that follows the score of its target and one that follows the score of
its source. If few links hang on a memory whose score changes, the change updates their ranks. If
many do, it only marks them as stale, so that no change takes long. Readers pass over stale ranks:
they look up the links that have them by name, rank these by the scores of now, and merge them with
the others. This is exact, and takes one look-up per mark.

The marks that were not made lately are old, and removed block by block: each later change of the
namespace updates the ranks of some links behind each of them. A mark does no harm while it stays,
whatever the ranks are.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from abilities.declarations.values import has_surrogate
from abilities.helpers.stores.model import LinkRecord, LinkRow, hash_values, is_fraction, rank_link

Side = Literal["target", "source"]
"""The end of links that a memory is at: ``rank`` follows the target, ``back_rank`` the source."""

SIDES: tuple[Side, ...] = ("target", "source")

MOST_UPDATED = 64
"""Links of a memory, at one side of them, whose ranks one change of it updates."""

MOST_STALE = 16
"""Marks that a namespace keeps; the ranks behind older ones are updated."""

LONGEST_STALE = 256
"""Changes of a namespace after which a mark counts as old even if it is one of these."""

MOST_REFRESHED = 16
"""Older marks of a namespace that one of its changes treats, so that many do not grow more."""

BLOCK = 128
"""Links behind an older mark whose ranks one change updates."""

_BEHIND_MARK = """
EXISTS (SELECT 1 FROM stale_ranks AS r
    WHERE r.namespace = l.namespace AND r.side = '{side}' AND r.key = l.{side}
    AND (r.last_rank, r.last_weight, l.{other}, l.type)
        > (l.{rank}, l.weight, r.last_key, r.last_type))
"""

ARE_STALE = ", ".join(
    (
        _BEHIND_MARK.format(side="target", other="source", rank="back_rank"),
        _BEHIND_MARK.format(side="source", other="target", rank="rank"),
    )
)
"""Two columns of a SELECT from links AS l: whether its rank, and its back rank, may be wrong.

They are those behind a mark. A rank before it was updated after the mark was made, so it is right.
"""

StaleScores = Mapping[str, float | None]
"""The memories with stale ranks at one side, and their scores; None ranks links last."""

_Place = tuple[float, float, str, str]

_FIRST_PLACE: _Place = (-math.inf, 0.0, "", "")


class StaleMark(NamedTuple):
    """Says that the ranks of the links at one side of a memory are stale.

    The rest is the last link whose rank was updated, in the order of the other side's ranks.
    """

    side: Side
    key: str
    last_rank: int
    last_weight: float
    last_key: str
    last_type: str

    @property
    def is_sound(self) -> bool:
        """Whether its texts are valid; damage can change them."""
        return not any(map(has_surrogate, (self.key, self.last_key, self.last_type)))

    @classmethod
    def build(cls, side: Side, key: str) -> "StaleMark":
        """Return a mark that stands before the first link."""
        return cls(side, key, 2**31 - 1, 1.0, "", "")

    def move_behind(self, records: Sequence[LinkRecord]) -> "StaleMark | None":
        """Return the mark behind the last sound one of some links; None if none is sound."""
        for record in reversed(records):
            if not record.is_sound:
                continue

            last_rank, last_key = record.back_rank, record.source
            if self.side == "source":
                last_rank, last_key = record.rank, record.target
            return StaleMark(self.side, self.key, last_rank, record.weight, last_key, record.type)

        return None


class LinkEnds(NamedTuple):
    """The memories at the ends of a link, as far as they decide its ranks; None if missing.

    ``is_stale`` and ``is_back_stale`` say that its rank and its back rank may be wrong.
    """

    target_archived: object
    target_score: object
    source_archived: object
    source_score: object
    is_stale: object = False
    is_back_stale: object = False

    def build_record(self, link: LinkRow) -> LinkRecord:
        """Return the record of a link, with the ranks that it must have."""
        target_score = _choose_score(self.target_archived, self.target_score)
        source_score = _choose_score(self.source_archived, self.source_score)
        return LinkRecord.build(link, target_score, source_score)

    def confirm_ranks(self, record: LinkRecord) -> bool:
        """Return whether the ranks of a sound link are those that it must have, or stale."""
        expected = self.build_record(record.row)
        is_right = bool(self.is_stale) or record.rank == expected.rank
        is_back_right = bool(self.is_back_stale) or record.back_rank == expected.back_rank
        return is_right and is_back_right


class _PlacedRecord(NamedTuple):
    place: _Place
    record: LinkRecord


def correct_ranks(
    records: Iterable[LinkRecord], scores: StaleScores, side: Side
) -> list[LinkRecord]:
    """Return links with the ranks that follow from the scores, best first; damaged ones last."""
    sound: list[LinkRecord] = []
    damaged: list[LinkRecord] = []

    for record in records:
        if not record.is_sound:
            damaged.append(record)
            continue

        key = getattr(record, side)
        if key in scores:
            record = _correct_rank(record, scores[key], side)
        sound.append(record)

    # The links were checked above, so their places can be taken as they are.
    sound.sort(key=partial(_find_place, side=side))
    return sound + damaged


def _correct_rank(record: LinkRecord, score: float | None, side: Side) -> LinkRecord:
    ranks = {"target": record.rank, "source": record.back_rank}
    ranks[side] = rank_link(record.weight, score)

    record = record._replace(rank=ranks["target"], back_rank=ranks["source"])
    *values, _ = record
    return record._replace(hash=hash_values(values))


def merge_links(
    ordinary: Iterable[LinkRecord], corrected: Iterable[LinkRecord], side: Side
) -> list[LinkRecord]:
    """Return links of two lists, each of them best first, in one order."""
    merged = heapq.merge(
        _place(ordinary, side), _place(corrected, side), key=lambda placed: placed.place
    )
    return [placed.record for placed in merged]


def _place(records: Iterable[LinkRecord], side: Side) -> Iterator[_PlacedRecord]:
    """Yield links, which are best first, with their places."""
    place = _FIRST_PLACE
    for record in records:
        # A damaged link stays behind the one before it, whatever its values are now.
        if record.is_sound:
            place = _find_place(record, side)

        yield _PlacedRecord(place, record)


def _find_place(record: LinkRecord, side: Side) -> _Place:
    if side == "target":
        return -record.rank, -record.weight, record.target, record.type

    return -record.back_rank, -record.weight, record.source, record.type


def _choose_score(archived: object, score: object) -> float | None:
    """Return the score that links to or from a memory rank by; None if they rank last."""
    # A damaged score gives no rank; that memory is reported itself.
    if archived == 0 and isinstance(score, float) and is_fraction(score):
        return score

    return None
