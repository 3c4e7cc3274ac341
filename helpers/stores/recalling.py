"""What `recall` does in every store: which memories it loads, and the language of its index."""

from collections.abc import Iterator, Sequence

from abilities.declarations.limits import MAX_CONTENT_CHARS
from abilities.helpers.search.rankings import Ranking
from abilities.helpers.search.terms import LANGUAGES, Language
from abilities.helpers.stores.model import StoredMemory

FIRST_BATCH = 64
"""Memories that are loaded at first, as many short ones as fit by default; then twice as many."""


def take_turns(rankings: Sequence[Ranking], starts: Sequence[int]) -> Iterator[str]:
    """Yield the keys of memories: the first of each ranking, then the second of each, and so on.

    Each ranking begins at its place in ``starts``.
    """
    lists = [ranking.entries[start:] for ranking, start in zip(rankings, starts, strict=True)]
    for place in range(max(map(len, lists), default=0)):
        for entries in lists:
            if place < len(entries) and not entries[place].is_note:
                yield entries[place].name


def parse_language(names: Sequence[str]) -> Language | None:
    """Return the language that a store has written down; None if damage changed or removed it."""
    if len(names) != 1 or names[0] not in LANGUAGES:
        return None

    return Language(names[0])


def count_bytes(memory: StoredMemory | Exception) -> int:
    """Return the bytes of UTF-8 that an answer may show of a content; 0 if it cannot be read."""
    if isinstance(memory, Exception):
        return 0

    # Of a long content, an answer shows a passage.
    return len(memory.row.content[:MAX_CONTENT_CHARS].encode())
