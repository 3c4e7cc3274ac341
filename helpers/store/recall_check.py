"""Comparing the recall index with the memories, and making it anew."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import lt, mul
from typing import NamedTuple

from abilities.helpers.search import postings
from abilities.helpers.search.terms import LANGUAGES, Language, weigh_terms
from abilities.helpers.store.recall_index import (
    PART_BLOCKS,
    Changes,
    RecentChange,
    Weights,
    collect,
    read_language,
    save_changes,
)
from abilities.helpers.store.transaction import Transaction, to_name

_MEMORIES = """
SELECT RAW(m.namespace), s.doc, m.archived, RAW(m.key), RAW(m.summary), RAW(m.content)
FROM memories AS m CROSS JOIN shelf AS s WHERE s.namespace = m.namespace AND s.id = m.id
"""
_NUMBERED = f"{_MEMORIES} AND s.namespace = ? ORDER BY s.doc"
_RECENT = "SELECT RAW(namespace), doc, archived, terms, weights FROM recall_recent AS r WHERE true"
_TERMS = """
SELECT RAW(namespace), archived, part, RAW(term), block, docs FROM recall_terms AS r WHERE true
"""
_SIZE = "SELECT count(*) FROM shelf WHERE namespace = ?"
_NUMBERS = "SELECT doc FROM shelf WHERE namespace = ? AND doc BETWEEN 0 AND ? ORDER BY doc"
_OUTSIDE = """
SELECT id FROM shelf WHERE namespace = ? AND doc NOT BETWEEN 0 AND ? ORDER BY doc
"""
_RENUMBER = "UPDATE shelf SET doc = ? WHERE namespace = ? AND id = ?"

_DELETE_TERMS = "DELETE FROM recall_terms WHERE namespace = ?"
_DELETE_RECENT = "DELETE FROM recall_recent WHERE namespace = ?"
_DELETE_LANGUAGE = "DELETE FROM recall_language"
_SAVE_LANGUAGE = "INSERT INTO recall_language VALUES (?)"


_DAMAGED = 1
"""What a damaged row adds to a sum, which is 0 if all is sound."""


class _Side(NamedTuple):
    """The postings of the memories of a namespace that are archived, or of the others."""

    namespace: str
    archived: int

    def add_up(self, doc: int, weights: Iterable[tuple[str, int]]) -> int:
        """Return the sum over postings of a memory."""
        total = 0
        for term, weight in weights:
            if weight:
                posting = doc << 6 | weight
                total += hash((*self, term)) * posting * posting

        return total

    def add_up_row(self, part: int, term: str, block: int, docs: bytes) -> int:
        """Return the sum over stored postings."""
        if not docs or len(docs) % postings.POSTING_BYTES or part != block // PART_BLOCKS:
            return _DAMAGED

        first = block * postings.BLOCK_DOCS << 6
        values = [first + value for value in postings.decode(docs)]
        if not all(map(lt, values, values[1:])):
            return _DAMAGED

        total: int = sum(map(mul, values, values))
        return hash((*self, term)) * total


async def list_wrong_parts(transaction: Transaction) -> list[str]:
    """Return what of the recall index is not as the memories imply, in words for an operator."""
    language = [] if await _is_language_sound(transaction) else ["recall_language"]
    namespaces = await find_wrong_namespaces(transaction)
    return [*language, *(f"{namespace}: what recall finds" for namespace in namespaces)]


async def _is_language_sound(transaction: Transaction) -> bool:
    names = await transaction.fetch("SELECT RAW(name) FROM recall_language")
    return [to_name(name) in LANGUAGES for (name,) in names] == [True]


async def mend_language(transaction: Transaction) -> None:
    """Write the language of the index anew if it is damaged: the one that all others then take."""
    if not await _is_language_sound(transaction):
        language = await read_language(transaction)
        await transaction.run(_DELETE_LANGUAGE)
        await transaction.run(_SAVE_LANGUAGE, language.name)


async def find_wrong_namespaces(
    transaction: Transaction, namespace: str | None = None
) -> list[str]:
    """Return the namespaces, of all or of one, whose index is not that of their memories.

    A sum over all postings tells, in which their order does not count. A recent change takes what
    it replaced out of the sum, so that nothing is merged.
    """
    where, values = ("", []) if namespace is None else (" AND {}.namespace = ?", [namespace])
    language = await read_language(transaction)
    sums: dict[str, int] = defaultdict(int)

    memories = transaction.stream(_MEMORIES + where.format("s"), *values)
    async for name, doc, archived, *texts in memories:
        side = _Side(to_name(name), archived)
        weights = _weigh(texts, language)
        sums[side.namespace] -= side.add_up(doc, weights.items())

    async for name, *columns in transaction.stream(_RECENT + where.format("r"), *values):
        change = RecentChange._make(columns)
        side = _Side(to_name(name), change.archived)
        changed = change.list_weights()
        if 2 * (change.terms.count(b"\n") + 1) != len(change.weights):
            sums[side.namespace] += _DAMAGED
        sums[side.namespace] += side.add_up(change.doc, ((term, new) for term, _, new in changed))
        sums[side.namespace] -= side.add_up(change.doc, ((term, old) for term, old, _ in changed))

    async for name, archived, part, term, *row in transaction.stream(
        _TERMS + where.format("r"), *values
    ):
        side = _Side(to_name(name), archived)
        sums[side.namespace] += side.add_up_row(part, to_name(term), *row)

    wrong = sorted(name for name, total in sums.items() if total)
    return [_read_text(name.encode(errors="surrogateescape")) for name in wrong]


async def rebuild_index(transaction: Transaction, namespace: str) -> None:
    """Make the index of a namespace anew.

    Memories whose numbers are impossible, or larger than need be, get those that are free.
    """
    await _close_gaps(transaction, namespace)
    await transaction.run(_DELETE_TERMS, namespace)
    await transaction.run(_DELETE_RECENT, namespace)

    language = await read_language(transaction)
    changes: Changes = {}
    block = 0
    async for _, doc, archived, *texts in transaction.stream(_NUMBERED, namespace):
        if postings.block_of(doc) != block:
            await save_changes(transaction, namespace, changes)
            changes, block = {}, postings.block_of(doc)
        weights = _weigh(texts, language)
        collect(changes, archived, doc, weights.items())

    await save_changes(transaction, namespace, changes)


async def _close_gaps(transaction: Transaction, namespace: str) -> None:
    ((size,),) = await transaction.fetch(_SIZE, namespace)
    outside = await transaction.fetch(_OUTSIDE, namespace, size - 1)
    if outside:
        taken = {doc for (doc,) in await transaction.fetch(_NUMBERS, namespace, size - 1)}
        free = (doc for doc in range(size) if doc not in taken)
        rows = [(doc, namespace, name) for doc, (name,) in zip(free, outside, strict=True)]
        await transaction.run_many(_RENUMBER, rows)


def _weigh(texts: Sequence[str | bytes], language: Language) -> Weights:
    key, summary, content = map(_read_text, texts)
    return weigh_terms(key, summary, content, language)


def _read_text(text: str | bytes) -> str:
    """Return a text of a memory, with a character in the place of bytes that damage left."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text
