"""Who sees what: random callers, grants and calls against a small model of several namespaces.

A content has a word that names its namespace, so that any trace of one in an answer is found.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.explorer.views import VIEWS
from abilities.prompts import Asked, complete, fill_prompt
from tests.memories.calls import calls_of, follow, follow_pages
from tests.support.places import StorePlace
from tests.support.tier import size

NAMESPACES = ("ada", "bob", "project", "team", "vault")
SHARED_KEYS = ("plan", "rules", "notes/plan")
SORTS = ("created_at", "updated_at", "importance")
WORLDS = size("ABILITIES_NAMESPACE_WORLDS", quick=3, full=15)
STEPS_EACH = size("ABILITIES_NAMESPACE_STEPS", quick=60, full=100)


class Held(NamedTuple):
    """A memory as the model has it."""

    word: str
    archived: bool = False


class Viewer:
    """A caller, what the model says that it may see, and its calls."""

    def __init__(self, world: "World", own: str, others: tuple[str, ...], scope: str) -> None:
        view = world.app.for_caller(
            f"by-zq{own}", namespace=own, read_only=scope == "read", reads=others
        )
        self.world = world
        self.app = view
        self.own = own
        self.readable = (own, *others)
        self.may_write = scope == "write"

    async def call(self, name: str, **arguments: Any) -> Any:
        """Return an answer or a fault, which must hold no trace of what is not readable."""
        try:
            payload = await calls_of(self.app)(name, **arguments)
        except AbilityError as error:
            payload = {"error": error.fault.to_payload()}

        self.check_traces(json.dumps(payload), arguments)
        return payload

    def check_traces(self, text: str, arguments: Any = "") -> None:
        for word in sorted(find_words(json.dumps(arguments)), reverse=True):
            text = text.replace(word, "")

        for namespace in NAMESPACES:
            if namespace not in self.readable:
                assert f"zq{namespace}" not in text, (self.readable, arguments, text)

    def find(self, key: str) -> tuple[str, Held] | None:
        for namespace in self.readable:
            if key in self.world.held[namespace]:
                return namespace, self.world.held[namespace][key]
        return None

    def list_all(self, word: str, *, archived: bool) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for namespace in self.readable:
            for key, held in self.world.held[namespace].items():
                if word in ("common", held.word) and (archived or not held.archived):
                    found.add((namespace, key))
        return found

    def name(self, record: Any) -> tuple[str, str]:
        """Return a record's namespace and key; the own is never named."""
        assert record.get("from") != self.own
        return record.get("from", self.own), record["key"]


class World:
    def __init__(self, app: Abilities, seed: int) -> None:
        self.app = app
        self.random = random.Random(seed)
        self.held: dict[str, dict[str, Held]] = {name: {} for name in NAMESPACES}
        self.count = 0

    def choose_viewer(self) -> Viewer:
        own, *others = self.random.sample(NAMESPACES, self.random.randint(1, 4))
        return Viewer(self, own, tuple(others), self.random.choice(("read", "write")))

    def choose_key(self) -> str:
        keys = [key for held in self.held.values() for key in held]
        return self.random.choice([*SHARED_KEYS, *keys, "absent"])

    def choose_word(self) -> str:
        words = [one.word for held in self.held.values() for one in held.values()]
        return self.random.choice(["common", *words, "zqnowhere"])


def find_words(text: str) -> Iterator[str]:
    for part in text.replace('"', " ").replace(",", " ").replace("]", " ").split():
        if "zq" in part:
            yield part


async def write(world: World, viewer: Viewer) -> None:
    world.count += 1
    word = f"zq{viewer.own}{world.count:05}"
    own_key = f"zq{viewer.own}/{world.count}"
    key = world.random.choice([*SHARED_KEYS, own_key])
    importance = world.random.choice(("low", "medium", "high"))
    links = [{"key": world.random.choice(SHARED_KEYS)}]
    fields: Any = {"key": key, "content": f"{word} common", "importance": importance}
    answer = await viewer.call("store_memory", type="core", links=links, **fields)
    if not viewer.may_write:
        assert answer["error"]["reason"] == "scope"
        return

    held = world.held[viewer.own]
    assert answer["created"] == (key not in held)
    held[key] = Held(word)


async def change(world: World, viewer: Viewer) -> None:
    key, held = world.choose_key(), world.held[viewer.own]
    kind = world.random.choice(("archive", "delete", "update", "remember"))
    world.count += 1
    word = f"zq{viewer.own}{world.count:05}"
    if kind == "update":
        answer = await viewer.call("update_memory", key=key, content=f"{word} common")
    elif kind == "remember":
        operation = {"op": "update", "key": key, "content": f"{word} common"}
        answer = await viewer.call("remember", operations=[operation], detail="full")
        if "results" in answer:
            (answer,) = answer["results"]
    else:
        answer = await viewer.call("delete_memory", key=key, permanent=kind == "delete")

    if not viewer.may_write:
        assert answer["error"]["reason"] == "scope"
    elif key not in held:
        found = viewer.find(key)
        assert answer["error"]["reason"] == "not_found"
        rule = answer["error"].get("expected", {}).get("only_read_from")
        assert rule == (None if found is None else found[0])
    elif kind == "delete":
        del held[key]
    else:
        is_new = kind in ("update", "remember")
        held[key] = Held(word, held[key].archived) if is_new else held[key]._replace(archived=True)


async def read_by_key(world: World, viewer: Viewer) -> None:
    key = world.choose_key()
    found = viewer.find(key)
    origin = None if found is None or found[0] == viewer.own else found[0]
    one = await viewer.call("memory_get", key=key)
    walk = await viewer.call("bulk_read_memory", key=key, direction="both")
    mixed = await viewer.call("read", items=[{"memory": key}, {"memory": key, "depth": 1}])
    history = await viewer.call("memory_history", key=key)
    if found is None:
        assert one["error"]["reason"] == walk["error"]["reason"] == "not_found"
        meant = one["error"].get("did_you_mean")
        assert meant is None or viewer.find(meant) is not None
        assert [record["success"] for record in mixed["results"]] == [False, False]
        assert "from" not in history  # a deleted memory of another namespace is not shown
        return

    content = f"{found[1].word} common"
    assert (one["data"]["content"], one["data"].get("from")) == (content, origin)
    assert walk["targetMemory"]["data"]["content"] == content
    for record in (walk["targetMemory"], *walk["associatedMemories"]):
        assert viewer.name({**record, **record["data"]})[0] == found[0]
    assert mixed["results"][0]["data"]["content"] == content
    assert mixed["results"][0]["data"].get("from") == origin
    assert history.get("from") == origin

    named = world.random.choice(NAMESPACES)
    target = {"type": "stored", "key": key, "from": named}
    (record,) = (await viewer.call("memory_read_bulk", targets=[target]))["results"]
    held = world.held[named].get(key) if named in viewer.readable else None
    assert record["success"] == (held is not None)
    if held is not None:
        assert record["data"]["content"] == f"{held.word} common"


async def query(world: World, viewer: Viewer) -> None:
    word, archived = world.choose_word(), world.random.random() < 0.5
    sort_by, order = world.random.choice(SORTS), world.random.choice(("asc", "desc"))
    request: Any = {"search": word, "archived": archived, "sort_by": sort_by, "sort_order": order}
    expected = viewer.list_all(word, archived=archived)
    whole = await viewer.call("query_memories", **request, limit=100)
    assert {viewer.name(memory) for memory in whole["memories"]} == expected
    assert whole["total"] == len(whole["memories"]) == len(expected)

    offset = world.random.randint(0, len(expected) + 2)
    paged: list[Any] = []
    request |= {"limit": world.random.randint(1, 5), "offset": offset}
    async for page in follow_pages(viewer.call, "query_memories", request):
        assert page["total"] == len(expected)
        paged += page["memories"]
    assert list(map(viewer.name, paged)) == list(map(viewer.name, whole["memories"][offset:]))


async def list_keys(world: World, viewer: Viewer) -> None:
    prefix = world.random.choice(("", "p", "notes/", "zq"))
    expected: dict[str, str] = {}
    for namespace, key in viewer.list_all("common", archived=False):
        if key.startswith(prefix):
            best = min(expected.get(key, namespace), namespace, key=viewer.readable.index)
            expected[key] = best

    request = {"prefix": prefix, "limit": world.random.randint(1, 9)}
    listed = await follow(viewer.call, "memory_list", request, "memories")
    assert [viewer.name(line) for line in listed] == [(expected[k], k) for k in sorted(expected)]

    asked = Asked("resource", "memory://{key}", "key", prefix)
    values = (await complete(viewer.app, asked)).payload["values"]
    assert values == sorted(expected)


async def recall(world: World, viewer: Viewer) -> None:
    word = world.choose_word()
    expected = viewer.list_all(word, archived=False)
    request = {"queries": [word], "hops": 0, "at_least": 0, "max_tokens": 400}
    found: list[Any] = []
    record: Any = {}
    async for answer in follow_pages(viewer.call, "recall", request):
        (record,) = answer["results"]
        assert record["matched"] == len(expected)
        found += record["memories"]

    assert sorted(map(viewer.name, found)) == sorted(expected)
    scores = [memory["score"] for memory in found]
    assert scores == sorted(scores, reverse=True)
    is_known = bool(expected) or (word == "common" and bool(found))
    is_archived = not is_known and bool(viewer.list_all(word, archived=True))
    assert record.get("archived_words", []) == ([word] if is_archived else [])
    assert record.get("unknown_words", []) == ([] if is_known or is_archived else [word])


async def count(world: World, viewer: Viewer) -> None:
    own = world.held[viewer.own].values()
    stats = await viewer.call("get_memory_stats")
    assert stats["total_memories"] == sum(not held.archived for held in own)
    assert stats["archived_count"] == sum(held.archived for held in own)

    changed: set[tuple[str, str]] = set()
    page: Any = {}
    request = {"limit": world.random.randint(1, 9)}
    async for page in follow_pages(viewer.call, "memory_changes", request):
        changed |= {viewer.name(entry) for entry in page["changes"]}
        assert set(page.get("next_others", {})) == set(viewer.readable[1:])
    assert viewer.list_all("common", archived=True) <= changed

    arguments = {"since": page["next"], "since_others": page.get("next_others", {})}
    assert (await viewer.call("memory_changes", **arguments))["changes"] == []


async def look_around(world: World, viewer: Viewer) -> None:
    viewer.check_traces((await fill_prompt(viewer.app, "catch_up", {})).text)
    vague = await viewer.call("recall", queries=["what do you remember?"])
    readable = viewer.list_all("common", archived=False)
    overview = vague["results"][0].get("overview", [])
    assert {viewer.name(memory) for memory in overview} <= readable
    assert bool(overview) == bool(readable)

    # A page of the explorer shows one namespace, whatever its caller may read.
    page = viewer.app.for_caller("explorer", reads=())
    timeline = await VIEWS.call("timeline", {}, page.context)
    text = json.dumps(timeline)
    assert all(f"zq{name}" not in text for name in NAMESPACES if name != viewer.own)


STEPS = (write, write, write, change, read_by_key, query, list_keys, recall, count, look_around)


@pytest.mark.parametrize("seed", range(WORLDS))
async def test_a_caller_sees_what_it_may_read_and_changes_only_its_own(
    seed: int, place: StorePlace, tmp_path: Path
) -> None:
    settings = Settings(store_url=place.url, agent_dir=tmp_path, workspace_dir=tmp_path)
    async with Abilities.open(settings) as app:
        world = World(app, seed)
        for _ in range(STEPS_EACH):
            viewer = world.choose_viewer()
            await world.random.choice(STEPS)(world, viewer)

        # Nothing was written anywhere but where the model says.
        for namespace in NAMESPACES:
            alone = Viewer(world, namespace, (), "read")
            page = await alone.call("query_memories", archived=True, limit=100)
            contents = {one["key"]: one["content"] for one in page["memories"]}
            held = world.held[namespace]
            assert contents == {key: f"{one.word} common" for key, one in held.items()}
