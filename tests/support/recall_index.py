"""An index of memories in main memory, which answers the conversation of `recall` as stores do."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeVar

from abilities.helpers.search import postings, recall
from abilities.helpers.search.ranking import MOST_INCOMING, MOST_OUTGOING, Links, Ranking
from abilities.helpers.search.recall import rank
from abilities.helpers.search.terms import Language, MemoryTexts, weigh_terms, weigh_text
from abilities.helpers.walk import compute_rank

T = TypeVar("T")


class PlainLink(NamedTuple):
    """A link to a memory, or from one."""

    key: str
    weight: float
    kind: str


@dataclass
class PlainMemory:
    """A memory as far as ranking knows it; ``links`` are keys with weights, one per link.

    ``kinds`` are the kinds of the first links; the others are associations.
    """

    key: str
    content: str
    summary: str = ""
    type: str = "learning"
    tags: tuple[str, ...] = ()
    category: str | None = None
    importance: str = "medium"
    score: float = 0.6
    archived: bool = False
    created_at: str = "2026-01-01T00:00:00.000Z"
    updated_at: str = "2026-01-01T00:00:00.000Z"
    replaced_on: tuple[str, ...] = ()
    links: list[tuple[str, float]] = field(default_factory=list)
    kinds: Sequence[str] = ()

    @property
    def texts(self) -> MemoryTexts:
        """The texts that are indexed."""
        labels = " ".join([*self.tags, self.category or ""])
        return MemoryTexts(self.key, self.summary, self.content, labels)

    @property
    def all_links(self) -> list[PlainLink]:
        """The links with their kinds."""
        kinds = chain(self.kinds, repeat("association"))
        return [PlainLink(*link, kind) for link, kind in zip(self.links, kinds, strict=False)]


class PlainNote(NamedTuple):
    """A chunk of a note."""

    name: str
    content: str
    terms: Mapping[str, int]


def write_note(name: str, content: str) -> PlainNote:
    """Return a chunk of a note with the terms of its content."""
    return PlainNote(name, content, weigh_text(content, Language()))


def passes(memory: PlainMemory, filters: recall.Filters) -> bool:
    """Return whether a memory passes the filters."""
    if filters.as_of is not None and memory.created_at[:10] > filters.as_of:
        return False
    was_present = filters.as_of is not None and any(
        day > filters.as_of for day in memory.replaced_on
    )
    if memory.archived and not filters.archived and not was_present:
        return False
    if not set(filters.tags) <= set(memory.tags):
        return False
    if filters.changed_since is not None and memory.updated_at < filters.changed_since:
        return False

    wanted = (filters.type, filters.category, filters.importance)
    values = (memory.type, memory.category, memory.importance)
    return all(want in (None, value) for want, value in zip(wanted, values, strict=True))


def find_best(links: Iterable[PlainLink]) -> dict[str, tuple[float, str]]:
    """Return weight and kind of the best link to each key; of equal ones, the first by kind."""
    ranked = sorted(links, key=lambda link: (-link.weight, link.kind), reverse=True)
    return {link.key: (link.weight, link.kind) for link in ranked}


def unpack(docs: bytes, block: int) -> list[tuple[int, int]]:
    """Return the numbers of the memories of a block, each with its weight, in order."""
    first = block * postings.BLOCK_DOCS
    return [(first + (value >> 6), value & 63) for value in postings.decode(docs)]


class RecallIndex:
    """The index of one namespace; memories are numbered as they come."""

    def __init__(self, memories: Iterable[PlainMemory], language: Language | None = None) -> None:
        self.language = language or Language()
        self.memories: dict[str, PlainMemory] = {}
        self._keys: list[str] = []
        self._blocks: tuple[dict[str, dict[int, bytes]], ...] = ({}, {})
        self._incoming: dict[str, list[PlainLink]] = defaultdict(list)

        parts: tuple[dict[str, dict[int, list[bytes]]], ...] = ({}, {})
        for doc, memory in enumerate(memories):
            self.memories[memory.key] = memory
            self._keys.append(memory.key)
            self._add(parts[memory.archived], doc, memory)

        for blocks, lists in zip(self._blocks, parts, strict=True):
            for term, by_block in lists.items():
                blocks[term] = {block: b"".join(docs) for block, docs in by_block.items()}

    def _add(self, lists: dict[str, dict[int, list[bytes]]], doc: int, memory: PlainMemory) -> None:
        terms = weigh_terms(memory.texts, self.language)
        block = postings.block_of(doc)

        for term, weight in terms.items():
            by_block = lists.setdefault(term, {})
            by_block.setdefault(block, []).append(postings.pack(doc, weight))

        for link in memory.all_links:
            self._incoming[link.key].append(link._replace(key=memory.key))

    def rank(self, request: recall.RecallRequest) -> tuple[Ranking, ...]:
        """Return the rankings of a request."""
        return self.converse(rank(request))

    def converse(self, conversation: recall.Conversation[T]) -> T:
        """Answer a conversation to its end, and return its result."""
        answer: Any = None

        while True:
            try:
                request = conversation.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = self._answer(request)

    def _answer(self, request: Any) -> Any:
        match request:
            case recall.FetchBlocks(terms, archived):
                size = sum(not memory.archived for memory in self.memories.values())
                return recall.IndexBlocks(
                    size,
                    self._find_blocks(terms, 0),
                    self._find_blocks(terms, 1) if archived else {},
                )
            case recall.FetchDoc(key):
                return [number for number, known in enumerate(self._keys) if known == key]
            case recall.FetchMatching(filters, limit):
                matching = self._find_passing(filters, range(len(self._keys)))
                return matching if len(matching) <= limit else None
            case recall.FetchPassing(filters, docs):
                return self._find_passing(filters, docs)
            case recall.FetchKeys(docs):
                memories = {doc: self.memories[self._keys[doc]] for doc in docs}
                return {doc: recall.KeyAndTime(m.key, m.updated_at) for doc, m in memories.items()}
            case recall.FetchTimes(filters, keys):
                named = [doc for doc, key in enumerate(self._keys) if key in keys]
                passing = [self._keys[doc] for doc in self._find_passing(filters, named)]
                return {key: self.memories[key].updated_at for key in passing}
            case recall.FetchTexts(keys, least, most):
                texts = {key: self.memories[key].texts for key in keys}
                return {
                    key: each for key, each in texts.items() if least <= len(each.content) <= most
                }
            case recall.FetchLinks(filters, keys):
                return {key: self._find_links(key, filters) for key in keys}

        raise AssertionError(request)

    def _find_blocks(self, terms: Iterable[str], side: int) -> dict[str, dict[int, bytes]]:
        return {term: self._blocks[side].get(term, {}) for term in terms}

    def _find_passing(self, filters: recall.Filters, docs: Iterable[int]) -> frozenset[int]:
        return frozenset(doc for doc in docs if passes(self.memories[self._keys[doc]], filters))

    def _find_links(self, key: str, filters: recall.Filters) -> Links:
        outgoing = self._keep_passing(self.memories[key].all_links, filters)
        ranked = sorted(
            outgoing,
            key=lambda link: (
                -compute_rank(link.weight, self.memories[link.key].score),
                -link.weight,
                link.key,
                link.kind,
            ),
        )

        incoming = self._incoming.get(key, [])
        if len(incoming) > MOST_INCOMING:
            incoming = []

        return Links(
            find_best(ranked[:MOST_OUTGOING]), find_best(self._keep_passing(incoming, filters))
        )

    def _keep_passing(
        self, links: Collection[PlainLink], filters: recall.Filters
    ) -> list[PlainLink]:
        known: Mapping[str, PlainMemory] = self.memories
        return [link for link in links if link.key in known and passes(known[link.key], filters)]
