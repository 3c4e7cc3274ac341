"""Behaviors of memories: how they are stored, changed, renamed, found and counted."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import split_question
from abilities.helpers.store.model import MemoryLine, Query, split_search
from abilities.helpers.store.protocol import MemoryStore
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    OTHER_NAMESPACE,
    add,
    end,
    expect,
    expect_refused,
    find_keys,
    list_keys,
    plan,
    put,
    put_many,
    read_one,
)
from tests.support.present_trial import PresentTrial

PAST = "2026-01-01T12:00:00.000Z"
"""Between the first change of a behavior and the next day's, and long before today."""

FUTURE = "9999-01-01T00:00:00.000Z"


async def any_changes_show_as_a_model_shows_them(store: MemoryStore) -> None:
    """After random changes: fields, links, walks, queries, statistics, lists and recalls."""
    await PresentTrial(store, seed=1).run(60)


async def reads_keep_order_and_duplicates(store: MemoryStore) -> None:
    """A read returns one item per key, in that order, and a Refused for each missing memory."""
    await put(store, "a")
    await put(store, "b")

    keys = list_keys(await store.read(NAMESPACE, ["b", "none", "a", "b"]))

    expect(keys, ["b", "memory_not_found", "a", "b"], "a read returns one item per key, in order")


async def namespaces_are_isolated(store: MemoryStore) -> None:
    """Nothing of one namespace is seen from another."""
    memory_id = (await add(store, "k", tags=["t"])).row.id

    elsewhere = store.change(OTHER_NAMESPACE, plan("delete", id=memory_id))
    await expect_refused(elsewhere, "id_not_found", "an id is known only in its namespace")
    memories = await store.read(OTHER_NAMESPACE, ["k"])
    page = await store.query(OTHER_NAMESPACE, Query(archived=True))
    found = await store.query(OTHER_NAMESPACE, Query(search=("k",)))
    stats = await store.read_stats(OTHER_NAMESPACE)

    expect(list_keys(memories), ["memory_not_found"], "a key is known only in its namespace")
    expect((page.total, found.total), (0, 0), "queries stay in their namespace")
    expect(stats.total, 0, "statistics stay in their namespace")


async def concurrent_changes_are_all_made(store: MemoryStore) -> None:
    """Changes of one memory at the same time are made one after another; none is lost."""
    await put(store, "k", content="[40]")
    additions = [plan("append", "k", fields={"content": f"[{n:02}]"}) for n in range(40)]
    adding = [store.change(NAMESPACE, addition) for addition in additions]
    linking = [put(store, "k", kind="update", links=[(f"t{n}", 0.5)]) for n in range(40)]

    await asyncio.gather(*adding, *linking)

    memory = await store.read_linked(NAMESPACE, "k", 0, 100)
    expect(memory.links_total, 40, "every one of 40 links is there")
    pieces = sorted(memory.row.content.split("]"))
    expect(pieces, ["", *(f"[{n:02}" for n in range(41))], "and every one of 40 additions")


async def memories_are_listed_by_key_in_pages(store: MemoryStore) -> None:
    """Keys come in the order of their code points; a prefix is taken as it stands."""
    keys = ["A", "Z", "a", "a%", "a%b", "a_", "a_b", "ab", "a\ud7ff", "a\ud7ffx", "a\ue000"]
    keys += ["a\U0010ffff", "a\U0010ffffb", "é", "\uffff", "\U00010000", "\U0010ffffz"]
    for key in reversed(keys):
        await put(store, key, summary=f"s {key}", content="ß" * len(key))
    await end(store, "archive", "a_b")
    keys.remove("a_b")

    async def list_page(prefix: str, after: str = "", limit: int = 20) -> Sequence[str]:
        lines = await store.list_memories(NAMESPACE, prefix, after, limit, archived=False)
        return [line.key for line in lines]

    last = "\U0010ffff"
    prefixes = ("", "a", "a%", "a_", "\uffff", "a%c", "\\", "a\ud7ff", f"a{last}", last, last * 2)
    for prefix in prefixes:
        expected = [key for key in keys if key.startswith(prefix)]
        expect(await list_page(prefix), expected, f"keys begin with {prefix!r}, in order")
    expect(await list_page("a", "a%b", 2), ["a_", "ab"], "a page comes after a key")
    expect(await list_page("a", "Z", 1), ["a"], "the key need not have the prefix")
    expect(await store.list_memories(OTHER_NAMESPACE, "", "", 9, archived=True), [], "by namespace")

    (line,) = await store.list_memories(NAMESPACE, "a_b", "", 20, archived=True)
    row = (await read_one(store, "a_b")).row
    expected_line = MemoryLine("a_b", "s a_b", "core", 6, row.version, row.updated_at, True)
    expect(line, expected_line, "a line tells all but the content")


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


async def _expect_search(store: MemoryStore, search: str, keys: list[str]) -> None:
    """Check which memories have all terms of a search; ``keys`` are sorted."""
    found = await find_keys(store, Query(search=split_search(search), limit=20))
    expect(sorted(found), keys, f"a search for {search} finds what has all its terms")


async def a_memory_past_its_end_reads_as_archived(store: MemoryStore) -> None:
    """Whichever read or change is the first after its end, which is a change of its own."""
    question = RecallRequest((split_question("rose", await store.read_language()),))

    async def recall_keys(_: str) -> object:
        return list((await store.recall(NAMESPACE, question, 1 << 20, [0])).memories)

    reads: dict[str, Callable[[str], Awaitable[object]]] = {
        "read": lambda key: store.read(NAMESPACE, [key]),
        "read_linked": lambda key: store.read_linked(NAMESPACE, key, 0, 9),
        "walk": lambda _: store.walk(NAMESPACE, "hub", WalkLimits(1, 20, 50), "in"),
        "query": lambda _: store.query(NAMESPACE, Query()),
        "recall": recall_keys,
        "list": lambda _: store.list_memories(NAMESPACE, "", "", 9, archived=False),
        "stats": lambda _: store.read_stats(NAMESPACE),
    }
    await put(store, "hub", expires_at=FUTURE)
    for key, read in reads.items():
        written = await put(store, key, content="rose", tags=["t"], links=[("hub", 0.5)])
        present = repr(await read(key))
        await put(store, key, kind="update", expires_at=PAST)

        first, second = repr(await read(key)), repr(await read(key))

        expect(first, second, f"{key} reads the same, however soon after its end")
        expect(first != present, True, f"{key} reads something else after its end")
        row = (await read_one(store, key)).row
        expect(row.archived, 1, "it is archived")
        expect(row.version > written.version + 1, True, "with a version of its own")
        expect((await read_one(store, "hub")).row.archived, 0, "another end is yet to come")

    await put(store, "a", expires_at=PAST)
    written = await put(store, "other", now=LATER)
    archived = await read_one(store, "a")
    expect(archived.row.version < written.version, True, "a change comes after the end")


async def a_change_finds_its_memory_ended_however_many_others_are(store: MemoryStore) -> None:
    """A change archives only some of the memories that ended, but always its own."""
    fields = {"type": "core", "content": "x", "expires_at": PAST}
    keys = [f"k{number}" for number in range(300)]
    changes = [plan("store", key, fields=fields) for key in keys]
    await put_many(store, changes)

    last = max(changes, key=lambda change: change.new_id)
    result = await put(store, str(last.key), kind="update", now=LATER, content="changed")

    expect(result.version, len(keys) + 2, "its own memory was archived before")
    row = (await read_one(store, str(last.key))).row
    expect((row.archived, row.content), (1, "changed"), "it stays so")
