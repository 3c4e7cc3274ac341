"""The explorer's files, views and routes; `make browser` shows how the page looks and behaves."""

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from abilities import Settings, render
from abilities.declarations.values import JsonObject
from abilities.explorer import views as views_module
from abilities.explorer.pages import PAGES
from abilities.helpers.memory import namespaces as namespaces_module
from abilities.helpers.memory import review as review_module
from abilities.helpers.tokens import TokenFile
from tests.support.serving import serving_app
from tests.support.surfaces import environment, python
from tests.support.waiting import wait_until

STATIC = Path(__file__).parent.parent.parent / "abilities" / "explorer" / "static"


MEMORY = {"type": "core", "content": "x"}


@pytest.fixture
async def client(roots: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_app(roots) as server:
        yield server.client


async def read_view(client: httpx.AsyncClient, name: str, **arguments: Any) -> JsonObject:
    response = await client.post(f"/api/explorer/{name}", json=arguments)
    answer: JsonObject = response.json()
    assert response.status_code == 200, answer
    return answer


async def call(client: httpx.AsyncClient, name: str, **arguments: Any) -> JsonObject:
    answer: JsonObject = (await client.post(f"/api/abilities/{name}", json=arguments)).json()
    return answer


VIEWS_ASKED: dict[str, JsonObject] = {
    "memory": {"key": "tea"},
    "version": {"key": "tea", "version": 1},
    "timeline": {},
    "review": {},
    "map": {},
    "labels": {},
    "why": {"key": "tea", "question": "tea?"},
    "days": {"year": 2026},
    "files": {},
}


@pytest.mark.parametrize(
    ("tools", "shown"),
    [
        ("all", {*VIEWS_ASKED}),
        ("lean", {"memory", "map", "why", "days", "files"}),
        ("files", {"files"}),
        ("memory", {*VIEWS_ASKED} - {"files"}),
        ("memory_history", {"version"}),
    ],
)
async def test_a_view_shows_nothing_that_the_callers_abilities_do_not(
    tools: str, shown: set[str], roots: Settings
) -> None:
    async with serving_app(roots, tools=tools) as server:
        for name, arguments in VIEWS_ASKED.items():
            answer = await server.ask("POST", f"/api/explorer/{name}", json=arguments)
            is_refused = answer.json().get("error", {}).get("reason") == "unknown_address"
            assert is_refused == (name not in shown), name
        assert await read_view(server.client, "session")


async def test_pages_load_from_this_server_alone_and_no_other_file_is_served(
    client: httpx.AsyncClient,
) -> None:
    assert {"/", "/docs", "/explorer/app.js", "/explorer/style.css"} <= PAGES.keys()

    for path, page in PAGES.items():
        response = await client.get(path)
        assert response.status_code == 200, path
        assert response.content == page.body

        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "frame-ancestors 'none'" in policy
        assert ("unsafe" in policy) == (path == "/docs")
        assert "http" not in policy

        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["content-type"].startswith(("text/", "image/svg+xml"))

    for path in ("", "../app.py", "%2e%2e/views.py", "nothing.js", "vendor/vendored.json"):
        assert (await client.get(f"/explorer/{path}")).status_code == 404, path


def test_our_own_pages_name_no_other_host_and_write_no_html() -> None:
    other_host = r"https?://(?!www\.w3\.org/)|//[a-z]+\.[a-z]"
    html = r"innerHTML|outerHTML|insertAdjacent|dangerously|document\.write|\beval\b|Function\("
    lasting_storage = r"document\.cookie|localStorage"
    pages = [path for path in STATIC.iterdir() if path.suffix in (".js", ".html", ".css")]

    assert len(pages) > 12
    for page in pages:
        for pattern in (other_host, html, lasting_storage):
            assert not re.search(pattern, page.read_text()), page.name


def test_vendored_libraries_are_what_was_fetched_each_with_its_license() -> None:
    vendor = STATIC / "vendor"
    packages: dict[str, dict[str, str]] = json.loads((vendor / "vendored.json").read_text())
    digests: dict[str, str] = {}

    for package, files in packages.items():
        assert any("LICENSE" in name for name in files), package
        digests |= files

    assert digests.keys() == {path.name for path in vendor.iterdir()} - {"vendored.json"}
    for name, digest in digests.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name


async def test_a_memory_is_shown_with_links_both_ways_and_counts_no_access(
    client: httpx.AsyncClient,
) -> None:
    keys = [f"from {n:02}" for n in range(23)]
    for key in keys:
        await call(client, "store_memory", **MEMORY, key=key, links=[{"key": "hub", "type": "is"}])
    links = [{"key": key, "link_weight": n / 30} for n, key in enumerate(keys)]
    stored = await call(client, "store_memory", **MEMORY, key="hub", links=links)

    first = await read_view(client, "memory", key="hub")
    rest = await read_view(client, "memory", key="hub", links_offset=20, backlinks_offset=20)

    assert [link["key"] for link in first["memory"]["links"]] == keys[:2:-1]
    assert first["backlinks"][0] == {"key": "from 00", "link_weight": 0.5, "type": "is", "term": ""}
    assert (len(first["backlinks"]), first["backlinks_total"]) == (20, 23)
    assert rest["memory"]["access_count"] == 0
    assert [link["key"] for link in rest["memory"]["links"]] == keys[2::-1]
    assert [link["key"] for link in rest["backlinks"]] == keys[20:]

    await call(client, "update_memory", id=stored["id"], key="renamed")
    assert (await read_view(client, "memory", id=stored["id"]))["memory"]["key"] == "renamed"


async def test_the_largest_memory_can_be_shown(client: httpx.AsyncClient) -> None:
    wide = "\U0001f642" * 198
    links = [{"key": f"{wide}{n:02}"} for n in range(20)]
    large = {"type": "core", "content": "\x01" * 5000, "metadata": {"m": "é" * 2000}}
    await call(client, "store_memory", **large, key="large", links=links)
    for link in links:
        await call(client, "store_memory", **MEMORY, **link, links=[{"key": "large"}])

    answer = await read_view(client, "memory", key="large")

    assert answer["memory"]["content"] == "\x01" * 5000
    assert answer["backlinks_total"] == 20


async def test_a_version_is_shown_with_what_it_replaced(client: httpx.AsyncClient) -> None:
    links = [{"key": f"x{n}"} for n in range(30)]
    stored = await call(client, "store_memory", type="core", key="a", content="1", links=links)
    memory_id = stored["id"]
    await call(client, "update_memory", id=memory_id, content="2")
    await call(client, "delete_memory", id=memory_id, permanent=True)

    shown = [await read_view(client, "version", id=memory_id, version=n) for n in (1, 2, 3)]
    contents = [(pair.get("before"), pair.get("memory")) for pair in shown]
    texts = [[memory and memory["content"] for memory in pair] for pair in contents]
    assert texts == [[None, "1"], ["1", "2"], ["2", None]]
    assert len(shown[1]["memory"]["links"]) == 30
    missing = await client.post("/api/explorer/version", json={"id": memory_id, "version": 4})
    assert missing.json()["error"]["reason"] == "version_not_found"


async def test_the_timeline_is_filtered_and_goes_back(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces_module, "_CHANGES_AT_ONCE", 60)
    rare = (5, 40)
    for number in range(130):
        change = {"key": "a", "type": "core", "content": f"{number}", "category": "x"}
        headers = {"X-Abilities-Surface": "explorer" if number in rare else "http"}
        await client.post("/api/abilities/store_memory", json=change, headers=headers)

    versions: list[int] = []
    request: JsonObject | None = {}
    while request is not None:
        page = await read_view(client, "timeline", **request)
        assert len(page["changes"]) <= 50
        versions += [change["version"] for change in page["changes"]]
        request = page.get("next_request")
    assert versions == [*range(130, 0, -1)]

    filters: list[tuple[JsonObject, list[int]]] = [
        ({"by": "explorer"}, [41, 6]),
        ({"by": "explorer", "before": 41, "action": "changed"}, [6]),
        ({"action": "created"}, [1]),
    ]
    for filtered, expected in filters:
        page = await read_view(client, "timeline", **filtered)
        assert [change["version"] for change in page["changes"]] == expected
        assert "next_request" not in page


async def test_what_is_to_be_reviewed_is_listed_by_kind(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "We deploy the payments service on Tuesdays, never on Fridays"
    links = [{"key": "gone", "link_weight": 0.1}]
    links += [{"key": f"there {n}", "link_weight": 0.9} for n in range(25)]
    await call(client, "store_memory", type="core", key="older", content=f"{said}.")
    operations: list[JsonObject] = [
        {"op": "store", **MEMORY, "key": "newer", "content": f"{said}!"},
        {"op": "store", **MEMORY, "key": "due", "expires_at": "2999-01-01T00:00:00Z"},
        *({"op": "store", **MEMORY, "key": f"there {n}", "content": str(n)} for n in range(25)),
        {"op": "store", **MEMORY, "key": "from", "content": "from", "links": links},
        {"op": "store", **MEMORY, "key": "before", "content": "before"},
        {"op": "supersede", "key": "before", "new_key": "after", "content": "after"},
    ]
    assert (await call(client, "remember", operations=operations))["summary"]["failed"] == 0

    review = await read_view(client, "review")
    assert (review["examined"], review["total"]) == (30, 30)
    found = [(item["kind"], item["key"], item.get("other")) for item in review["items"]]
    assert found == [
        ("similar", "older", "newer"),
        ("superseded", "before", "after"),
        ("dangling", "from", "gone"),
        ("expiring", "due", None),
    ]

    # A memory that was read by its key is not listed, and looking at the list is no reading.
    monkeypatch.setattr(review_module, "UNREAD_DAYS", -1)
    await call(client, "memory_get", key="older")
    await read_view(client, "review")

    async def list_unread() -> set[str]:
        items = (await read_view(client, "review"))["items"]
        return {item["key"] for item in items if item["kind"] == "unread"}

    await call(client, "store_memory", **MEMORY, key="last")  # accesses are counted first
    unread = await list_unread()
    assert len(unread) == review_module.MAX_LISTED
    assert "older" not in unread


async def test_the_oldest_memories_that_nobody_read_are_reviewed_in_a_large_store(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"memory {n}" for n in range(9)]
    for key in keys:
        await call(client, "store_memory", **MEMORY, key=key)

    monkeypatch.setattr(review_module, "UNREAD_DAYS", -1)
    monkeypatch.setattr(review_module, "MAX_EXAMINED", 2)
    items = (await read_view(client, "review"))["items"]

    assert [item["key"] for item in items if item["kind"] == "unread"] == keys[:2]

    # However many older ones were read.
    for key in keys[:4]:
        await call(client, "memory_get", key=key)
    await call(client, "store_memory", **MEMORY, key="last")  # accesses are counted first
    items = (await read_view(client, "review"))["items"]

    assert [item["key"] for item in items if item["kind"] == "unread"] == keys[4:6]


async def test_a_map_counts_what_is_in_each_folder_of_keys(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ["a/1", "a/2", "a/b/3", "a/b/4", "a", "a/", "top"]
    operations = [{"op": "store", **MEMORY, "key": key} for key in keys]
    await call(client, "remember", operations=operations)
    await call(client, "delete_memory", key="a/2")

    whole = await read_view(client, "map")
    assert whole == {
        "by": "folder",
        "nodes": [
            {"name": "a/", "folder": "a/", "count": 3},
            {"name": "a", "key": "a", "count": 1},
            {"name": "a/", "key": "a/", "count": 1},
            {"name": "top", "key": "top", "count": 1},
        ],
        "total": 6,
        "others": 0,
        "complete": True,
    }
    nodes = (await read_view(client, "map", prefix="a/"))["nodes"]
    names = [(node["name"], node["count"]) for node in nodes]
    assert names == [("b/", 2), ("a/", 1), ("1", 1)]

    monkeypatch.setattr(views_module, "MAX_NODES", 1)
    monkeypatch.setattr(views_module, "_LISTED_AT_ONCE", 2)
    assert (await read_view(client, "map"))["others"] == 3
    monkeypatch.setattr(views_module, "MAX_MAPPED", 4)
    cut = await read_view(client, "map")
    assert (cut["total"], cut["complete"]) == (4, False)


async def test_a_map_counts_types_categories_and_tags(client: httpx.AsyncClient) -> None:
    labels: list[JsonObject] = [
        {"type": "core", "category": "trip", "tags": ["a", "b"]},
        {"type": "core", "tags": ["b"]},
        {"type": "task"},
    ]
    for n, fields in enumerate(labels):
        await call(client, "store_memory", content="x", key=str(n), **fields)

    async def count(by: str) -> list[tuple[str, int]]:
        answer = await read_view(client, "map", by=by)
        assert (answer["total"], answer["complete"]) == (3, True)
        return [(node["label"], node["count"]) for node in answer["nodes"]]

    assert await count("type") == [("core", 2), ("task", 1)]
    assert await count("category") == [("", 2), ("trip", 1)]
    assert await count("tag") == [("b", 2), ("", 1), ("a", 1)]


async def test_labels_that_are_in_use_are_suggested(client: httpx.AsyncClient) -> None:
    for n, (tags, category) in enumerate([(["b"], "x"), (["a", "b"], "")]):
        await call(client, "store_memory", **MEMORY, key=str(n), tags=tags, category=category)

    assert await read_view(client, "labels") == {"tags": ["a", "b"], "categories": ["x"]}


async def test_a_question_is_explained_for_any_memory(client: httpx.AsyncClient) -> None:
    await call(client, "store_memory", type="core", key="tea", content="Ada prefers tea.")
    await call(client, "store_memory", type="core", key="rain", content="It rains.")

    question = "What does Ada prefer?"
    (record,) = (await call(client, "recall", queries=[question]))["results"]
    why = (await read_view(client, "why", key="tea", question=question))["explanation"]
    assert (why["place"], why["score"]) == (1, record["memories"][0]["score"])

    why = (await read_view(client, "why", key="rain", question=question))["explanation"]
    assert why["reason"] == "no_match"


async def test_the_session_says_whether_a_memory_was_changed(client: httpx.AsyncClient) -> None:
    assert (await read_view(client, "session"))["latest"] == 0

    await call(client, "store_memory", **MEMORY, key="tea")
    stored = (await read_view(client, "session"))["latest"]
    assert stored > 0

    await call(client, "memory_get", key="tea")
    assert (await read_view(client, "session"))["latest"] == stored
    await call(client, "delete_memory", key="tea", permanent=True)
    assert (await read_view(client, "session"))["latest"] > stored


async def test_days_with_notes_are_listed_and_an_unreadable_one_says_why(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    notes = roots.agent_dir / "memory"
    assert (await read_view(client, "days"))["days"] == []

    notes.mkdir()
    (notes / "2024-02-29.md").write_text("leap")
    (notes / "2024-12-31.md").mkdir()
    (notes / "2024-13-01.md").write_text("no day")
    answer, current = await read_view(client, "days", year=2024), await read_view(client, "days")

    readable, unreadable = answer["days"]
    assert readable == {"date": "2024-02-29", "size_bytes": 4}
    assert (unreadable["date"], unreadable["error"]["reason"]) == ("2024-12-31", "is_directory")
    assert "size_bytes" not in unreadable
    assert (answer["year"], answer["today"]) == (2024, current["today"])
    assert current["year"] == date.fromisoformat(current["today"]).year

    roots.agent_dir.rename(roots.agent_dir.with_name("away"))
    missing = await client.post("/api/explorer/days", json={"year": 2024})
    assert (missing.status_code, missing.json()["error"]["reason"]) == (503, "root_unavailable")


async def test_files_say_which_root_they_are_read_from_and_what_that_hides(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    for root, name, text in (
        (roots.agent_dir, "both.txt", "agent"),
        (roots.workspace_dir, "both.txt", "workspace"),
        (roots.agent_dir, "a.txt", "x"),
        (roots.workspace_dir, "z.txt", "x"),
        (roots.workspace_dir, "refused.txt", "hidden"),
        (roots.workspace_dir, ".env", "SECRET=1"),
    ):
        (root / name).write_text(text)
    (roots.agent_dir / "refused.txt").symlink_to("/etc/passwd")

    answer = await read_view(client, "files")
    rows = [
        (file["path"], file.get("source"), file.get("hides", {}).get("size_bytes"))
        for file in answer["files"]
    ]
    assert rows == [
        ("a.txt", "agent", None),
        ("both.txt", "agent", 9),
        ("refused.txt", None, 6),
        ("z.txt", "workspace", None),
    ]

    paths: list[str] = []
    page = await read_view(client, "files", limit=1)
    paths += [file["path"] for file in page["files"]]
    while "after" in page:
        page = await read_view(client, "files", limit=1, after=page["after"])
        paths += [file["path"] for file in page["files"]]
    assert paths == [path for path, _, _ in rows]


async def test_a_tried_call_is_answered_in_every_format(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    (roots.workspace_dir / "a.txt").write_text("tried")
    arguments = {"paths": ["a.txt", "none"]}
    expected = await python(roots, "file_read_bulk", arguments)

    assert await read_view(client, "try/file_read_bulk", **arguments) == {
        "failed": False,
        "json": render(expected),
        "text": render(expected, "text"),
        "toon": render(expected, "toon"),
        "max_bytes": roots.max_response_bytes,
    }


async def test_a_tried_call_runs_once_and_one_that_fails_has_a_reply_too(
    client: httpx.AsyncClient,
) -> None:
    await read_view(client, "try/store_memory", **MEMORY, tags=["once"])
    assert (await client.get("/api/memories?tags=once")).json()["total"] == 1

    for name, reason in (("memory_get", "not_found"), ("nothing", "unknown_ability")):
        trial = (await client.post(f"/api/explorer/try/{name}", json={"key": "none"})).json()
        assert trial["failed"]
        assert json.loads(trial["json"])["error"]["reason"] == reason


async def test_with_tokens_the_pages_are_open_and_everything_else_is_shut(
    private: Settings, tokens: TokenFile
) -> None:
    read, write = (tokens.add("default", scope)[1] for scope in ("read", "write"))

    async with serving_app(private) as server:
        for path in PAGES:
            assert (await server.ask("GET", path)).status_code == 200, path
        for view in ("session", "memory", "days", "files", "try/get_memory_stats"):
            refused = await server.ask("POST", f"/api/explorer/{view}", json={})
            assert refused.status_code == 401, view

        for token, scope in ((read, "read"), (write, "write")):
            answer = await server.ask("POST", "/api/explorer/session", token, json={})
            session = answer.json()
            assert (session["namespace"], session["scope"]) == ("default", scope)

            trial = await server.ask("POST", "/api/explorer/try/store_memory", token, json=MEMORY)
            assert trial.json()["failed"] == (scope == "read")

        stats = await server.ask("GET", "/api/stats", read)
        assert stats.json()["total_memories"] == 1


async def test_another_namespace_that_a_token_reads_is_shown_without_what_is_not_memory(
    private: Settings, tokens: TokenFile
) -> None:
    ada = tokens.add("ada", "purge", reads=("team", "ada"))[1]
    team = tokens.add("team", "write")[1]
    narrow = tokens.add("ada", "write", reads=("team",), tools=("files",))[1]

    async with serving_app(private) as server:
        await server.call("store_memory", team, **MEMORY, key="rules")

        async def ask(path: str, token: str, namespace: str, **arguments: Any) -> JsonObject:
            headers = {"X-Abilities-Namespace": namespace, "X-Abilities-Surface": "explorer"}
            response = await server.ask(
                "POST", f"/api/{path}", token, json=arguments, headers=headers
            )
            answer: JsonObject = response.json()
            return answer

        assert await ask("explorer/namespaces", ada, "") == {"own": "ada", "reads": ["team"]}
        session = await ask("explorer/session", ada, "team")
        assert (session["namespace"], session["scope"]) == ("team", "read")
        assert (await ask("explorer/memory", ada, "team", key="rules"))["memory"]["content"] == "x"
        assert (await ask("explorer/map", ada, "team"))["nodes"][0]["key"] == "rules"
        assert (await ask("explorer/timeline", ada, "team"))["changes"][0]["key"] == "rules"
        assert (await ask("explorer/review", ada, "team"))["total"] == 1

        # Notes, files, and whatever could change something are not there.
        memory = {**MEMORY, "key": "mine"}
        for path, arguments, reason in (
            ("explorer/days", {}, "unknown_address"),
            ("explorer/files", {}, "unknown_address"),
            ("explorer/why", VIEWS_ASKED["why"], "unknown_address"),
            ("explorer/retrievals", {}, "scope"),
            ("abilities/memory_read_bulk", {"targets": [{"type": "long_term"}]}, "unknown_ability"),
            ("abilities/memory_get", {"key": "rules"}, "unknown_ability"),
            ("abilities/recall", {"queries": ["x"]}, "unknown_ability"),
            ("abilities/store_memory", memory, "unknown_ability"),
            ("memories", memory, "unknown_address"),
        ):
            answer = await ask(path, ada, "team", **arguments)
            assert answer["error"]["reason"] == reason, path
        tried = await ask("explorer/try/store_memory", ada, "team", **memory)
        assert tried["failed"]

        # A token opens what it was made for, and its own abilities alone.
        for token, namespace in ((ada, "other"), (team, "ada")):
            refused = await ask("explorer/session", token, namespace)
            assert refused["error"]["reason"] == "scope"
        assert (await ask("explorer/map", narrow, "team"))["error"]["reason"] == "unknown_address"


async def test_what_callers_were_given_is_listed_for_those_who_may_write(
    private: Settings, tokens: TokenFile
) -> None:
    bot = tokens.add("ada", "read", label="bot", reads=("team",))[1]
    ada, team = (tokens.add(name, "write")[1] for name in ("ada", "team"))

    async with serving_app(private) as server:
        links = [{"key": "rain"}]
        await server.call("store_memory", ada, type="core", key="tea", content="Tea.", links=links)
        await server.call("store_memory", ada, type="core", key="rain", content="It rains.")
        await server.call("store_memory", team, type="core", key="cup", content="Tea in cups.")

        async def list_given(token: str, **arguments: Any) -> list[tuple[str, str, str, Any]]:
            path = "/api/explorer/retrievals"
            answer = (await server.ask("POST", path, token, json=arguments)).json()
            given = answer["retrievals"]
            assert len(given) == answer["total"]
            return [(one["by"], one["ability"], one["question"], one["keys"]) for one in given]

        assert await list_given(ada) == []
        await server.call("recall", bot, queries=["Tea?", "nothing like it"])
        for detail in ("full", "concise"):
            await server.call("memory_get", bot, key="tea", detail=detail)
            await server.call("bulk_read_memory", bot, key="tea", detail=detail)
        await server.call("memory_read_bulk", bot, targets=[{"key": "rain"}])
        await server.call("memory_list", bot)
        page = {"X-Abilities-Surface": "explorer"}
        await server.ask("POST", "/api/abilities/query_memories", ada, json={}, headers=page)

        reads = [
            ("bot", "memory_get", "", ["tea"]),
            ("bot", "bulk_read_memory", "", ["tea", "rain"]),
        ]
        asked = ("bot", "recall", "Tea?", ["tea", "rain"])
        last = ("bot", "memory_read_bulk", "", ["rain"])
        assert await list_given(ada) == [last, *reversed(reads), *reversed(reads), asked]
        assert await list_given(ada, key="rain") == [last, reads[1], reads[1], asked]
        assert await list_given(team) == []

        refused = await server.ask("POST", "/api/explorer/retrievals", bot, json={})
        assert (refused.status_code, refused.json()["error"]["reason"]) == (403, "scope")


WRONG: list[tuple[str, str, int, str]] = [
    ("nothing", "{}", 404, "unknown_address"),
    ("memory", "[]", 400, "malformed_request"),
    ("try/memory_get", "nonsense", 400, "malformed_request"),
    ("memory", "{}", 400, "missing_argument"),
    ("memory", '{"key": " x"}', 400, "invalid_key"),
    ("memory", '{"key": "none"}', 404, "not_found"),
    ("session", '{"more": 1}', 400, "unknown_argument"),
    ("days", '{"year": 10000}', 400, "out_of_range"),
    ("files", '{"pattern": "../*"}', 400, "parent_traversal"),
]


async def test_wrong_requests_get_a_clear_error(client: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json"}

    for path, body, status, reason in WRONG:
        response = await client.post(f"/api/explorer/{path}", content=body, headers=headers)
        error = response.json()["error"]
        assert (response.status_code, error["reason"]) == (status, reason), path
    assert (await client.get("/api/explorer/session")).status_code == 405


def test_explore_serves_this_machine_alone_and_opens_the_page(
    roots: Settings, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BROWSER": str(browser)}
    command = [sys.executable, "-m", "abilities", "explore"]

    with subprocess.Popen(
        command, env={**variables, **environment(roots)}, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        line = process.stderr.readline()
        match = re.search(r"the explorer at (http://127\.0\.0\.1:\d+/)", line)
        assert match, line
        address = match[1]

        asyncio.run(wait_until(lambda: opened.exists() and bool(opened.read_text().strip())))
        assert f"{opened.read_text().strip()}/" == address
        assert httpx.get(address).text.startswith("<!doctype html>")
        process.terminate()
