"""What a search looks for, and the text that it looks into."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.store import queries
from abilities.helpers.store.changes import Change, create_row
from abilities.helpers.store.model import IncomingMemory, Row, StoredMemory
from abilities.helpers.store.query import (
    SEPARATOR,
    Query,
    fold_columns,
    fold_searchable,
    split_search,
)
from abilities.helpers.store.sqlite import search
from abilities.helpers.store.sqlite.search import has_terms
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.store.sqlite.threads import connect
from abilities.helpers.store.sqlite.transaction import run

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=' "'), min_size=1)
phrases = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"'), min_size=1)
fields = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("search", "terms"),
    [
        ("", ()),
        ("   ", ()),
        ('""', ()),
        ("Ada Lovelace", ("ada", "lovelace")),
        ("  ADR-007  adr-007 ", ("adr-007",)),
        ('"Ada Lovelace" born', ("ada lovelace", "born")),
        ('born "Ada Lovelace"', ("born", "ada lovelace")),
        ('"one" "two three"', ("one", "two three")),
        ('" "', (" ",)),
        ('"unpaired', ('"unpaired',)),
        ('a "b c', ("a", '"b', "c")),
        ('5" x 7"', ('5"', "x", '7"')),
        ('{"a": 1}', ('{"a":', "1}")),
        ('"', ('"',)),
        ('"a b"c d"', ('"a', 'b"c', 'd"')),
        ("Straße STRASSE", ("strasse",)),
        ("a\tb", ("a\tb",)),
    ],
)
def test_a_search_is_split_into_terms(search: str, terms: tuple[str, ...]) -> None:
    assert split_search(search) == terms


@given(st.lists(words))
def test_words_between_spaces_are_terms(texts: list[str]) -> None:
    terms = split_search(" ".join(texts))

    assert terms == tuple(dict.fromkeys(text.casefold() for text in texts))


@given(words, phrases, words)
def test_a_phrase_in_quotes_is_one_term(before: str, phrase: str, after: str) -> None:
    terms = split_search(f'{before} "{phrase}" {after}')

    expected = (before.casefold(), phrase.casefold(), after.casefold())
    assert terms == tuple(dict.fromkeys(expected))


@given(fields, fields, fields, fields, st.lists(fields, max_size=3), fields)
def test_a_term_is_in_the_searchable_text_if_it_is_in_a_field(
    key: str, summary: str, content: str, category: str, tags: list[str], term: str
) -> None:
    row = make_row()._replace(
        key=key,
        summary=summary,
        content=content,
        category=category,
        tags=orjson.dumps(tags).decode(),
    )
    searched = (key, summary, content, category, *tags)

    found = term.casefold() in fold_searchable(row)

    assert found == any(term.casefold() in text.casefold() for text in searched)


@given(fields, fields, fields, fields, st.lists(fields, max_size=3), st.lists(words, min_size=1))
def test_a_scanned_memory_has_the_terms_that_its_searchable_text_has(
    key: str, summary: str, content: str, category: str, tags: list[str], searched: list[str]
) -> None:
    columns = (key, summary, content, category, orjson.dumps(tags).decode())
    terms = split_search(" ".join(searched))

    found = has_terms(SEPARATOR.join(terms), *(column.encode() for column in columns))

    assert found == all(term in fold_columns(*columns) for term in terms)


@given(st.text())
def test_no_term_holds_what_separates_the_fields(text: str) -> None:
    assert SEPARATOR not in text.casefold()


@pytest.mark.parametrize("tags", ["", "[1]", "{}", b"[]", None, 7])
def test_a_damaged_memory_has_a_searchable_text(tags: object) -> None:
    row = make_row()._replace(key="K", content=7, tags=tags)  # type: ignore[arg-type]

    assert fold_searchable(row) == SEPARATOR.join(["k", "", ""])


def make_row() -> Row:
    return create_row(Change("store", "2026-01-01T00:00:00.000Z", key="k"), "a")


async def test_a_search_costs_no_more_if_others_have_many_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_SCAN_LIMIT", 10)
    few, many = [await count_steps(tmp_path / f"{others}.db", others) for others in (100, 1_000)]

    assert many <= few + 1


async def count_steps(path: Path, others: int) -> int:
    """Return the steps of SQLite in a search for what all memories of all namespaces have."""
    store = await fill_store(path, {"own": 20, "others": others})

    # A term is looked up in each segment of the index; how many there are depends on how many
    # transactions the import took, and so on the machine.
    with closing(connect(store.engine.file, writing=True)) as connection:
        for table in ("search", "search_short"):
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")

    steps = 0

    def count_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(connect(store.engine.file, writing=False)) as connection:
        connection.set_progress_handler(count_step, 100)
        page = run(connection, queries.run_query, "own", Query(search=("wo",), limit=1))
    await store.close()

    assert page.total == 20
    return steps


async def test_a_search_of_the_only_namespace_finds_without_scanning(tmp_path: Path) -> None:
    store = await fill_store(tmp_path / "m.db", {"own": 300})

    found = search_counting(store, "k299")
    await store.close()

    assert found == SearchEffort(total=1, scanned=0)


@pytest.mark.parametrize(("text", "total"), [("k299", 1), ("wo", 300), ("nowhere", 0)])
async def test_a_search_of_a_small_namespace_among_others_scans_it_once(
    tmp_path: Path, text: str, total: int
) -> None:
    store = await fill_store(tmp_path / "m.db", {"own": 300, "others": 30})

    found = search_counting(store, text)
    await store.close()

    assert found == SearchEffort(total, scanned=300)


class SearchEffort(NamedTuple):
    """How many memories a search found, and how many texts it looked into."""

    total: int
    scanned: int


def search_counting(store: SqliteStore, text: str) -> SearchEffort:
    """Search a store's namespace "own"."""
    scanned = 0

    def count_text(terms: str, *columns: bytes) -> bool:
        nonlocal scanned
        scanned += 1
        return has_terms(terms, *columns)

    with closing(connect(store.engine.file, writing=False)) as connection:
        connection.create_function("has_terms", -1, count_text, deterministic=True)
        page = run(connection, queries.run_query, "own", Query(search=(text,), limit=50))

    return SearchEffort(page.total, scanned)


async def fill_store(path: Path, numbers: dict[str, int]) -> SqliteStore:
    """Return a store with so many memories in each namespace."""
    store = SqliteStore(path)
    for namespace, number in numbers.items():
        memories = [make_memory(namespace, f"k{n}") for n in range(number)]
        await store.import_batch([IncomingMemory(memory) for memory in memories])

    return store


def make_memory(namespace: str, key: str) -> StoredMemory:
    time = "2026-01-01T00:00:00.000Z"
    row = Row(
        namespace,
        key,
        f"{namespace}-{key}",
        0,
        0.5,
        0,
        "core",
        "low",
        "",
        time,
        time,
        "[]",
        "",
        "{}",
        "a word",
    )
    return StoredMemory(row, (), 0, time, 0)
