"""What a search looks for, and the text that it looks into."""

from contextlib import closing

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.store import engine, model, queries
from abilities.helpers.store.model import IncomingMemory, Row, StoredMemory
from abilities.helpers.store.sqlite import search
from abilities.helpers.store.sqlite.search import has_terms
from abilities.helpers.store.sqlite.store import connect
from abilities.helpers.store.sqlite.transaction import run
from tests.support.places import FilePlace

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=' "'), min_size=1)
fields = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

TERMS = {
    "": (),
    "   ": (),
    '""': (),
    "Ada Lovelace": ("ada", "lovelace"),
    "  ADR-007  adr-007 ": ("adr-007",),
    '"Ada Lovelace" born': ("ada lovelace", "born"),
    'born "Ada Lovelace"': ("born", "ada lovelace"),
    '"one" "two three"': ("one", "two three"),
    '" "': (" ",),
    '"unpaired': ('"unpaired',),
    'a "b c': ("a", '"b', "c"),
    '5" x 7"': ('5"', "x", '7"'),
    '{"a": 1}': ('{"a":', "1}"),
    '"': ('"',),
    '"a b"c d"': ('"a', 'b"c', 'd"'),
    "Straße STRASSE": ("strasse",),
    "a\tb": ("a\tb",),
}


@pytest.mark.parametrize("text", TERMS)
def test_a_search_is_split_into_terms(text: str) -> None:
    assert model.split_search(text) == TERMS[text]


@given(fields, fields, fields, fields, st.lists(fields, max_size=3), st.lists(words, min_size=1))
def test_a_memory_has_the_terms_that_are_in_one_of_its_fields(
    key: str, summary: str, content: str, category: str, tags: list[str], searched: list[str]
) -> None:
    """As it is indexed and as it is scanned; no term holds what separates the fields."""
    columns = (key, summary, content, category, orjson.dumps(tags).decode())
    terms = model.split_search(" ".join(searched))
    texts = [text.casefold() for text in (key, summary, content, category, *tags)]
    expected = [any(term in text for text in texts) for term in terms]

    assert not any(engine.SEPARATOR in term for term in terms)
    assert [term in engine.fold_columns(*columns) for term in terms] == expected
    scanned = has_terms(engine.SEPARATOR.join(terms), *(column.encode() for column in columns))
    assert scanned == all(expected)


async def test_a_search_costs_no_more_if_others_have_many_matches(
    file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_SCAN_LIMIT", 10)
    few, many = [
        await count_steps(file_place.beside(f"{others}.db"), others) for others in (100, 1_000)
    ]

    assert many <= few + 1


async def count_steps(place: FilePlace, others: int) -> int:
    """Return the steps of SQLite in a search for what all memories of all namespaces have."""
    await fill(place, {"own": 20, "others": others})
    # A term is looked up in each segment of the index; how many there are depends on how many
    # transactions the import took, and so on the machine.
    with place.connect() as connection:
        for table in ("search", "search_short"):
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")

    steps = 0

    def count_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    async with place.open() as store:
        with closing(connect(store.engine.file, writing=False)) as connection:
            connection.set_progress_handler(count_step, 100)
            page = run(connection, queries.run_query, "own", model.Query(search=("wo",), limit=1))

    assert page.total == 20
    return steps


@pytest.mark.parametrize(
    ("others", "text", "total", "scanned"),
    [(0, "k299", 1, 0), (30, "k299", 1, 300), (30, "wo", 300, 300), (30, "nowhere", 0, 300)],
)
async def test_a_small_namespace_among_others_is_scanned_once_and_the_only_one_is_not(
    others: int, text: str, total: int, scanned: int, file_place: FilePlace
) -> None:
    await fill(file_place, {"own": 300, "others": others})
    texts: list[str] = []

    def note_text(terms: str, *columns: bytes) -> bool:
        texts.append(terms)
        return has_terms(terms, *columns)

    async with file_place.open() as store:
        with closing(connect(store.engine.file, writing=False)) as connection:
            connection.create_function("has_terms", -1, note_text, deterministic=True)
            page = run(connection, queries.run_query, "own", model.Query(search=(text,), limit=50))

    assert (page.total, len(texts)) == (total, scanned)


async def fill(place: FilePlace, numbers: dict[str, int]) -> None:
    """Store so many memories in each namespace."""
    time = "2026-01-01T00:00:00.000Z"
    async with place.open() as store:
        for namespace, number in numbers.items():
            memories: list[IncomingMemory] = []
            for key in (f"k{n}" for n in range(number)):
                names = (namespace, key, f"{namespace}-{key}")
                kind = ("core", "low", "", time, time)
                row = Row(*names, 0, 0.5, 0, *kind, "[]", "", "{}", "a word")
                memories.append(IncomingMemory(StoredMemory(row, (), 0, time, 0)))
            await store.import_batch(memories)
