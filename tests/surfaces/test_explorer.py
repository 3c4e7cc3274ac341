"""The explorer's files, views and routes; `make browser` shows how the page looks and behaves."""

import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from abilities import Abilities, Settings, render
from abilities.declarations.values import JsonObject
from abilities.explorer.pages import PAGES
from abilities.helpers.tokens import TokenFile
from abilities.server.app import create_app
from tests.support.surfaces import environment, python

STATIC = Path(__file__).parent.parent.parent / "abilities" / "explorer" / "static"


@pytest.fixture
async def client(roots: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


@pytest.fixture
def sources() -> dict[str, str]:
    """The page's own files by name, without the libraries."""
    files = [path for path in STATIC.iterdir() if path.suffix in (".js", ".html", ".css")]
    return {path.name: path.read_text() for path in files}


async def read_view(client: httpx.AsyncClient, name: str, **arguments: Any) -> JsonObject:
    response = await client.post(f"/api/explorer/{name}", json=arguments)
    answer: JsonObject = response.json()
    assert response.status_code == 200, answer
    return answer


VIEWS_ASKED: dict[str, JsonObject] = {
    "memory": {"key": "tea"},
    "version": {"key": "tea", "version": 1},
    "timeline": {},
    "days": {"year": 2026},
    "files": {},
}


@pytest.mark.parametrize(
    ("tools", "shown"),
    [
        ("all", {"memory", "version", "timeline", "days", "files"}),
        ("lean", {"memory", "days", "files"}),
        ("files", {"files"}),
        ("memory", {"memory", "version", "timeline", "days"}),
        ("memory_history", {"version"}),
    ],
)
async def test_a_view_shows_nothing_that_the_callers_abilities_do_not(
    tools: str, shown: set[str], roots: Settings
) -> None:
    roots = roots.model_copy(update={"tools": (tools,)})
    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for name, arguments in VIEWS_ASKED.items():
                answer = (await client.post(f"/api/explorer/{name}", json=arguments)).json()

                is_refused = answer.get("error", {}).get("reason") == "unknown_address"
                assert is_refused == (name not in shown), (name, answer)
            assert (await client.post("/api/explorer/session", json={})).status_code == 200


async def test_pages_load_from_this_server_alone(client: httpx.AsyncClient) -> None:
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


@pytest.mark.parametrize(
    "path", ["", "../app.py", "%2e%2e/views.py", "nothing.js", "vendor/vendored.json"]
)
async def test_no_other_file_is_served(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(f"/explorer/{path}")

    assert response.status_code == 404


def test_our_own_pages_name_no_other_host_and_write_no_html(sources: dict[str, str]) -> None:
    other_host = r"https?://(?!www\.w3\.org/)|//[a-z]+\.[a-z]"
    html = r"innerHTML|outerHTML|insertAdjacent|dangerously|document\.write|\beval\b|Function\("
    lasting_storage = r"document\.cookie|localStorage"

    assert len(sources) > 12
    for name, text in sources.items():
        for pattern in (other_host, html, lasting_storage):
            assert not re.search(pattern, text), name


def find_long_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > 100]


def test_our_own_pages_are_short_files_of_100_columns(sources: dict[str, str]) -> None:
    assert find_long_lines("x" * 100 + "\n" + "y" * 101) == ["y" * 101]

    for name, text in sources.items():
        assert find_long_lines(text) == [], name
        assert text.count("\n") <= 350, name


def find_limits(text: str, limits: list[int]) -> list[str]:
    """Return what a page says of limits: one of these numbers, or any number named as a limit."""
    forms = {form for limit in limits for form in (f"{limit}", f"{limit:,}", f"{limit:_}")}
    numbers = "|".join(sorted(forms))
    named = r"max(?:length|items)\W{1,3}\d+|at most \d+"

    return re.findall(rf"\b(?:{numbers})\b|{named}", text, re.IGNORECASE)


async def test_our_own_pages_state_no_limit_that_the_schemas_publish(
    client: httpx.AsyncClient, sources: dict[str, str]
) -> None:
    abilities = (await client.get("/api/abilities")).json()
    schemas = {ability["name"]: ability["inputSchema"]["properties"] for ability in abilities}
    stored = schemas["store_memory"]
    limits = [stored[name]["maxLength"] for name in ("content", "summary", "category", "key")]
    limits.append(stored["tags"]["items"]["maxLength"])

    assert limits == [5000, 500, 50, 200, 30]
    for written in ("of 5,000 characters", "length > 500", 'maxlength="9"', "at most 10 tags"):
        assert len(find_limits(written, limits)) == 1, written

    for name, text in sources.items():
        if name.endswith(".js"):
            assert find_limits(text, limits) == [], name


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
        link = {"key": "hub", "type": "about"}
        memory = {"type": "core", "content": "x", "key": key, "links": [link]}
        await client.post("/api/memories", json=memory)
    links = [{"key": key, "link_weight": n / 30} for n, key in enumerate(keys)]
    hub = {"type": "task", "content": "the hub", "key": "hub", "links": links}
    await client.post("/api/memories", json=hub)

    first = await read_view(client, "memory", key="hub")
    rest = await read_view(client, "memory", key="hub", links_offset=20, backlinks_offset=20)
    missing = await client.post("/api/explorer/memory", json={"key": "none"})

    memory = first["memory"]
    assert (memory["content"], memory["access_count"]) == ("the hub", 0)
    assert [link["key"] for link in memory["links"]] == keys[:2:-1]
    assert first["backlinks"][0] == {
        "key": "from 00",
        "link_weight": 0.5,
        "type": "about",
        "term": "",
    }
    assert (len(first["backlinks"]), first["backlinks_total"]) == (20, 23)

    assert rest["memory"]["access_count"] == 0
    assert [link["key"] for link in rest["memory"]["links"]] == keys[2::-1]
    assert [link["key"] for link in rest["backlinks"]] == keys[20:]

    assert (missing.status_code, missing.json()["error"]["reason"]) == (404, "not_found")


async def test_the_largest_memory_can_be_shown(client: httpx.AsyncClient) -> None:
    wide = "\U0001f642" * 198
    links = [{"key": f"{wide}{n:02}"} for n in range(20)]
    memory = {
        "type": "core",
        "content": "\x01" * 5000,
        "key": "large",
        "links": links,
        "metadata": {"m": "é" * 2000},
    }
    assert (await client.post("/api/memories", json=memory)).status_code == 200
    for link in links:
        other = {"type": "core", "content": "x", "key": link["key"], "links": [{"key": "large"}]}
        await client.post("/api/memories", json=other)

    answer = await read_view(client, "memory", key="large")

    assert answer["memory"]["content"] == "\x01" * 5000
    assert answer["backlinks_total"] == 20


async def test_a_version_is_shown_with_what_it_replaced(client: httpx.AsyncClient) -> None:
    call = "/api/abilities"
    memory = {"key": "a", "type": "core", "links": [{"key": f"x{n}"} for n in range(30)]}
    first = (await client.post(f"{call}/store_memory", json={**memory, "content": "1"})).json()
    memory_id = first["id"]
    await client.post(f"{call}/update_memory", json={"id": memory_id, "content": "2"})
    await client.post(f"{call}/delete_memory", json={"id": memory_id, "permanent": True})

    shown = [await read_view(client, "version", id=memory_id, version=n) for n in (1, 2, 3)]
    contents = [(pair.get("before"), pair.get("memory")) for pair in shown]
    texts = [[memory and memory["content"] for memory in pair] for pair in contents]
    assert texts == [[None, "1"], ["1", "2"], ["2", None]]
    assert len(shown[1]["memory"]["links"]) == 30

    response = await client.post("/api/explorer/version", json={"id": memory_id, "version": 4})
    assert response.json()["error"]["reason"] == "version_not_found"


async def test_a_memory_is_shown_by_its_id(client: httpx.AsyncClient) -> None:
    memory = {"key": "a", "type": "core", "content": "1"}
    stored = (await client.post("/api/abilities/store_memory", json=memory)).json()
    change = {"id": stored["id"], "key": "b"}
    await client.post("/api/abilities/update_memory", json=change)

    assert (await read_view(client, "memory", id=stored["id"]))["memory"]["key"] == "b"
    response = await client.post("/api/explorer/memory", json={})
    assert response.json()["error"]["reason"] == "missing_argument"


async def test_the_timeline_is_filtered_and_goes_back(client: httpx.AsyncClient) -> None:
    rare = (5, 40)
    for number in range(600):
        change = {"key": "a", "type": "core", "content": f"{number}", "category": "x"}
        surface = "explorer" if number in rare else "http"
        headers = {"X-Abilities-Surface": surface}
        await client.post("/api/abilities/store_memory", json=change, headers=headers)

    versions: list[int] = []
    request: JsonObject | None = {}
    while request is not None:
        page = await read_view(client, "timeline", **request)
        assert len(page["changes"]) <= 50
        versions += [change["version"] for change in page["changes"]]
        request = page.get("next_request")
    assert versions == [*range(600, 0, -1)]

    page = await read_view(client, "timeline", by="explorer")
    assert [change["version"] for change in page["changes"]] == [41, 6]
    assert "next_request" not in page
    page = await read_view(client, "timeline", by="explorer", before=41, action="changed")
    assert [change["version"] for change in page["changes"]] == [6]
    page = await read_view(client, "timeline", action="created")
    assert [change["version"] for change in page["changes"]] == [1]


async def test_days_with_notes_are_listed_and_an_unreadable_one_says_why(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    notes = roots.agent_dir / "memory"
    assert (await read_view(client, "days"))["days"] == []

    notes.mkdir()
    (notes / "2024-02-29.md").write_text("leap")
    (notes / "2024-12-31.md").mkdir()
    (notes / "2024-13-01.md").write_text("no day")
    answer = await read_view(client, "days", year=2024)

    readable, unreadable = answer["days"]
    assert readable == {"date": "2024-02-29", "size_bytes": 4}
    assert (unreadable["date"], unreadable["error"]["reason"]) == ("2024-12-31", "is_directory")
    assert "size_bytes" not in unreadable

    current = await read_view(client, "days")
    assert answer["year"] == 2024
    assert answer["today"] == current["today"]
    assert current["year"] == date.fromisoformat(current["today"]).year


async def test_days_are_refused_for_a_wrong_year_and_a_missing_root(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    wrong = await client.post("/api/explorer/days", json={"year": 10000})
    roots.agent_dir.rename(roots.agent_dir.with_name("away"))
    missing = await client.post("/api/explorer/days", json={"year": 2024})

    assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "year")
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

    wrong = await client.post("/api/explorer/files", json={"pattern": "../*"})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "pattern")


async def try_ability(client: httpx.AsyncClient, name: str, arguments: JsonObject) -> JsonObject:
    response = await client.post(f"/api/explorer/try/{name}", json=arguments)
    trial: JsonObject = response.json()
    return trial


async def test_a_tried_call_is_answered_in_every_format(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    (roots.workspace_dir / "a.txt").write_text("tried")
    arguments = {"paths": ["a.txt", "none"]}
    expected = await python(roots, "file_read_bulk", arguments)

    trial = await try_ability(client, "file_read_bulk", arguments)

    assert trial == {
        "failed": False,
        "json": render(expected),
        "text": render(expected, "text"),
        "toon": render(expected, "toon"),
        "max_bytes": roots.max_response_bytes,
    }


async def test_a_tried_call_runs_once(client: httpx.AsyncClient) -> None:
    await try_ability(client, "store_memory", {"type": "core", "content": "x", "tags": ["once"]})

    assert (await client.get("/api/memories?tags=once")).json()["total"] == 1


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [("memory_get", {"key": "none"}, "not_found"), ("nothing", {}, "unknown_ability")],
)
async def test_a_tried_call_that_fails_has_a_reply_too(
    client: httpx.AsyncClient, name: str, arguments: JsonObject, reason: str
) -> None:
    trial = await try_ability(client, name, arguments)

    assert trial["failed"]
    assert json.loads(trial["json"])["error"]["reason"] == reason


async def test_with_tokens_the_pages_are_open_and_everything_else_is_shut(
    roots: Settings,
) -> None:
    roots = roots.model_copy(update={"tokens_file": roots.agent_dir.with_name("tokens.json")})
    tokens = TokenFile(roots.tokens_file)
    read_token = tokens.add("default", "read", "Ada")[1]
    write_token = tokens.add("default", "write")[1]
    assert [token.label for token in tokens.tokens()] == ["Ada", ""]

    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for path in PAGES:
                assert (await client.get(path)).status_code == 200, path
            for view in ("session", "memory", "days", "files", "try/get_memory_stats"):
                response = await client.post(f"/api/explorer/{view}", json={})
                assert response.status_code == 401, view

            for token, scope in ((read_token, "read"), (write_token, "write")):
                client.headers["Authorization"] = f"Bearer {token}"
                session = await read_view(client, "session")
                assert (session["namespace"], session["scope"]) == ("default", scope)

                memory = {"type": "core", "content": "x", "key": scope}
                trial = await try_ability(client, "store_memory", memory)
                assert trial["failed"] == (scope == "read")

            assert (await client.get("/api/stats")).json()["total_memories"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("nothing", "{}", 404, "unknown_address"),
        ("memory", "[]", 400, "malformed_request"),
        ("try/memory_get", "nonsense", 400, "malformed_request"),
        ("memory", "{}", 400, "missing_argument"),
        ("memory", '{"key": " x"}', 400, "invalid_key"),
        ("session", '{"more": 1}', 400, "unknown_argument"),
    ],
)
async def test_wrong_requests_get_a_clear_error(
    client: httpx.AsyncClient, path: str, body: str, status: int, reason: str
) -> None:
    headers = {"Content-Type": "application/json"}
    response = await client.post(f"/api/explorer/{path}", content=body, headers=headers)

    assert (response.status_code, response.json()["error"]["reason"]) == (status, reason)


async def test_views_are_only_posted_to(client: httpx.AsyncClient) -> None:
    response = await client.get("/api/explorer/session")

    assert response.status_code == 405


def test_explore_serves_this_machine_alone_and_opens_the_page(
    roots: Settings, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "BROWSER": str(browser),
        **environment(roots),
    }
    command = [sys.executable, "-m", "abilities", "explore"]

    with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        line = process.stderr.readline()
        match = re.search(r"the explorer at (http://127\.0\.0\.1:\d+/)", line)
        assert match, line
        address = match[1]

        deadline = time.monotonic() + 30
        while not opened.exists() or not opened.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.05)

        assert f"{opened.read_text().strip()}/" == address
        assert httpx.get(address).text.startswith("<!doctype html>")
        process.terminate()


def test_names_are_shown_in_one_way_and_contents_turn_nothing_around_them(
    sources: dict[str, str],
) -> None:
    """What the function shows of hostile names is tried in a browser."""
    for name, source in sources.items():
        assert source.count("<bdi>") == (name == "parts.js"), name
        assert not re.findall(r">\$\{(?:\w+\.)?(?:key|path|tag|input|category)\}", source), name
        assert not re.findall(r'aria-label="[^"]*\$\{(?:\w+\.)?(?:key|path|input)\}', source), name

    assert "unicode-bidi: isolate" in sources["style.css"]
    assert "showName" in sources["frame.js"] and "showName" in sources["drawing.js"]
