"""What the explorer is made of and what it asks; how it looks and behaves in a browser is shown by `make browser`."""

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


async def viewed(client: httpx.AsyncClient, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.post(f"/api/explorer/{name}", json=arguments)
    found: dict[str, Any] = answer.json()
    assert answer.status_code == 200, found
    return found


async def test_pages_load_from_here_alone_and_only_the_files_there_are(
    client: httpx.AsyncClient,
) -> None:
    assert {"/", "/docs", "/explorer/app.js", "/explorer/style.css"} <= PAGES.keys()
    for path, page in PAGES.items():
        answer = await client.get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200 and answer.content == page.body
        assert (
            policy.startswith("default-src 'none'; script-src 'self'; ")
            and "frame-ancestors 'none'" in policy
        )
        assert ("unsafe" in policy) == (path == "/docs") and "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-type"].startswith(("text/", "image/svg+xml"))
    for path in (
        "/explorer/",
        "/explorer/../app.py",
        "/explorer/%2e%2e/views.py",
        "/explorer/nothing.js",
    ):
        assert (await client.get(path)).status_code == 404
    assert (await client.get("/explorer/vendor/vendored.json")).status_code == 404


def test_our_own_pages_name_no_other_host_and_write_no_html() -> None:
    own = [path for path in STATIC.iterdir() if path.suffix in (".js", ".html", ".css")]
    assert len(own) > 12
    for path in own:
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/)|//[a-z]+\.[a-z]", text), path
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|dangerously|document\.write|\beval\b|Function\(",
            text,
        )
        assert not re.search(r"document\.cookie|localStorage", text), path
        assert text.count("\n") <= 400, path


def test_vendored_libraries_are_what_was_fetched_each_with_its_licence() -> None:
    listed: dict[str, dict[str, str]] = json.loads(
        (STATIC / "vendor" / "vendored.json").read_text()
    )
    files = {name: digest for names in listed.values() for name, digest in names.items()}
    assert files.keys() == {path.name for path in (STATIC / "vendor").iterdir()} - {"vendored.json"}
    for name, digest in files.items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name
    for package, names in listed.items():
        assert any("LICENSE" in name for name in names), package


async def test_a_memory_is_looked_at_with_links_both_ways_and_counts_no_access(
    client: httpx.AsyncClient,
) -> None:
    for n in range(23):
        asked = {
            "type": "core",
            "content": "x",
            "key": f"from {n:02}",
            "links": [{"key": "hub", "type": "about"}],
        }
        await client.post("/api/memories", json=asked)
    links = [{"key": f"from {n:02}", "link_weight": n / 30} for n in range(23)]
    await client.post(
        "/api/memories", json={"type": "task", "content": "the hub", "key": "hub", "links": links}
    )
    found = await viewed(client, "memory", key="hub")
    assert found["memory"]["content"] == "the hub" and found["memory"]["access_count"] == 0
    assert [link["key"] for link in found["memory"]["links"]] == [
        f"from {n:02}" for n in range(22, 2, -1)
    ]
    assert found["backlinks"][0] == {"key": "from 00", "link_weight": 0.5, "type": "about"}
    assert (len(found["backlinks"]), found["backlinks_total"]) == (20, 23)
    rest = await viewed(client, "memory", key="hub", links_offset=20, backlinks_offset=20)
    assert [link["key"] for link in rest["memory"]["links"]] == ["from 02", "from 01", "from 00"]
    assert [link["key"] for link in rest["backlinks"]] == ["from 20", "from 21", "from 22"]
    assert (await viewed(client, "memory", key="hub"))["memory"]["access_count"] == 0
    missing = await client.post("/api/explorer/memory", json={"key": "none"})
    assert (missing.status_code, missing.json()["error"]["reason"]) == (404, "not_found")


async def test_the_largest_memory_can_be_looked_at(client: httpx.AsyncClient) -> None:
    wide = "\U0001f642" * 198
    links = [{"key": f"{wide}{n:02}"} for n in range(20)]
    asked = {
        "type": "core",
        "content": "\x01" * 5000,
        "key": "large",
        "links": links,
        "metadata": {"m": "é" * 2000},
    }
    assert (await client.post("/api/memories", json=asked)).status_code == 200
    for link in links:
        back = {"type": "core", "content": "x", "key": link["key"], "links": [{"key": "large"}]}
        await client.post("/api/memories", json=back)
    found = await viewed(client, "memory", key="large")
    assert found["memory"]["content"] == "\x01" * 5000 and found["backlinks_total"] == 20


async def test_days_with_notes_are_told_and_one_that_cannot_be_read_says_so(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    notes = roots.agent_dir / "memory"
    assert (await viewed(client, "days"))["days"] == []
    notes.mkdir()
    (notes / "2024-02-29.md").write_text("leap")
    (notes / "2024-12-31.md").mkdir()
    (notes / "2024-13-01.md").write_text("no day")
    found = await viewed(client, "days", year=2024)
    assert [(day["date"], day.get("size_bytes")) for day in found["days"]] == [
        ("2024-02-29", 4),
        ("2024-12-31", None),
    ]
    assert found["days"][1]["error"]["reason"] == "is_directory"
    assert found["today"] == (await viewed(client, "days"))["today"] and found["year"] == 2024
    assert (await viewed(client, "days"))["year"] == date.fromisoformat(found["today"]).year
    wrong = await client.post("/api/explorer/days", json={"year": 10000})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "year")
    (roots.agent_dir).rename(roots.agent_dir.with_name("away"))
    gone = await client.post("/api/explorer/days", json={"year": 2024})
    assert (gone.status_code, gone.json()["error"]["reason"]) == (503, "root_unavailable")


async def test_files_tell_which_root_answers_and_what_it_hides(
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
    found = await viewed(client, "files")
    rows = [
        (f["path"], f.get("source"), f.get("hides", {}).get("size_bytes")) for f in found["files"]
    ]
    assert rows == [
        ("a.txt", "agent", None),
        ("both.txt", "agent", 9),
        ("refused.txt", None, 6),
        ("z.txt", "workspace", None),
    ]
    pages: list[str] = []
    after = None
    while True:
        page = await viewed(client, "files", limit=1, after=after)
        pages += [file["path"] for file in page["files"]]
        if (after := page.get("after")) is None:
            break
    assert pages == [row[0] for row in rows]
    wrong = await client.post("/api/explorer/files", json={"pattern": "../*"})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "pattern")


async def test_a_call_is_tried_once_and_answered_in_both_formats(
    client: httpx.AsyncClient, roots: Settings
) -> None:
    (roots.workspace_dir / "a.txt").write_text("tried")
    asked = {"paths": ["a.txt", "none"]}
    expected = await python(roots, "file_read_bulk", asked)
    tried = (await client.post("/api/explorer/try/file_read_bulk", json=asked)).json()
    assert tried == {"failed": False, "json": render(expected), "toon": render(expected, "toon")}
    stored = {"type": "core", "content": "x", "tags": ["once"]}
    await client.post("/api/explorer/try/store_memory", json=stored)
    assert (await client.get("/api/memories?tags=once")).json()["total"] == 1
    failed = (await client.post("/api/explorer/try/memory_get", json={"key": "none"})).json()
    assert failed["failed"] and json.loads(failed["json"])["error"]["reason"] == "not_found"
    unknown = (await client.post("/api/explorer/try/nothing", json={})).json()
    assert unknown["failed"] and json.loads(unknown["json"])["error"]["reason"] == "unknown_ability"


async def test_with_tokens_the_pages_are_open_and_hold_nothing_and_all_else_is_shut(
    roots: Settings,
) -> None:
    roots = roots.model_copy(update={"tokens_file": roots.agent_dir.with_name("tokens.json")})
    tokens = TokenFile(roots.tokens_file)
    reading, writing = tokens.add("default", "read", "Ada")[1], tokens.add("default", "write")[1]
    assert [token.label for token in tokens.tokens()] == ["Ada", ""]
    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert {(await client.get(path)).status_code for path in PAGES} == {200}
            for view in ("session", "memory", "days", "files", "try/get_memory_stats"):
                assert (await client.post(f"/api/explorer/{view}", json={})).status_code == 401
            for token, scope in ((reading, "read"), (writing, "write")):
                client.headers["Authorization"] = f"Bearer {token}"
                found = await viewed(client, "session")
                assert (found["namespace"], found["scope"]) == ("default", scope)
                stored = {"type": "core", "content": "x", "key": scope}
                tried = (await client.post("/api/explorer/try/store_memory", json=stored)).json()
                assert tried["failed"] == (scope == "read")
            assert (await client.get("/api/stats")).json()["total_memories"] == 1


async def test_wrong_requests_get_a_clear_error(client: httpx.AsyncClient) -> None:
    for path, body, status, reason in (
        ("nothing", "{}", 404, "unknown_address"),
        ("memory", "[]", 400, "malformed_request"),
        ("try/memory_get", "nonsense", 400, "malformed_request"),
        ("memory", "{}", 400, "invalid_parameter"),
        ("memory", '{"key": " x"}', 400, "invalid_key"),
        ("session", '{"more": 1}', 400, "invalid_parameter"),
    ):
        answer = await client.post(
            f"/api/explorer/{path}", content=body, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error"]["reason"]) == (status, reason), path
    assert (await client.get("/api/explorer/session")).status_code == 405


def test_explore_serves_this_machine_alone_and_opens_the_page(
    roots: Settings, tmp_path: Path
) -> None:
    note = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {note}\n')
    browser.chmod(0o755)
    given = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "BROWSER": str(browser),
        **environment(roots),
    }
    command = [sys.executable, "-m", "abilities", "explore"]
    with subprocess.Popen(command, env=given, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        said = process.stderr.readline()
        address = re.search(r"the explorer at (http://127\.0\.0\.1:\d+/)", said)
        assert address, said
        end = time.monotonic() + 30
        while not note.exists() or not note.read_text().strip():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert f"{note.read_text().strip()}/" == address[1]
        assert httpx.get(address[1]).text.startswith("<!doctype html>")
        process.terminate()
