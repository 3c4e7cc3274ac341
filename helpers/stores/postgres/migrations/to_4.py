"""To version 4: the recall index, and the search index of more fields.

Memories are read in blocks. What finds them is copied into new tables, because changing every row
of the old ones would leave these twice as large.
"""

from importlib.resources import files
from typing import NamedTuple

from abilities.helpers.search import postings
from abilities.helpers.search.postings import BLOCK_DOCS
from abilities.helpers.search.terms import Language
from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.postgres.migrations.stages import (
    PostgresMigration,
    PostgresStage,
    make_single_block,
)
from abilities.helpers.stores.postgres.recall_index import (
    IndexedMemory,
    collect_postings,
    read_language,
    save_postings,
)
from abilities.helpers.stores.postgres.search_index import create_search_index
from abilities.helpers.stores.postgres.statements import Connection, Select, Statement, split
from abilities.helpers.stores.search_text import fold_columns

MEMORIES = 8 * BLOCK_DOCS
"""Memories per block."""

_FIRST: Position = ["", "", "0"]


class _Memory(NamedTuple):
    namespace: str
    key: str
    id: str
    archived: int
    summary: str
    content: str
    category: str
    tags: str


class _Numbered(NamedTuple):
    """A memory and its number in its namespace."""

    doc: int
    memory: _Memory


_SELECT_MEMORIES = Select(
    f"""
    SELECT {", ".join(f"m.{name}" for name in _Memory._fields)} FROM memories AS m
    WHERE (m.namespace, m.key) > (%s, %s) ORDER BY m.namespace, m.key LIMIT %s
    """,
    _Memory._make,
)
_COPY_SHELF = Statement("""
    INSERT INTO shelf
    SELECT s.*, new.doc FROM unnest(%s::text[], %s::text[], %s::text[], %s::int8[])
        AS new (namespace, id, key, doc)
    JOIN abilities_3.shelf AS s ON s.namespace = new.namespace AND s.id = new.id
        AND s.key = new.key
""")
_COPY_WORDS = b"COPY words (namespace, id, folded) FROM STDIN"


async def _index_memories(connection: Connection, position: Position) -> Block:
    """Number and index memories in the order of their keys.

    A block ends where a block of numbers does, so that the postings of each are written once.
    """
    namespace, key, next_doc = position or _FIRST
    memories = await _SELECT_MEMORIES.fetch(connection, namespace, key, MEMORIES)
    if not memories:
        return Block(0, None)

    numbered = _number(memories, str(namespace), int(next_doc))
    if len(memories) == MEMORIES:
        numbered = _keep_whole_blocks(numbered)

    await _copy(connection, numbered)
    language = await read_language(connection)
    await _save_postings(connection, numbered, language)

    doc, last = numbered[-1]
    return Block(len(numbered), [last.namespace, last.key, str(doc + 1)])


def _number(memories: list[_Memory], namespace: str, next_doc: int) -> list[_Numbered]:
    numbered: list[_Numbered] = []
    for memory in memories:
        if memory.namespace != namespace:
            namespace, next_doc = memory.namespace, 0

        numbered.append(_Numbered(next_doc, memory))
        next_doc += 1

    return numbered


def _keep_whole_blocks(numbered: list[_Numbered]) -> list[_Numbered]:
    """Leave out the last memories if their block of numbers may go on behind them."""
    doc, _ = numbered[-1]
    unfinished = (doc + 1) % BLOCK_DOCS
    return numbered[: len(numbered) - unfinished]


async def _copy(connection: Connection, numbered: list[_Numbered]) -> None:
    """Write what finds the memories by other means than the recall index."""
    async with connection.cursor().copy(_COPY_WORDS) as copy:
        for _, memory in numbered:
            folded = fold_columns(
                memory.key, memory.summary, memory.content, memory.category, memory.tags
            )
            await copy.write_row((memory.namespace, memory.id, folded))

    await _COPY_SHELF.execute(
        connection,
        [memory.namespace for _, memory in numbered],
        [memory.id for _, memory in numbered],
        [memory.key for _, memory in numbered],
        [doc for doc, _ in numbered],
    )


async def _save_postings(
    connection: Connection, numbered: list[_Numbered], language: Language
) -> None:
    blocks: dict[tuple[str, int], list[IndexedMemory]] = {}
    for doc, memory in numbered:
        indexed = IndexedMemory(doc, memory.archived, memory.key, memory.summary, memory.content)
        blocks.setdefault((memory.namespace, postings.block_of(doc)), []).append(indexed)

    for (namespace, _), memories in blocks.items():
        collected = collect_postings(memories, language)
        async for portion in split(collected):
            await save_postings(connection, namespace, portion)


async def _make_search_index(connection: Connection, _position: Position) -> Block:
    await connection.execute("ALTER TABLE words ADD PRIMARY KEY (namespace, id)")
    await create_search_index(connection)

    return Block(0, None)


_script = files("abilities.helpers.stores.postgres.migrations").joinpath("to_4_begin.sql")

MIGRATION = PostgresMigration(
    _script.read_text(encoding="utf-8"),
    (
        PostgresStage("memories", _index_memories, "SELECT count(*) FROM memories"),
        make_single_block(
            "the indexes of memories",
            "ALTER TABLE shelf ADD PRIMARY KEY (namespace, id)",
            "CREATE UNIQUE INDEX shelf_doc ON shelf (namespace, doc)",
            """
            CREATE INDEX shelf_accessed ON shelf (namespace, accessed_at, id) WHERE archived = 0
            """,
            "CREATE INDEX shelf_accessed_all ON shelf (namespace, accessed_at, id)",
            """
            CREATE INDEX shelf_type ON shelf (namespace, type, accessed_at, id)
            WHERE archived = 0
            """,
        ),
        make_single_block(
            "more indexes of memories",
            """
            CREATE INDEX shelf_importance ON shelf (namespace, importance, accessed_at, id)
            WHERE archived = 0
            """,
            """
            CREATE INDEX shelf_importance_order ON shelf (namespace, importance, id)
            WHERE archived = 0
            """,
            """
            CREATE INDEX shelf_category ON shelf (namespace, category, accessed_at, id)
            WHERE archived = 0
            """,
            "CREATE INDEX shelf_created ON shelf (namespace, created_at, id)",
            "CREATE INDEX shelf_updated ON shelf (namespace, updated_at, id)",
            "CREATE INDEX shelf_count ON shelf (namespace, access_count, id)",
        ),
        PostgresStage("the index for search", _make_search_index),
        make_single_block(
            "the end",
            """
            CREATE TRIGGER shelf_counted AFTER INSERT OR DELETE ON shelf
            FOR EACH ROW EXECUTE FUNCTION count_shelf()
            """,
            "DROP SCHEMA abilities_3 CASCADE",
            "ANALYZE shelf, words, recall_terms, recall_recent",
        ),
    ),
)
