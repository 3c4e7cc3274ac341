"""Behaviors of the search of every store, for `tests.stores.behaviours`."""

from abilities.helpers.store.protocol import MemoryStore
from abilities.helpers.store.query import Query, split_search
from tests.stores.behaviours.steps import (
    NAMESPACE,
    OTHER_NAMESPACE,
    expect,
    expect_stored,
    list_keys,
    put,
    rename,
)


async def a_search_looks_into_every_text(store: MemoryStore) -> None:
    """Key, summary, content, category and tags are searched, whatever the case of their letters."""
    await put(store, "people/Ada Lovelace", content="She wrote the first program.")
    await put(store, "k1", content="see ADR-007", summary="Über die Wahl", category="Decision")
    await put(store, "k2", content="100%_sure \\", tags=["Größe", "x y"])

    for search, keys in {
        "ada lovelace": ["people/Ada Lovelace"],
        "FIRST PROGRAM": ["people/Ada Lovelace"],
        "Lovelace wrote": ["people/Ada Lovelace"],
        "adr-007": ["k1"],
        "über decision ADR": ["k1"],
        "GRÖSSE sure k2": ["k2"],
        "100% _s \\": ["k2"],
        "k": ["k1", "k2"],
        "K1 K2": [],
        "e w": ["k1", "people/Ada Lovelace"],
        "lovelace adr-007": [],
        "k1see": [],
    }.items():
        await _expect_search(store, search, keys)

    page = await store.query(OTHER_NAMESPACE, Query(search=("k1",)))
    expect(page.total, 0, "a search finds nothing of another namespace")


async def a_phrase_in_quotes_is_found_as_it_stands(store: MemoryStore) -> None:
    """A phrase is one term, which no other order and no two fields make up."""
    await put(store, "k1", content='Ada Lovelace said: a 5" pipe', tags=["red", "blue sky"])
    await put(store, "k2", content="Lovelace, Ada", summary="blue", tags=["sky"])

    for search, keys in {
        '"Ada Lovelace"': ["k1"],
        '"ada lovelace" "BLUE SKY"': ["k1"],
        "ada lovelace": ["k1", "k2"],
        "blue sky": ["k1", "k2"],
        '"blue sky"': ["k1"],
        '5"': ["k1"],
        '"lovelace': [],
        '"a "': ["k1"],
    }.items():
        await _expect_search(store, search, keys)


async def a_search_follows_every_change(store: MemoryStore) -> None:
    """What a memory had before a change is not found any more, and what it has now is."""
    stored = expect_stored(await put(store, "old name", content="rose", summary="one", tags=["t1"]))
    memory_id = stored.row.id

    await rename(store, memory_id, "new name")
    await _expect_search(store, "old", [])
    await _expect_search(store, "new rose", ["new name"])

    await put(store, "new name", summary="two", category="fruit", tags=["t2"])
    await _expect_search(store, "one", [])
    await _expect_search(store, "t1", [])
    await _expect_search(store, "two fruit t2", ["new name"])

    await put(store, "", kind="archive", id=memory_id)
    await _expect_search(store, "fruit", [])
    archived = await store.query(NAMESPACE, Query(search=("fruit", "t2"), archived=True))
    expect((list_keys(archived.memories), archived.total), (["new name"], 1), "it is archived")

    await put(store, "new name")
    await _expect_search(store, "fruit", ["new name"])

    await put(store, "", kind="delete", id=memory_id)
    await _expect_search(store, "new", [])


async def _expect_search(store: MemoryStore, search: str, keys: list[str]) -> None:
    """Check which memories have all terms of a search; ``keys`` are sorted."""
    page = await store.query(NAMESPACE, Query(search=split_search(search), limit=20))

    found = list_keys(page.memories)
    expect(sorted(found), keys, f"a search for {search} finds what has all its terms")
    expect(page.total, len(keys), f"a search for {search} counts what has all its terms")
