"""Namespaces: which names there are, that they never meet, and others that a caller reads."""

import json
from asyncio import to_thread
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from abilities import Abilities, Settings
from abilities.adapters.langgraph_store import AbilitiesStore
from abilities.helpers.files.reader import name_folder
from abilities.helpers.tokens import TokenFile
from tests.memories.calls import calls_of, find_fault, find_reason, follow, store
from tests.support.serving import serving_app
from tests.support.surfaces import SURFACES, Call, run, with_changes

OTHERS = ("project", "team")


@pytest.fixture
def sharing(roots: Settings) -> Settings:
    return with_changes(roots, namespace="ada", read_namespaces=OTHERS)


@pytest.fixture
async def app(sharing: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(sharing) as app:
        yield app


def open_own(app: Abilities, namespace: str) -> Call:
    return calls_of(app.for_caller("test", namespace=namespace, reads=()))


@pytest.mark.parametrize("surface", SURFACES)
async def test_other_namespaces_are_read_alike_on_every_surface(
    surface: str, app: Abilities, sharing: Settings
) -> None:
    team, ada = open_own(app, "team"), calls_of(app)
    await store(team, "plan", "The team ships parsers.", links=[{"key": "rules"}])
    await store(team, "rules", "Parsers are reviewed.")
    await store(open_own(app, "project"), "parser", "Parsers are LL(1).")
    await store(ada, "plan", "Ada likes parsers.")

    requests: list[tuple[str, dict[str, Any]]] = [
        ("memory_get", {"key": "rules"}),
        ("memory_read_bulk", {"targets": [{"key": "plan"}, {"key": "plan", "from": "team"}]}),
        ("bulk_read_memory", {"key": "rules", "direction": "both"}),
        ("memory_list", {"limit": 3}),
        ("query_memories", {"limit": 3, "sort_by": "created_at"}),
        ("recall", {"queries": ["parsers", "rules"]}),
        ("recall", {"queries": ["parsers"], "detail": "full"}),
        ("read", {"items": [{"memory": "rules"}, {"memory": "*"}, {"recall": "parsers"}]}),
        ("memory_changes", {"limit": 2}),
        ("memory_history", {"key": "rules"}),
        ("update_memory", {"key": "rules", "content": "Mine."}),
        ("delete_memory", {"key": "rules"}),
    ]
    for name, arguments in requests:
        payload = await SURFACES[surface](sharing, name, arguments)
        here = await SURFACES["python"](sharing, name, arguments)
        assert payload == here
        assert '"team"' in json.dumps(payload), name

    created = await SURFACES[surface](
        sharing, "store_memory", {"type": "core", "key": "rules", "content": "Mine."}
    )
    assert created["created"]
    assert (await team("memory_get", key="rules"))["data"]["content"] == "Parsers are reviewed."


OWN_REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("memory_read_bulk", {"targets": [{"key": "plan"}]}),
    ("bulk_read_memory", {"key": "plan"}),
    ("memory_list", {}),
    ("query_memories", {"limit": 1, "sort_by": "created_at"}),
    ("recall", {"queries": ["parsers"], "detail": "full"}),
    ("memory_history", {"key": "rules"}),
    ("get_memory_stats", {}),
]


async def test_what_is_ones_own_has_not_a_byte_more(app: Abilities) -> None:
    ada, alone = calls_of(app), open_own(app, "ada")
    await store(ada, "plan", "Ada likes parsers.", links=[{"key": "rules"}])
    await store(ada, "rules", "Parsers are reviewed.")

    for name, arguments in OWN_REQUESTS:
        assert await ada(name, **arguments) == await alone(name, **arguments)


async def test_memories_of_one_id_are_each_on_one_page(sharing: Settings, app: Abilities) -> None:
    for number in range(5):
        await store(open_own(app, "team"), f"k{number}", "x")

    exported = await to_thread(run, sharing, "export", "--no-history", "--namespace", "team")
    for namespace in ("ada", "project"):
        command = ("import", "-", "--namespace", namespace)
        done = await to_thread(run, sharing, *command, stdin=exported.stdout)
        assert done.exit_code == 0, done.output

    ada = calls_of(app)
    for order in ("asc", "desc"):
        request = {"limit": 4, "sort_by": "created_at", "sort_order": order}
        pages = await follow(ada, "query_memories", request, "memories")
        names = [(one.get("from", "ada"), one["key"]) for one in pages]
        assert len(names) == len(set(names)) == 15
        assert [name for name, _ in names] == ["ada", *OTHERS] * 5

        for offset in range(16):
            page = await ada("query_memories", **{**request, "offset": offset, "limit": 15})
            assert page["memories"] == pages[offset:]


async def test_a_long_memory_is_continued_in_its_namespace(app: Abilities) -> None:
    team, ada = open_own(app, "team"), calls_of(app)
    long = "".join(f"parsers {number}\n" for number in range(2_000))
    write = {"op": "store", "type": "core", "key": "plan", "content": long}
    await team("remember", operations=[write])
    await store(ada, "plan", "Ada's.")

    page = await ada("query_memories", search="parsers 1999")
    cut = page["memories"][0]
    assert cut["from"] == "team"
    rest = await ada("memory_read_bulk", targets=[cut["truncation"]["next"]])
    data = rest["results"][0]["data"]
    assert cut["content"] + data["content"] == long[: len(cut["content"]) + len(data["content"])]

    recalled = await ada("recall", queries=["parsers 1000"], max_tokens=400)
    following = json.loads(recalled["results"][0]["memories"][0]["next"])
    assert following["from"] == "team"

    # Whatever is sent, and whichever memory of the key comes first, the pieces are of one memory.
    request: dict[str, Any] | None = {"items": [following], "max_tokens": 1_000}
    pieces: list[str] = []
    while request:
        answer = await ada("read", **request)
        (record,) = answer["results"]
        assert record["data"]["from"] == "team"
        pieces.append(record["data"]["content"])
        request = answer.get("next_request")
    assert long.endswith("".join(pieces)) and len(pieces) > 2


async def test_a_recall_over_namespaces_changed_is_refused(app: Abilities) -> None:
    team, project, ada = (open_own(app, "team"), open_own(app, "project"), calls_of(app))
    for number in range(20):
        await store(team, f"k{number}", "parsers " * 40)
    await store(team, "moved", "parsers")
    request = (await ada("recall", queries=["parsers"], max_tokens=400))["next_request"]
    await store(open_own(app, "vault"), "k", "parsers")
    assert (await ada("recall", **request))["results"][0]["matched"] == 21

    await team("delete_memory", key="moved", permanent=True)
    await store(project, "moved", "parsers")  # a memory that moves is a change, too

    assert await find_reason(ada, "recall", **request) == "changed"


async def test_every_page_of_a_recall_says_since_when_a_fact_holds(app: Abilities) -> None:
    team, ada = open_own(app, "team"), calls_of(app)
    for number in range(6):
        await store(team, f"old {number}", "parsers " * 20)
        new = {"new_key": f"new {number}", "content": "parsers " * 40}
        await team("remember", operations=[{"op": "supersede", "key": f"old {number}", **new}])
        await store(ada, f"own {number}", "parsers " * 40)

    found: list[Any] = []
    request: dict[str, Any] = {"queries": ["parsers"], "max_tokens": 400}
    pages = 0
    while request:
        answer = await ada("recall", **request)
        found += answer["results"][0]["memories"]
        request = answer.get("next_request", {})
        pages += 1

    assert pages > 2 and len(found) == 12
    assert all(("since" in one) == (one.get("from") == "team") for one in found)


async def test_reading_in_another_namespace_leaves_no_trace_there(app: Abilities) -> None:
    team, ada = open_own(app, "team"), calls_of(app)
    created = await store(team, "plan", "x", links=[{"key": "rules"}])
    await store(team, "rules", "x")

    async def count(name: str) -> int:
        await team("update_memory", id=created["id"], key=name)  # counters are written first
        page = await team("query_memories", sort_by="created_at")
        return int(page["memories"][0]["access_count"])

    record = await ada("memory_get", key="rules", direction="both")

    assert record["data"]["backlinks"] == [{"key": "plan", "link_weight": 0.5}]
    assert await count("plan 2") == 0
    await team("memory_get", key="rules")
    assert await count("plan 3") == 1


async def test_a_word_is_unknown_if_it_is_unknown_everywhere(
    app: Abilities, sharing: Settings
) -> None:
    team, ada, vault = (open_own(app, "team"), calls_of(app), open_own(app, "vault"))
    (sharing.agent_dir / "MEMORY.md").write_text("Parsers are fun.\n")
    await store(ada, "a", "parsers")
    await store(team, "t", "lexers")
    await store(team, "old", "linkers")
    await team("delete_memory", key="old")
    await store(vault, "v", "loaders")

    answer = await ada("recall", queries=["parsers lexers linkers loaders"], at_least=0)

    (record,) = answer["results"]
    assert (record["unknown_words"], record["archived_words"]) == (["loaders"], ["linkers"])
    assert {one.get("from") for one in record["memories"]} == {None, "team"}
    notes = [one["filename"] for one in record["memories"] if "filename" in one]
    assert notes == ["MEMORY.md"], "notes are one's own"


async def test_a_change_of_what_is_only_read_says_where_it_is(app: Abilities) -> None:
    team, ada = open_own(app, "team"), calls_of(app)
    created = await store(team, "rules", "x")
    names = {"key": "rules", "id": created["id"]}
    for field, name in names.items():
        for change, more in (("update_memory", {"content": "y"}), ("delete_memory", {})):
            fault = await find_fault(ada, change, **{field: name}, **more)
            assert (fault.code, fault.field) == ("NOT_FOUND", field)
            assert fault.expected == {"only_read_from": "team"}
            assert fault.message.endswith("only read, from namespace team.")

    assert (await ada("memory_history", key="rules"))["from"] == "team"
    await team("delete_memory", key="rules", permanent=True)
    for field, name in names.items():  # what is deleted there is not there
        assert await find_reason(ada, "memory_history", **{field: name}) == "not_found"
        fault = await find_fault(ada, "memory_restore", **{field: name})
        assert (fault.reason, fault.expected) == ("not_found", None)


def test_settings_of_other_namespaces() -> None:
    for value, words in (("a b", "1 to 128 letters"), ("a,b,c,d", "at most 3 names")):
        with pytest.raises(ValueError, match=words):
            Settings(read_namespaces=value)  # type: ignore[arg-type]

    settings = Settings(namespace="ada", read_namespaces=("team", "ada", "team"))
    assert settings.other_namespaces == ("team",), "one's own and repeated ones count once"
    assert settings.for_namespace("team").other_namespaces == ("ada",)


async def test_changes_of_all_are_caught_up_with_page_by_page(app: Abilities) -> None:
    callers = {name: open_own(app, name) for name in ("ada", *OTHERS, "vault")}
    for number in range(4):
        for call in callers.values():
            await store(call, f"k{number}", "x")

    ada = calls_of(app)
    changes = await follow(ada, "memory_changes", {"limit": 3}, "changes")
    names = [(one.get("from", "ada"), one["version"]) for one in changes]
    assert names == [(name, version) for name in ("ada", *OTHERS) for version in range(1, 5)]

    await store(callers["team"], "new", "x")
    page = await ada("memory_changes", since=4, since_others={"project": 4, "team": 4})
    assert [(one["from"], one["key"]) for one in page["changes"]] == [("team", "new")]
    assert (page["next"], page["next_others"]) == (4, {"project": 4, "team": 5})


async def test_a_store_of_a_framework_has_its_own_namespace_alone(app: Abilities) -> None:
    theirs = AbilitiesStore(app, namespace="team")
    await theirs.aput(("docs",), "plan", {"text": "ours"})

    items = AbilitiesStore(app)

    assert await items.aget(("docs",), "plan") is None
    assert await items.asearch(("docs",), query="ours") == []


async def test_a_token_reads_what_it_was_made_for(apart: Settings) -> None:
    shared = with_changes(apart, read_namespaces=("team",))

    async def add(*options: str) -> Any:
        command = ("token", "add", "--namespace", "ada", *options)
        return await to_thread(run, shared, *command)

    reading = await add("--scope", "write", "--reads", "bob, ada")
    assert "read the memories of bob, ada" in reading.stderr
    file = TokenFile(apart.tokens_file)
    plain = file.add("ada", "write")[1]
    tokens = {"bob": file.add("bob", "write")[1], "team": file.add("team", "write")[1]}
    assert [token.reads for token in file.tokens()][:2] == [("bob", "ada"), ()]

    for wrong in ("a b", "a,b,c,d"):
        assert (await add("--scope", "read", "--reads", wrong)).exit_code == 2
    assert (await add("--scope", "metrics", "--reads", "bob")).exit_code == 2

    async with serving_app(shared) as server:
        for name, token in tokens.items():
            memory = {"type": "core", "key": f"of {name}", "content": f"of {name}"}
            await server.call("store_memory", token, **memory)

        async def get(path: str, token: str, **headers: str) -> int:
            return int((await server.ask("GET", path, token, headers=headers)).status_code)

        token = reading.stdout.strip()
        assert await get("/api/memories/of%20bob", token) == 200
        assert await get("/api/memories/of%20team", token) == 404, "a setting is not for tokens"
        assert await get("/api/memories/of%20bob", plain) == 404
        # The page of the explorer shows one namespace.
        page = {"X-Abilities-Surface": "explorer"}
        assert await get("/api/memories/of%20bob", token, **page) == 404
        assert await get("/api/explorer/memory?key=of%20bob", token) in (404, 405)
        async with server.mcp(token, "legacy") as client:
            (part,) = (await client.read_resource("memory://of%20bob")).contents
            assert '"from":"bob"' in part.text.replace(" ", "")  # type: ignore[union-attr]


USERS = ("user@example.com", "User@example.com", "42", "a:b", "a+b=c", ".", "..", "-x", "x" * 128)
RULE = "a namespace is 1 to 128"

NAMES = strategies.text("abcABCzZ019_-.@:+=", min_size=1, max_size=128)


@given(NAMES, NAMES)
def test_two_namespaces_never_share_a_folder(one: str, other: str) -> None:
    first, second = name_folder(one), name_folder(other)

    assert (first.lower() == second.lower()) == (one == other), "file systems may ignore case"
    assert len(first) <= 200 and not {".", "/"} & set(first)


def test_folders_are_named_as_documented() -> None:
    assert name_folder("default-1_a") == "default-1_a"
    assert name_folder("user@example.com") == "user%40example%2Ecom"
    assert name_folder("A.B") == "%41%2E%42"
    assert name_folder("." * 66 + "ab") == "%2E" * 66 + "ab"
    assert name_folder("." * 67).startswith("~") and len(name_folder("." * 67)) == 65


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_user_is_a_namespace_on_every_surface(surface: str, apart: Settings) -> None:
    for user in USERS[:: 1 if surface == "python" else 3]:
        settings = apart.for_namespace(user)
        place = settings.roots[1].path
        place.mkdir()
        (place / "who.txt").write_text(user)

        async def call(name: str, settings: Settings = settings, **arguments: Any) -> Any:
            return await SURFACES[surface](settings, name, arguments)

        await call("store_memory", type="core", key="who", content=user)
        assert (await call("memory_get", key="who"))["data"]["content"] == user
        assert (await call("get_memory_stats"))["total_memories"] == 1
        (record,) = (await call("file_read_bulk", paths=["who.txt"]))["results"]
        assert record["data"]["content"] == user


def test_export_and_import_keep_a_users_namespace(apart: Settings, tmp_path: Path) -> None:
    for user in ("user@example.com", "USER", "42"):
        memory = {"type": "core", "key": "who", "content": user}
        run(apart.for_namespace(user), "call", "store_memory", json.dumps(memory))

    exported = run(apart, "export", "--no-history").stdout
    copy = with_changes(apart, store_url=f"sqlite:///{tmp_path}/copy.db")
    run(copy, "import", "-", stdin=exported)

    assert exported and run(copy, "export", "--no-history").stdout == exported
    assert "user@example.com" not in run(apart, "export", "--namespace", "USER").stdout


async def test_a_wrong_namespace_is_refused_by_the_rule(apart: Settings) -> None:
    async with Abilities.open(apart) as abilities:
        for wrong in ("", "a b", "../x", "ä", "a/b", "a\n", "x" * 129):
            for view in (Settings().for_namespace, abilities.for_namespace):
                with pytest.raises(ValueError, match=RULE):
                    view(wrong)


def test_a_number_in_the_file_is_a_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("namespace = 42")
    monkeypatch.setenv("ABILITIES_CONFIG", str(tmp_path / "config.toml"))

    assert Settings().namespace == "42"
