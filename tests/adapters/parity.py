"""Every adapter gives a model what `Abilities.reply` returns: the sample, its calls, and the check.

It needs nothing but the package itself and pytest, so that it runs beside any framework.
"""

import json
import re
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from abilities import Abilities, Settings, definition, parse_text
from abilities.registry import Reply
from tests.support.catalog import BUILT_IN

QUOTED = 'one "two" \\ three\r\n\tätsch 🙂\u2028<b>&amp;{not_a_field}</b>'


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]


class Seen(NamedTuple):
    """What a model saw of a reply.

    The payload and whether the call failed are None if the framework has no place for them.
    """

    text: str
    payload: dict[str, Any] | None = None
    failed: bool | None = None


Through = Callable[[Abilities, Sequence[Call]], Awaitable[list[Seen]]]
"""Lets a scripted model make the calls, one after the other, with the tools of an application."""

READ = Call("file_read_bulk", {"paths": ["a.txt", "none.txt"]})
"""A bulk read with a file that is missing."""

WRONG = Call("file_read_bulk", {"paths": []})
"""A call that fails as a whole."""


WHO = Call("file_read_bulk", {"paths": ["who.txt"]})
"""A read of the file that holds the name of its namespace."""


def make_settings(folder: Path) -> Settings:
    return Settings(
        agent_dir=folder / "agent",
        workspace_dir=folder / "workspace",
        store_url=f"sqlite:///{folder}/memory.db",
    )


def make_tenants(folder: Path, *namespaces: str) -> Settings:
    """Return settings by which each namespace has a file of its own, which holds its name."""
    for namespace in namespaces:
        (folder / namespace).mkdir(parents=True)
        (folder / namespace / "who.txt").write_text(namespace)

    template = folder / "{namespace}"
    return Settings(agent_dir=template, workspace_dir=template)


async def fill(folder: Path) -> str:
    """Make the sample: files, notes and memories; return the id of one memory."""
    (folder / "agent").mkdir(parents=True)
    (folder / "workspace").mkdir()
    (folder / "agent" / "MEMORY.md").write_text("# Memory\n- likes tea\n")
    (folder / "workspace" / "a.txt").write_text(QUOTED * 20)
    (folder / "workspace" / "b.json").write_text('{"error": "not one", "type": "text"}\n')

    async with Abilities.open(make_settings(folder)) as abilities:
        for key, linked in (("plan", []), ("goals", ["plan"]), ("none left", ["goals", "plan"])):
            memory = {"type": "core", "key": key, "content": f"{key}: {QUOTED}"}
            links = [{"key": other} for other in linked]
            stored = await abilities.call("store_memory", {**memory, "links": links})

    identifier: str = stored["id"]
    return identifier


def list_calls(identifier: str) -> list[Call]:
    return [
        READ,
        WRONG,
        Call("file_read_bulk", {"paths": ["a.txt"], "max_chars_per_file": 7}),
        Call("file_read_bulk", {"paths": ["b.json"], "output_format": "json"}),
        Call("file_read_bulk", {"paths": ["b.json"], "output_format": "toon"}),
        Call("file_read_bulk", {"paths": ["b.json"], "detail": "concise"}),
        Call("file_read_bulk", {"pathes": ["b.json"], "max_chars_per_file": "many"}),
        Call("file_read_bulk", {"paths": ["b.json"], "output_format": "yaml"}),
        Call("memory_read_bulk", {"targets": [{"type": "long_term"}, {"type": "stored"}]}),
        Call("bulk_read_memory", {"key": "none left", "depth": 1, "totalLimit": 2}),
        Call("bulk_read_memory", {"key": "nowhere"}),
        Call("memory_get", {"key": "goals"}),
        Call("query_memories", {"search": "plan", "limit": 2}),
        Call("get_memory_stats", {}),
        Call("get_memory_stats", {"unknown": 1}),
        Call("file_list", {}),
        Call("read", {"items": ["a.txt#L1", {"glob": "*.json"}, {"memory": "goals"}, {"x": 1}]}),
        Call("recall", {"queries": ["who likes tea?", "plan"]}),
        Call("memory_list", {}),
        Call("memory_history", {"id": identifier}),
        Call("memory_changes", {"since": 0}),
        Call("store_memory", {"type": "task", "key": "new", "content": QUOTED, "tags": ["t"]}),
        Call("store_memory", {"type": "no such type", "content": QUOTED}),
        Call("update_memory", {"id": identifier, "content": "changed"}),
        Call("remember", {"operations": [{"op": "append", "key": "new", "content": QUOTED}]}),
        Call("memory_restore", {"id": identifier, "version": 1}),
        Call("delete_memory", {"id": identifier}),
        Call("delete_memory", {"id": identifier}),
    ]


async def check_parity(through: Through, folder: Path) -> None:
    """Check that a model sees of each call the text and the payload of `Abilities.reply`.

    They are those of the very reply to its call, and, but for ids, times, versions and counts,
    those of the same call without the framework, on a copy of the sample.
    """
    sample, twin = folder / "sample", folder / "twin"
    identifier = await fill(sample)
    shutil.copytree(sample, twin)
    calls = list_calls(identifier)

    async with Abilities.open(make_settings(twin)) as abilities:
        expected = [await abilities.reply(*call, for_model=True) for call in calls]
    async with Abilities.open(make_settings(sample)) as abilities:
        recorder = Recorder()
        seen = await through(abilities.with_middleware(recorder.record), calls)

    assert recorder.names == [call.name for call in calls]
    assert [reply.failed for reply in expected].count(True) >= 6
    for call, reply, same, found in zip(calls, recorder.replies, expected, seen, strict=True):
        check_seen(call, reply, found)
        assert hide_changing(reply.text) == hide_changing(same.text), (call, reply, same)


def check_offered(offered: dict[str, tuple[str, Any]]) -> None:
    assert offered == {
        ability.name: (ability.description, definition.build_schema(ability.input, "brief"))
        for ability in BUILT_IN
    }


def check_functions(offered: Sequence[dict[str, Any]]) -> None:
    check_offered({each["name"]: (each["description"], each["parameters"]) for each in offered})


WRONG_NAMESPACES = [{"namespace": wrong} for wrong in ("../ada", "", None)]


async def check_namespaces(
    ask: Callable[[Any], Awaitable[str]], named: Sequence[tuple[Any, str]], wrong: Sequence[Any]
) -> None:
    """Check whose file a run reads that was given something which may name a namespace."""
    for given, namespace in named:
        assert (await ask(given)).split()[-1] == namespace

    for given in wrong:
        with pytest.raises(Exception, match="a namespace is 1 to 128"):
            await ask(given)


class Recorder:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.replies: list[Reply] = []

    async def record(self, name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        reply = await call()
        self.names.append(name)
        self.replies.append(reply)
        return reply


def check_seen(call: Call, reply: Reply, found: Seen) -> None:
    """Check that a model saw the very text of a reply, and whoever asks for it the payload."""
    assert found.text.encode() == reply.text.encode(), (call, reply, found)
    assert found.failed in (None, reply.failed), call
    if found.payload is not None:
        assert json.dumps(found.payload) == json.dumps(reply.payload), call
    if reply.format != "toon":
        assert parse_text(found.text) == reply.payload, call


def hide_changing(text: str) -> str:
    """Return a text without what differs between two copies of the sample, or is counted later."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r'"version":("\w+"|\d+)', '"version":1', text)
    text = re.sub(r'"access_count":\d+', '"access_count":1', text)
    text = re.sub(r',"most_accessed":\{.*\}(?=\}$)', "", text)
    # The label of a text block and the version of a file, as they stand in text and TOON, which
    # quotes one that could be a number.
    return re.sub(r'"?\b([0-9a-f]{6}|[0-9a-f]{12})\b"?', "HASH", text)
