"""The contract of a store that knows which memories are about a file."""

from collections.abc import Sequence
from typing import Any

from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import Language, split_question
from abilities.helpers.store.model import Query
from abilities.helpers.store.protocol import ServableStore
from tests.stores.behaviours.steps import LATER, NAMESPACE, TIME, expect, put

PATH = "src/app.py"


async def find(store: ServableStore, path: str = PATH) -> list[str]:
    found = await store.find_about(NAMESPACE, [path])
    return [memory.row.key for memory in found.get(path, [])]


async def put_about(store: ServableStore, key: str, *paths: str, **more: Any) -> None:
    await put(store, key, content="x", about=list(paths), **more)


async def the_closest_memories_about_a_file_come_first(store: ServableStore) -> None:
    """A path comes before a pattern, the more specific of these first, and both before a name."""
    closeness: Sequence[tuple[str, str]] = (
        ("path", "src/app.py"),
        ("pattern", "src/*.{py,md}"),
        ("folder", "src"),
        ("everywhere", "**/*.py"),
    )
    await put(store, "name", content="Run app.py.", importance="high")
    await put(store, "named", content=f"(See `{PATH}:12`.)")
    await put_about(store, "other", "src/app", "app.py", "src/app.py/*", "lib/**", "src/*.md")

    for expected in (["named", "name"], *([key] for key, _ in reversed(closeness))):
        expect((await find(store))[: len(expected)], expected, "the closest come first")
        if closeness:
            *closeness, (key, path) = closeness
            await put_about(store, key, path)

    expect(await find(store), ["path", "pattern", "folder"], "there are three at most")


async def equally_close_memories_come_by_importance_and_age(store: ServableStore) -> None:
    """The more important comes first, then the newer, then that of the first key."""
    await put_about(store, "b", PATH)
    await put_about(store, "a", PATH)
    expect(await find(store), ["a", "b"], "of equal ones, the first key comes first")

    await put_about(store, "c", PATH, now=LATER)
    expect(await find(store), ["c", "a", "b"], "the newer comes first")
    await put_about(store, "b", PATH, importance="high")
    expect(await find(store), ["b", "c", "a"], "the more important comes first")


async def memories_about_files_follow_every_change(store: ServableStore) -> None:
    """A change counts at once: of paths, content, key and state; expired memories count no more."""
    expect(await find(store), [], "an empty store knows nothing")
    await put_about(store, "k", PATH)
    expect(await find(store), ["k"], "a memory counts as soon as it is stored")

    await put(store, "k", kind="update", about=["lib"])
    expect(await find(store), [], "other paths replace the former ones")
    await put(store, "k", kind="append", content=f" {PATH}")
    expect(await find(store), ["k"], "a content counts")

    await put(store, "k", kind="archive")
    expect(await find(store), [], "an archived memory does not count")
    await put(store, "k", kind="update", archived=False, expires_at=LATER)
    expect(await find(store), [], "an expired memory does not count")
    await put(store, "k", kind="update", archived=False, expires_at="")
    expect(await find(store), ["k"], "a revived memory counts")

    await put(store, "k", kind="delete")
    expect(await find(store), [], "a deleted memory does not count")
    await put(store, "k", kind="restore")
    expect(await find(store), ["k"], "a restored memory counts")
    expect(await store.find_about("other", [PATH]), {}, "each namespace has its own")


async def queries_and_recalls_are_limited_to_a_file(store: ServableStore) -> None:
    """The filter ``about`` passes all memories about a file, archived ones if these are wanted."""
    await put_about(store, "path", PATH)
    await put_about(store, "folder", "src/**")
    await put(store, "named", content=f"x {PATH}")
    await put(store, "none", content="x")
    await put_about(store, "old", PATH)
    await put(store, "old", kind="archive")

    for archived, expected in ((False, ["folder", "named", "path"]), (True, ["old"])):
        page = await store.query(NAMESPACE, Query(about=PATH, archived=archived))
        keys = sorted(memory.row.key for memory in page.memories)  # type: ignore[union-attr]
        expect([key for key in keys if key in (*expected, "none")], expected, "a query is limited")
        expect(page.total, 3 + archived, "the total is exact")

        filters = Filters(about=PATH, archived=archived)
        question = split_question("x", Language())
        request = RecallRequest((question,), filters, hops=0, at_least=0)
        recalled = await store.recall(NAMESPACE, request, 10_000, [0])
        keys = sorted(recalled.memories)
        expect([key for key in keys if key in (*expected, "none")], expected, "a recall is limited")


async def a_lookup_is_bounded(store: ServableStore) -> None:
    """Of many patterns under one folder, the best are matched."""
    for number in range(70):
        importance = "high" if number % 2 else "low"
        await put_about(store, f"k{number:02}", f"src/{number}*", importance=importance, now=TIME)
    await put_about(store, "k", "src/*.py", now=LATER, importance="high")

    expect(await find(store), ["k"], "only what matches is found")
