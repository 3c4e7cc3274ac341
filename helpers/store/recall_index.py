"""The recall index: which memories of a namespace hold which terms.

Each memory has a number in its namespace, ``doc`` in the memory index, and 1,024 numbers are a
block, see `abilities.helpers.search.postings`. The postings of archived memories are kept apart.

A change is first written as one row of recall_recent: the terms whose weights it changed. When a
namespace has many, a later change merges them into recall_terms. So a new memory writes one row
instead of one per term, and a common term, which nearly every memory has, is not rewritten each
time: written straight to the postings, a memory takes up to a third more processor time to store,
beside 100,000 memories as beside 1,000,000. The key of recall_terms begins with the namespace and
the part, which is 16 blocks in a row: a merge changes the rows of few blocks, which so stand on few
pages, and a question still finds 16 blocks of a term side by side.

Comparing the recall index with the memories, and making it anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import lt, mul
from typing import NamedTuple

from abilities.helpers.search import postings
from abilities.helpers.search.ranking import HIGHEST_WEIGHT
from abilities.helpers.search.terms import LANGUAGES, Language, weigh_terms
from abilities.helpers.store.model import Row
from abilities.helpers.store.transaction import Statement, Transaction, to_name

MOST_RECENT = 16_384
"""Weights that the recent changes of a namespace hold before they are merged."""

PART_BLOCKS = 16
"""Blocks of a part: the more, the fewer pages a question reads, and the more a merge changes."""

_LAST_BLOCK = 2**31 - 1
"""The highest number that the column of blocks can hold."""

INDEX_STATE = """
(SELECT min(RAW(name)) FROM recall_language),
(SELECT max(number) FROM recall_recent AS r WHERE r.namespace = given.namespace)
"""
"""The columns of an `IndexState` in a statement that knows the namespace as given.namespace."""

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
    """The name of the index's language, and how many weights the recent changes hold."""

    language: str | bytes | None = None
    recent: int | None = None


class RecentChange(NamedTuple):
    """Terms of a memory on one side of the index, a line each, and two bytes per term.

    These are the weights before and after the change; 0 if the memory did not or does not hold it.
    """

    doc: int
    archived: int
    terms: bytes
    weights: bytes

    def list_weights(self) -> list[tuple[str, int, int]]:
        """Return each term with its weights before and after the change."""
        terms = self.terms.decode(errors="replace").split("\n")
        return list(zip(terms, self.weights[::2], self.weights[1::2], strict=False))


Weights = Mapping[str, int]
"""The weights of a memory's terms."""

TermWeights = dict[str, dict[int, int]]
"""By term, the weights in some memories of a block, by their numbers."""

Changes = dict[tuple[int, int], TermWeights]
"""New weights, by side and block."""


def parse_language(name: str | bytes | None) -> Language:
    """Return a language by its stored name; the default one if that is damaged."""
    text = to_name(name or "")
    return Language(text) if text in LANGUAGES else Language()


async def read_language(transaction: Transaction) -> Language:
    """Return the language that the index is kept in; the default one if it is damaged."""
    ((name,),) = await transaction.fetch(_LANGUAGE)
    return parse_language(name)


async def change_terms(
    transaction: Transaction,
    before: Row | None,
    after: Row | None,
    doc: int,
    state: IndexState | None = None,
) -> None:
    """Let the index follow a change of the memory that has a number in the memory index.

    ``before`` is the sound row that the index followed last, None if the memory is new under this
    number; ``after`` is None if the memory is gone. ``state`` is what was read of `INDEX_STATE` in
    the same transaction; it is read here without that.
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
    old, new = _weigh(before, language), _weigh(after, language)
    for archived in (0, 1):
        await _add_recent(transaction, row.namespace, doc, archived, old[archived], new[archived])


def _get_indexed(row: Row) -> tuple[object, ...]:
    return row.archived, row.key, row.summary, row.content


def _weigh(row: Row | None, language: Language) -> tuple[Weights, Weights]:
    """Return the weights of a memory's terms on both sides of the index."""
    if row is None:
        return {}, {}

    weights = weigh_terms(row.key, row.summary, row.content, language)
    return ({}, weights) if row.archived else (weights, {})


async def _add_recent(
    transaction: Transaction, namespace: str, doc: int, archived: int, old: Weights, new: Weights
) -> None:
    changed = [term for term in {**old, **new} if old.get(term) != new.get(term)]
    if not changed:
        return

    terms = "\n".join(changed).encode()
    weights = bytearray(2 * len(changed))
    weights[::2] = bytes(old.get(term, 0) for term in changed)
    weights[1::2] = bytes(new.get(term, 0) for term in changed)
    values = (namespace, len(changed), doc, archived, terms, bytes(weights), namespace)
    await transaction.run(_ADD_RECENT, *values)


async def merge_recent(transaction: Transaction, namespace: str) -> None:
    """Merge the recent changes of a namespace into its postings; nothing of what went is left."""
    changes: Changes = {}
    for change in map(RecentChange._make, await transaction.fetch(_READ_RECENT, namespace)):
        collect(
            changes,
            change.archived,
            change.doc,
            ((term, after) for term, _, after in change.list_weights()),
        )

    await transaction.run(_DELETE_RECENT, namespace)
    await save_changes(transaction, namespace, changes)


async def remove_doc(transaction: Transaction, namespace: str, doc: int) -> None:
    """Remove the memory with a number, whatever its terms were.

    This reads a part of the index, and is for memories whose terms nobody knows.
    """
    await merge_recent(transaction, namespace)

    block = postings.block_of(doc)
    place = (namespace, block // PART_BLOCKS, block)
    changes: Changes = {}
    for archived, term in await transaction.fetch(_READ_BLOCK, *place):
        text = to_name(term).encode(errors="replace").decode()  # no other can be written
        changes.setdefault((archived, block), {})[text] = {doc: 0}

    await save_changes(transaction, namespace, changes)


def collect(changes: Changes, archived: int, doc: int, weights: Iterable[tuple[str, int]]) -> None:
    """Add the new weights of a memory to changes, unless damage made its number impossible."""
    block = postings.block_of(doc)
    if 0 <= block <= _LAST_BLOCK:
        by_term = changes.setdefault((archived, block), {})
        for term, weight in weights:
            by_term.setdefault(term, {})[doc] = weight


def merge(docs: bytes, weights: Mapping[int, int]) -> bytes:
    """Return the postings of a block with the weights that some memories have now."""
    for doc, weight in sorted(weights.items()):
        docs = postings.change(docs, doc, weight & HIGHEST_WEIGHT)

    return docs


async def save_changes(transaction: Transaction, namespace: str, changes: Changes) -> None:
    """Write changes to the postings."""
    places = {
        (archived, block): (namespace, block // PART_BLOCKS, archived, block)
        for archived, block in sorted(changes)
    }
    asked: list[Statement] = [
        (_READ_TERMS, *place, list(changes[side])) for side, place in places.items()
    ]
    stored = await transaction.fetch_each(*asked)

    for (side, place), rows in zip(places.items(), stored, strict=True):
        before: dict[str, bytes] = dict(rows)  # type: ignore[arg-type]
        after = {
            term: merge(before.get(term, b""), weights)
            for term, weights in sorted(changes[side].items())
        }
        # Sorted, because neighbors share a page.
        saved = [(*place, term, docs) for term, docs in after.items() if docs]
        await transaction.run_many(_SAVE_TERMS, saved)
        empty = [term for term, docs in after.items() if not docs]
        if empty:
            await transaction.run(_DELETE_TERMS, *place, empty)


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

_DELETE_ALL_TERMS = "DELETE FROM recall_terms WHERE namespace = ?"
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
        weights = _weigh_texts(texts, language)
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
    await transaction.run(_DELETE_ALL_TERMS, namespace)
    await transaction.run(_DELETE_RECENT, namespace)

    language = await read_language(transaction)
    changes: Changes = {}
    block = 0
    async for _, doc, archived, *texts in transaction.stream(_NUMBERED, namespace):
        if postings.block_of(doc) != block:
            await save_changes(transaction, namespace, changes)
            changes, block = {}, postings.block_of(doc)
        weights = _weigh_texts(texts, language)
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


def _weigh_texts(texts: Sequence[str | bytes], language: Language) -> Weights:
    key, summary, content = map(_read_text, texts)
    return weigh_terms(key, summary, content, language)


def _read_text(text: str | bytes) -> str:
    """Return a text of a memory, with a character in the place of bytes that damage left."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text
