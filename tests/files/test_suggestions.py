"""Paths and keys that are written otherwise: each refusal says what to send instead."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from abilities import Abilities, Settings
from tests.support.reading import write_files

FILES = "README.md src/app.py src/deep/helper.py docs/Guide.md one/same.txt same.py"
ITEMS = {"read": "items", "file_read_bulk": "paths", "memory_read_bulk": "targets"}

MEANT = [
    ("readme.md", "README.md"),
    ("SRC/App.py", "src/app.py"),
    ("app.py", "src/app.py"),
    ("deep/helper.py", "src/deep/helper.py"),
    ("./src/../src/app.py", "src/app.py"),
    ("src\\app.py", "src/app.py"),
    ("/repo/src/app.py", "src/app.py"),
    ("C:\\work\\src\\app.py", "src/app.py"),
    ("../src/app.py", "src/app.py"),
    ("file:///repo/docs/Guide.md", "docs/Guide.md"),
    ("'README.md'", "README.md"),
    ("src/ap.py", "src/app.py"),
    ("README.md:1-3", "README.md#L1-L3"),
    ("README.md:2", "README.md#L2-L2"),
    ("src/app.py:L2-L3", "src/app.py#L2-L3"),
    ("app.py#2-3", "src/app.py#L2-L3"),
    ("docs/plan.ipynb#p1", "Plan.ipynb#p1"),
    ("plam.ipynb#p2-", "Plan.ipynb#p2-"),
    ("src/ap.py#p3", "src/app.py"),
]
"""Paths that cannot be read, and what to send instead."""

NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": "1 + 1"}] * 2})

PATTERNS = [
    ("src/*.py", "src/*.py"),
    ("Guide.*", "**/Guide.*"),
    ("src", "src/**"),
    ("src/", "src/**"),
    ("/repo/docs", "docs/**"),
]
"""Paths that stand for several files, and the pattern to ask for."""


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    write_files(roots.workspace_dir, dict.fromkeys(FILES.split(), "one\ntwo\nthree\n"))
    write_files(roots.workspace_dir, {".env": "SECRET=1", "Plan.ipynb": NOTEBOOK})

    async with Abilities.open(roots) as abilities:
        yield abilities


async def fail(app: Abilities, name: str, item: Any, **more: Any) -> dict[str, Any]:
    payload = await app.call(name, {ITEMS[name]: [item], **more})
    record: dict[str, Any] = payload["results"][0]
    assert not record["success"], record
    return record


@pytest.mark.parametrize("name", ["file_read_bulk", "read"])
async def test_a_path_alike_is_suggested(app: Abilities, name: str) -> None:
    for sent, meant in MEANT:
        full = await fail(app, name, sent)
        concise = await fail(app, name, sent, detail="concise")

        assert full["error"]["did_you_mean"] == concise["did_you_mean"] == meant
        assert meant not in full["error"]["message"], "names are data, and stand in no sentence"
        (record,) = (await app.call(name, {ITEMS[name]: [meant]}))["results"]
        assert record["success"]


async def test_a_folder_is_answered_with_a_pattern(app: Abilities) -> None:
    for sent, pattern in PATTERNS:
        meant = (await fail(app, "read", sent))["error"]["did_you_mean"]
        assert json.loads(meant) == {"glob": pattern}
        (record,) = (await app.call("read", {"items": [json.loads(meant)]}))["results"]
        assert record["data"]["items"]

        meant = (await fail(app, "file_read_bulk", sent))["error"]["did_you_mean"]
        ability, _, arguments = meant.partition(" ")
        assert (await app.call(ability, json.loads(arguments)))["files"]


@pytest.mark.parametrize("sent", ["same.txt.bak/none", "nothing.rs", ".env", "/.env", "x" * 300])
async def test_what_is_alike_to_nothing_stays_a_plain_refusal(app: Abilities, sent: str) -> None:
    for name in ("file_read_bulk", "read"):
        assert "did_you_mean" not in (await fail(app, name, sent))["error"]


async def test_nothing_is_suggested_to_whom_no_list_is_offered(roots: Settings) -> None:
    write_files(roots.workspace_dir, ["README.md"])
    settings = roots.model_copy(update={"tools": ("file_read_bulk",)})

    async with Abilities.open(settings) as app:
        assert "did_you_mean" not in (await fail(app, "file_read_bulk", "readme.md"))["error"]


async def test_a_key_alike_is_what_to_send(app: Abilities) -> None:
    for key in ("project/goals", "people/Ada"):
        await app.call("store_memory", {"type": "core", "key": key, "content": "goals"})
    other = app.for_namespace("other")

    for sent in ("Project/Goals", "project.goals", "goals", "nobody", "🍵"):
        faults = [
            (await fail(app, "memory_read_bulk", {"key": sent}))["error"],
            (await fail(app, "read", {"memory": sent}))["error"],
            (await fail(app, "read", {"memory": sent, "depth": 1}))["error"],
        ]
        meant = "project/goals" if "goals" in sent.lower() else None
        assert [fault.get("did_you_mean") for fault in faults] == [meant] * 3
        assert "did_you_mean" not in (await fail(other, "memory_read_bulk", {"key": sent}))["error"]


@pytest.mark.parametrize("detail", ["full", "concise"])
async def test_what_finds_nothing_says_what_would(app: Abilities, detail: str) -> None:
    question = "Where is the kettle kept?"
    items = [{"glob": "helper.*"}, {"glob": "*.rs"}, {"search": question}, {"search": "kettle"}]

    records = (await app.call("read", {"items": items, "detail": detail}))["results"]
    deeper, none, words, word = [record.get("data", record) for record in records]

    assert (json.loads(deeper["did_you_mean"]), deeper["finds"]) == ({"glob": "**/helper.*"}, 1)
    assert json.loads(words["did_you_mean"]) == {"recall": question}
    assert "did_you_mean" not in none and "did_you_mean" not in word
