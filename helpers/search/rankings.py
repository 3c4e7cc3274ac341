"""What answers questions, best first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, overload


class RankedEntry(NamedTuple):
    """A memory in a ranking by its key, or a chunk of a note by its name.

    ``own`` is the part of ``score`` that its own words give. ``words`` are those of the question,
    as they were asked. ``via`` is the key of the hit whose links led here, if no word did.
    """

    name: str
    is_note: bool
    score: int
    own: int
    via: str | None = None
    words: tuple[str, ...] = ()


class Entries(Sequence[RankedEntry]):
    """The entries of a ranking, from plain tuples of their fields.

    An entry is made when it is asked for. Thousands of them per question would have the garbage
    collector go through all of the process, which it does not do for plain tuples.
    """

    def __init__(self, columns: Sequence[tuple[Any, ...]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, place: int) -> RankedEntry: ...
    @overload
    def __getitem__(self, place: slice) -> "Entries": ...
    def __getitem__(self, place: int | slice) -> "RankedEntry | Entries":
        if isinstance(place, slice):
            return Entries(self.columns[place])

        return RankedEntry._make(self.columns[place])

    def __iter__(self) -> Iterator[RankedEntry]:
        return map(RankedEntry._make, self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast(Sequence[object], other))

    def __hash__(self) -> int:
        return hash(tuple(self.columns))


@dataclass(frozen=True, slots=True)
class Ranking:
    """What answers a question, by falling score and then by name, and its words nobody holds.

    ``also`` are the names of what answers it too, but stands in the ranking of another question.
    """

    entries: Sequence[RankedEntry]
    unknown_words: tuple[str, ...]
    also: tuple[str, ...] = ()


def keep_once(rankings: Sequence[Ranking]) -> tuple[Ranking, ...]:
    """Keep each entry only in the ranking in which it has its best place."""
    if len(rankings) == 1:
        return tuple(rankings)

    best: dict[tuple[bool, str], tuple[int, int]] = {}

    for number, ranking in enumerate(rankings):
        for place, entry in enumerate(ranking.entries):
            name = entry.is_note, entry.name
            best[name] = min(best.get(name, (place, number)), (place, number))

    kept: list[Ranking] = []
    for number, ranking in enumerate(rankings):
        own: list[RankedEntry] = []
        also = list(ranking.also)
        for entry in ranking.entries:
            if best[entry.is_note, entry.name][1] == number:
                own.append(entry)
            else:
                also.append(entry.name)
        kept.append(Ranking(tuple(own), ranking.unknown_words, tuple(also)))

    return tuple(kept)
