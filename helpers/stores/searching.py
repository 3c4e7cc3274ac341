"""How an engine finds the memories that have all terms of a search."""

from typing import NamedTuple


class Numbers(NamedTuple):
    """How many memories a namespace holds: in all, not archived ones, and that match at most."""

    size: int
    visible: int
    fewest: int


class Matches(NamedTuple):
    """Memories that have all terms, as rows of the memory index, ``s``, in SQL.

    Without a ``source``, the caller chooses the tables, and ``condition`` is on ``s`` alone.
    """

    condition: str
    values: tuple[str, ...]
    source: str = ""


class SearchPlan(NamedTuple):
    """How all matches are found, and how they are met along an order until a page is full.

    ``are_few`` says that finding and sorting all of them takes less; ``total`` is how many memories
    match if that is known.
    """

    found: Matches
    met: Matches
    are_few: bool = False
    total: int | None = None
