"""The part of an index that one question needs."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from abilities.helpers.search.postings import POSTING_BYTES, block_of, decode, look_up
from abilities.helpers.search.ranking import compute_idf, compute_score
from abilities.helpers.search.selection import BlockPostings
from abilities.helpers.search.terms import QuestionWord

Postings = Mapping[str, Mapping[int, bytes]]
"""The postings of terms, by their blocks."""


class QuestionIndex:
    """The blocks that hold terms of a question, by the places of the terms in it.

    ``size`` is the number of memories that are not archived. They and archived ones are two sides,
    each with blocks of its own; how rare a term is depends on the first side only.
    """

    def __init__(
        self, question: Sequence[QuestionWord], size: int, sides: Sequence[Postings]
    ) -> None:
        self._question = question
        self._places = {word.term: place for place, word in enumerate(question)}
        self._postings, *_ = sides
        self._sides = [self._group_by_block(side) for side in sides]

        self.blocks: list[BlockPostings] = []
        for side in self._sides:
            self.blocks += [BlockPostings(block, docs) for block, docs in side.items()]

        self.idfs = [compute_idf(size, self._count(word.term)) for word in question]
        self._decoded: dict[int, list[tuple[int, array[int]]]] = {}

    def _group_by_block(self, side: Postings) -> dict[int, dict[int, bytes]]:
        blocks: dict[int, dict[int, bytes]] = defaultdict(dict)
        for term, place in self._places.items():
            for block, docs in side.get(term, {}).items():
                blocks[block][place] = docs

        return blocks

    def _count(self, term: str) -> int:
        """Return how many memories that are not archived hold a term."""
        docs = self._postings.get(term, {}).values()
        return sum(map(len, docs)) // POSTING_BYTES

    def find_words(self, doc: int) -> tuple[str, ...]:
        """Return the words of the question that a memory holds."""
        block = block_of(doc)
        if block not in self._decoded:
            self._decoded[block] = self._decode(block)

        places = [place for place, values in self._decoded[block] if look_up(values, doc)]
        return self._list_words(places)

    def _decode(self, block: int) -> list[tuple[int, "array[int]"]]:
        """Return the postings of a block as numbers, by the places of their terms."""
        decoded: list[tuple[int, array[int]]] = []
        for side in self._sides:
            for place, docs in side.get(block, {}).items():
                decoded.append((place, decode(docs)))

        return decoded

    def score_text(self, terms: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
        """Return the score of a text with these terms and weights, and the words that it holds."""
        places = [place for place, word in enumerate(self._question) if word.term in terms]
        if not places:
            return 0, ()

        total = sum(terms[self._question[place].term] * self.idfs[place] for place in places)
        score = compute_score(total, len(places), len(self._question))
        return score, self._list_words(places)

    def list_unknown(self, texts: Iterable[Mapping[str, int]]) -> tuple[str, ...]:
        """Return the words of which neither a memory nor one of these texts holds any term."""
        held = {place for _, docs in self.blocks for place in docs}
        for terms in texts:
            held.update(self._places[term] for term in self._places.keys() & terms.keys())

        known = set(self._list_words(held))
        words = self._list_words(range(len(self._question)))
        return tuple(word for word in words if word not in known)

    def _list_words(self, places: Iterable[int]) -> tuple[str, ...]:
        """Return the words at these places as they were asked, each once."""
        return tuple(dict.fromkeys(self._question[place].word for place in sorted(places)))
