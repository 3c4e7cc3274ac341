"""The recall index: an inverted index from terms to the memories of a namespace.

Each memory has a number in its namespace, the column ``doc`` of the memory index, and 1,024
numbers are a block; see `abilities.helpers.search.postings`. Archived memories have their own side
of the index.

A change first writes one row of recall_recent, with the terms whose weights it changed. When a
namespace has many such rows, a later change merges them into recall_terms. A new memory thus writes
one row instead of one per term, and does not rewrite the long postings of common terms. Writing
postings directly would take a tenth more processor time per memory in SQLite, and PostgreSQL would
take up to twice as long. The key of recall_terms begins with the namespace and the part, which is
16 consecutive blocks. The rows that a merge changes are thus on few pages, and a question finds 16
blocks of a term side by side.

The module also compares the index with the memories, and rebuilds it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import lt, mul
from typing import NamedTuple

import orjson

from abilities.helpers.search import postings
from abilities.helpers.search.ranking import HIGHEST_WEIGHT
from abilities.helpers.search.terms import LANGUAGES, Language, MemoryTexts, weigh_terms
from abilities.helpers.store.engine import Columns, Statement, Transaction, to_name
from abilities.helpers.store.model import Row

MOST_RECENT = 4_096
"""Weights in the recent changes of a namespace from which on they are merged.

Every question and every new content reads all recent changes. With four times as many weights, a
question about 1,000 short memories would take half as long again, and storing one would not take
less.
"""

PART_BLOCKS = 16
"""Blocks per part: with more, a question reads fewer pages and a merge changes more."""

_LAST_BLOCK = 2**31 - 1
"""The highest value of the column of blocks."""

INDEX_STATE = """
(SELECT min(RAW(name)) FROM recall_language),
(SELECT max(number) FROM recall_recent AS r WHERE r.namespace = given.namespace)
"""
"""The columns of an `IndexState`, for a statement in which given.namespace is the namespace."""

_STATE = f"SELECT {INDEX_STATE} FROM (SELECT CAST(? AS TEXT) AS namespace) AS given"
_LANGUAGE = "SELECT min(RAW(name)) FROM recall_language"
_ADD_RECENT = """
INSERT INTO recall_recent (namespace, number, doc, archived, terms, weights)
SELECT ?, coalesce(max(number), 0) + ?, ?, ?, ?, ? FROM recall_recent WHERE namespace = ?
"""
_READ_RECENT = """
SELECT doc, archived, terms, weights FROM recall_recent WHERE namespace = ? ORDER BY number
"""
_DELETE_RECENT = "DELETE FROM recall_recent WHERE namespace = ?"
_READ_TERMS = """
SELECT term, docs FROM recall_terms
WHERE namespace = ? AND part = ? AND archived = ? AND block = ? AND term = ANY (?)
"""
_READ_BLOCK = """
SELECT archived, RAW(term) FROM recall_terms WHERE namespace = ? AND part = ? AND block = ?
"""
_SAVE_TERMS = """
INSERT INTO recall_terms (namespace, part, archived, block, term, docs) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, part, archived, term, block) DO UPDATE SET docs = excluded.docs
"""
_DELETE_TERMS = """
DELETE FROM recall_terms
WHERE namespace = ? AND part = ? AND archived = ? AND block = ? AND term = ANY (?)
"""


class IndexState(NamedTuple):
    """The name of the index's language, and the number of weights in the recent changes."""

    language: str | bytes | None = None
    recent: int | None = None


class RecentChange(NamedTuple):
    """A change of a memory's terms on one side of the index.

    ``terms`` has one line per term. ``weights`` has two bytes per term: the weights before and
    after the change, 0 without the term.
    """

    doc: int
    archived: int
    terms: bytes
    weights: bytes

    def list_weights(self) -> list[tuple[str, int, int]]:
        """Return each term with its weights before and after the change."""
        terms = self.terms.decode(errors="replace").split("\n")
        before, after = self.weights[::2], self.weights[1::2]
        return list(zip(terms, before, after, strict=False))  # damage can make them unequal


Weights = Mapping[str, int]
"""The weights of a memory's terms."""

TermWeights = dict[str, dict[int, int]]
"""For each term, its weights in memories of a block, by their numbers."""

Changes = dict[tuple[int, int], TermWeights]
"""New weights, by side and block."""


def parse_language(name: str | bytes | None) -> Language:
    """Return a language by its stored name, or the default language if the name is damaged."""
    text = to_name(name or "")
    if text in LANGUAGES:
        return Language(text)

    return Language()


async def read_language(transaction: Transaction) -> Language:
    """Return the language of the index, or the default language if the name is damaged."""
    ((name,),) = await transaction.fetch(_LANGUAGE)
    return parse_language(name)


async def change_terms(
    transaction: Transaction,
    before: Row | None,
    after: Row | None,
    doc: int,
    state: IndexState | None = None,
) -> None:
    """Update the index after a change of the memory with the number ``doc``.

    ``before`` is the row that is indexed under this number, or None. ``after`` is None if the
    memory was deleted. ``state`` is the `INDEX_STATE` if it was read in the same transaction;
    otherwise it is read here.
    """
    row = after or before
    assert row is not None, "a change concerns a memory"
    if before is not None and after is not None and _get_indexed(before) == _get_indexed(after):
        return

    if state is None:
        ((language, recent),) = await transaction.fetch(_STATE, row.namespace)
        state = IndexState(language, recent)
    if state.recent is not None and state.recent >= MOST_RECENT:
        await merge_recent(transaction, row.namespace)

    language = parse_language(state.language)
    sides = zip(_weigh(before, language), _weigh(after, language), strict=True)
    for archived, (old, new) in enumerate(sides):
        changed = [term for term in {**old, **new} if old.get(term) != new.get(term)]
        if not changed:
            continue

        terms = "\n".join(changed).encode()
        weights = bytearray(2 * len(changed))
        weights[::2] = bytes(old.get(term, 0) for term in changed)
        weights[1::2] = bytes(new.get(term, 0) for term in changed)
        values = (row.namespace, len(changed), doc, archived, terms, bytes(weights), row.namespace)
        await transaction.run(_ADD_RECENT, *values)


def _get_indexed(row: Row) -> tuple[object, ...]:
    return row.archived, row.key, row.summary, row.content, row.tags, row.category


def _weigh(row: Row | None, language: Language) -> tuple[Weights, Weights]:
    """Return the weights of a memory's terms on each side of the index."""
    if row is None:
        return {}, {}

    texts = read_texts((row.key, row.summary, row.content, row.tags, row.category))
    weights = weigh_terms(texts, language)
    if row.archived:
        return {}, weights

    return weights, {}


async def merge_recent(transaction: Transaction, namespace: str) -> None:
    """Merge the recent changes of a namespace into its postings, and delete them."""
    changes: Changes = {}
    for change in map(RecentChange._make, await transaction.fetch(_READ_RECENT, namespace)):
        weights = ((term, after) for term, _, after in change.list_weights())
        collect(changes, change.archived, change.doc, weights)

    await transaction.run(_DELETE_RECENT, namespace)
    await save_changes(transaction, namespace, changes)


async def remove_doc(transaction: Transaction, namespace: str, doc: int) -> None:
    """Remove the memory with a number from the index.

    This is for damaged memories, whose former terms are not known. It reads a whole block.
    """
    await merge_recent(transaction, namespace)

    block = postings.block_of(doc)
    place = (namespace, block // PART_BLOCKS, block)
    changes: Changes = {}
    for archived, term in await transaction.fetch(_READ_BLOCK, *place):
        text = to_name(term).encode(errors="replace").decode()  # a damaged term can't be written
        changes.setdefault((archived, block), {})[text] = {doc: 0}

    await save_changes(transaction, namespace, changes)


def collect(changes: Changes, archived: int, doc: int, weights: Iterable[tuple[str, int]]) -> None:
    """Add the new weights of a memory to changes, unless its number is damaged."""
    block = postings.block_of(doc)
    if 0 <= block <= _LAST_BLOCK:
        by_term = changes.setdefault((archived, block), {})
        for term, weight in weights:
            by_term.setdefault(term, {})[doc] = weight


def merge(docs: bytes, weights: Mapping[int, int]) -> bytes:
    """Return the postings of a block with new weights in some memories."""
    for doc, weight in sorted(weights.items()):
        docs = postings.change(docs, doc, weight & HIGHEST_WEIGHT)

    return docs


async def save_changes(transaction: Transaction, namespace: str, changes: Changes) -> None:
    """Write changes to the postings."""
    sides = sorted(changes)
    statements: list[Statement] = []
    for archived, block in sides:
        place = (namespace, block // PART_BLOCKS, archived, block)
        statements.append((_READ_TERMS, *place, list(changes[archived, block])))
    stored = await transaction.fetch_each(*statements)

    for (archived, block), rows in zip(sides, stored, strict=True):
        place = (namespace, block // PART_BLOCKS, archived, block)
        before: dict[str, bytes] = dict(rows)  # type: ignore[arg-type]
        saved: list[Columns] = []
        empty: list[str] = []

        # Sorted, because neighbors share a page.
        for term, weights in sorted(changes[archived, block].items()):
            docs = merge(before.get(term, b""), weights)
            if docs:
                saved.append((*place, term, docs))
            else:
                empty.append(term)

        await transaction.run_many(_SAVE_TERMS, saved)
        if empty:
            await transaction.run(_DELETE_TERMS, *place, empty)


_MEMORIES = """
SELECT RAW(m.namespace), s.doc, m.archived, RAW(m.key), RAW(m.summary), RAW(m.content),
    RAW(m.tags), RAW(m.category)
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


_DAMAGED = 1
"""Added for a damaged row to the sum of its namespace, which is 0 if all is sound."""


class _Side(NamedTuple):
    """One side of a namespace's index: that of archived memories, or that of the others.

    Its sums over postings do not depend on their order.
    """

    namespace: str
    archived: int

    def add_up(self, doc: int, weights: Iterable[tuple[str, int]]) -> int:
        """Return the sum over the postings of a memory."""
        total = 0
        for term, weight in weights:
            if weight:
                # Squared, because the plain sum stays the same if two memories swap weights.
                posting = doc << 6 | weight
                total += hash((*self, term)) * posting * posting

        return total

    def add_up_row(self, part: int, term: str, block: int, docs: bytes) -> int:
        """Return the sum over the stored postings of a term in a block."""
        if not docs or len(docs) % postings.POSTING_BYTES or part != block // PART_BLOCKS:
            return _DAMAGED

        # Stored postings are relative to the first number of their block, and rise.
        first = block * postings.BLOCK_DOCS << 6
        values = [first + value for value in postings.decode(docs)]
        if not all(map(lt, values, values[1:])):
            return _DAMAGED

        total: int = sum(map(mul, values, values))
        return hash((*self, term)) * total


async def list_wrong_parts(transaction: Transaction) -> list[str]:
    """Return the parts of the recall index that disagree with the memories, for an operator."""
    wrong: list[str] = []
    if not await _is_language_sound(transaction):
        wrong.append("recall_language")
    for namespace in await find_wrong_namespaces(transaction):
        wrong.append(f"the recall index of {namespace}")

    return wrong


async def _is_language_sound(transaction: Transaction) -> bool:
    names = await transaction.fetch("SELECT RAW(name) FROM recall_language")
    return [to_name(name) in LANGUAGES for (name,) in names] == [True]


async def mend_language(transaction: Transaction) -> None:
    """Save the language that readers assume, if the stored language of the index is damaged."""
    if not await _is_language_sound(transaction):
        language = await read_language(transaction)
        await transaction.run("DELETE FROM recall_language")
        await transaction.run("INSERT INTO recall_language VALUES (?)", language.name)


async def find_wrong_namespaces(
    transaction: Transaction, namespace: str | None = None
) -> list[str]:
    """Return the namespaces, of all or of one, whose index disagrees with the memories.

    The sum over the postings that the memories should have is compared with the sum over the stored
    ones. A recent change adds its new postings and subtracts its old ones, so nothing is merged.
    """
    where = ""
    values: list[str] = []
    if namespace is not None:
        where, values = " AND {}.namespace = ?", [namespace]
    language = await read_language(transaction)
    sums: dict[str, int] = defaultdict(int)

    memories = transaction.stream(_MEMORIES + where.format("s"), *values)
    async for name, doc, archived, *texts in memories:
        side = _Side(to_name(name), archived)
        weights = weigh_terms(read_texts(texts), language)
        sums[side.namespace] -= side.add_up(doc, weights.items())

    async for name, *columns in transaction.stream(_RECENT + where.format("r"), *values):
        change = RecentChange._make(columns)
        side = _Side(to_name(name), change.archived)
        changed = change.list_weights()
        if 2 * (change.terms.count(b"\n") + 1) != len(change.weights):
            sums[side.namespace] += _DAMAGED
        sums[side.namespace] += side.add_up(change.doc, ((term, new) for term, _, new in changed))
        sums[side.namespace] -= side.add_up(change.doc, ((term, old) for term, old, _ in changed))

    postings_rows = transaction.stream(_TERMS + where.format("r"), *values)
    async for name, archived, part, term, *row in postings_rows:
        side = _Side(to_name(name), archived)
        sums[side.namespace] += side.add_up_row(part, to_name(term), *row)

    wrong = sorted(name for name, total in sums.items() if total)
    return [_read_text(name.encode(errors="surrogateescape")) for name in wrong]


async def rebuild_index(transaction: Transaction, namespace: str) -> None:
    """Rebuild the index of a namespace.

    Memories whose numbers are impossible, or not below the number of memories, get free ones.
    """
    ((size,),) = await transaction.fetch(_SIZE, namespace)
    outside = await transaction.fetch(_OUTSIDE, namespace, size - 1)
    if outside:
        taken = {doc for (doc,) in await transaction.fetch(_NUMBERS, namespace, size - 1)}
        free = (doc for doc in range(size) if doc not in taken)
        rows = [(doc, namespace, name) for doc, (name,) in zip(free, outside, strict=True)]
        await transaction.run_many(_RENUMBER, rows)

    await transaction.run("DELETE FROM recall_terms WHERE namespace = ?", namespace)
    await transaction.run(_DELETE_RECENT, namespace)

    language = await read_language(transaction)
    changes: Changes = {}
    block = 0
    async for _, doc, archived, *texts in transaction.stream(_NUMBERED, namespace):
        if postings.block_of(doc) != block:
            await save_changes(transaction, namespace, changes)
            changes, block = {}, postings.block_of(doc)
        weights = weigh_terms(read_texts(texts), language)
        collect(changes, archived, doc, weights.items())

    await save_changes(transaction, namespace, changes)


def read_texts(texts: Sequence[str | bytes]) -> MemoryTexts:
    """Return the texts of the RAW columns key, summary, content, tags and category."""
    key, summary, content, tags, category = map(_read_text, texts)
    with suppress(ValueError, TypeError):  # damaged tags are indexed as they are
        tags = " ".join(orjson.loads(tags))

    return MemoryTexts(key, summary, content, f"{tags} {category}")


def _read_text(text: str | bytes) -> str:
    """Return the text of a RAW column, with U+FFFD for invalid UTF-8."""
    if isinstance(text, bytes):
        return text.decode(errors="replace")

    return text
