"""The profile `lean`: four tools, and nothing that leads to one which is not offered."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client

from abilities import Abilities, Settings, schemas
from abilities.adapters.mcp import create_server
from abilities.builtin.index import NAMES, PROFILES, load_built_in
from abilities.declarations.refusals import FAULTS
from tests.support.surfaces import read_tool_result

Payload = dict[str, Any]

LONG = " ".join(f"tea{number}" for number in range(600))

NAMED = re.compile(r"[a-z]+(?:_[a-z]+)+")
"""What could be the name of an ability of several words."""


class Agent:
    """Calls tools over MCP, and reads what a model reads."""

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities

    async def call(self, name: str, **arguments: Any) -> Payload:
        async with Client(create_server(self._abilities)) as client:
            payload = read_tool_result(await client.call_tool(name, arguments))

        assert "error" not in payload, payload
        return payload

    async def read(self, *items: Any, **more: Any) -> Payload:
        records: list[Payload] = (await self.call("read", items=list(items), **more))["results"]
        (record,) = records
        return record

    async def change(self, **operation: Any) -> Payload:
        records: list[Payload] = (await self.call("remember", operations=[operation]))["results"]
        (record,) = records
        return record


@pytest.fixture
async def agent(roots: Settings) -> AsyncIterator[Agent]:
    settings = roots.model_copy(update={"tools": ("lean",), "detail": None})
    async with Abilities.open(settings) as abilities:
        yield Agent(abilities)


async def test_what_recall_cuts_is_read_on_by_read(agent: Agent, roots: Settings) -> None:
    await agent.change(op="store", type="core", key="tea", content=LONG)

    (answer,) = (await agent.call("recall", queries=["tea0"], max_tokens=400))["results"]
    (hit,) = answer["memories"]
    rest = await agent.read(hit["next"])

    assert hit["content"] + rest["content"] == LONG


async def test_a_note_that_recall_cuts_is_read_on_by_read(agent: Agent, roots: Settings) -> None:
    (roots.agent_dir / "MEMORY.md").write_text(LONG)

    (answer,) = (await agent.call("recall", queries=["tea0"], max_tokens=400))["results"]
    (hit,) = answer["memories"]
    rest = await agent.read(hit["next"])

    assert hit["content"] + rest["content"] == LONG


@pytest.mark.parametrize(
    "item", [{"memory": "tea"}, {"memory": "tea", "depth": 1}, {"recall": "tea0"}]
)
async def test_what_read_cuts_is_read_on_by_read(item: Payload, agent: Agent) -> None:
    await agent.change(op="store", type="core", key="tea", content=LONG)
    record = await agent.read(item, max_tokens=1_000)
    pieces = [find_content(record)]

    while "next" in record:
        record = await agent.read(record["next"], max_tokens=1_000)
        pieces.append(find_content(record))

    assert len(pieces) > 1
    assert "".join(pieces) == LONG


def find_content(record: Payload) -> str:
    if "items" in record:
        (record,) = record["items"]

    content: str = record["content"]
    return content


async def test_answers_say_what_is_archived_or_deleted(agent: Agent) -> None:
    await agent.change(op="store", type="core", key="tea", content="Green tea.")

    archived = await agent.change(op="archive", key="tea")
    updated = await agent.change(op="update", key="tea", summary="A drink.")
    read = await agent.read({"memory": "tea"})
    walked = await agent.read({"memory": "tea", "depth": 1})
    (found,) = (await agent.call("recall", queries=["tea"], archived=True))["results"]
    deleted = await agent.change(op="delete", key="tea", permanent=True)

    assert archived["archived"] and updated["archived"] and read["archived"]
    assert walked["items"][0]["archived"]
    assert found["memories"][0]["archived"]
    assert deleted["deleted"]
    assert "archived" not in deleted


@pytest.mark.parametrize(
    "change",
    [
        {"op": "store", "type": "task", "content": "Coffee."},
        {"op": "update", "content": "Coffee.", "summary": "Not tea."},
        {"op": "append", "content": " And coffee."},
        {"op": "append", "content": "coffee " * 2_000},
        {"op": "link", "links": [{"key": "coffee"}]},
        {"op": "archive"},
        {"op": "delete", "permanent": True},
    ],
    ids=lambda change: change["op"],
)
@pytest.mark.parametrize("names_version", [True, False])
async def test_a_change_is_undone(names_version: bool, change: Payload, agent: Agent) -> None:
    before = await agent.change(op="store", type="core", key="tea", content="Green tea.")
    version = {"version": before["version"]} if names_version else {}

    changed = await agent.change(**change, key="tea")
    restored = await agent.change(op="restore", id=before["id"], **version)

    assert before["version"] < changed["version"] < restored["version"]
    assert restored["key"] == "tea"
    record = await agent.read({"memory": "tea", "total": 2})
    assert [item["content"] for item in record["items"]] == ["Green tea."]
    assert "archived" not in record["items"][0]


async def test_a_lean_agent_sees_what_there_is(agent: Agent) -> None:
    for key in ("project/plan", "project/goals", "other"):
        await agent.change(op="store", type="core", key=key, content="Tea.")

    record = await agent.read({"memory": "project/*"})

    assert [entry["key"] for entry in record["items"]] == ["project/goals", "project/plan"]


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("tools", [*PROFILES, *NAMES])
async def test_a_model_reads_of_no_ability_that_is_not_offered(
    tools: str, structured: bool, roots: Settings
) -> None:
    settings = roots.model_copy(update={"tools": (tools,), "structured": structured})

    async with (
        Abilities.open(settings) as abilities,
        Client(create_server(abilities)) as client,
    ):
        offered = {tool.name for tool in (await client.list_tools()).tools}
        texts = [tool.model_dump_json() for tool in (await client.list_tools()).tools]
        texts.append(client.instructions or "")
        for prompt in (await client.list_prompts()).prompts:
            texts.append(prompt.model_dump_json())
            if prompt.name in ("recall", "remember"):
                asked = {"recall": {"question": "q"}, "remember": {}}[prompt.name]
                filled = await client.get_prompt(prompt.name, asked)
                texts.append(filled.model_dump_json())

    named = {name for text in texts for name in NAMED.findall(text)}
    assert named.intersection(NAMES) <= offered


def test_no_fault_names_an_ability() -> None:
    messages = " ".join(meaning.message for meaning in FAULTS.values())

    assert set(NAMED.findall(messages)).isdisjoint(NAMES)


def test_of_the_abilities_that_read_on_the_first_one_offered_is_named() -> None:
    recall = load_built_in("recall")

    assert "memory_read_bulk" not in schemas.build_declaration(recall)["mcp"]["description"]
    assert recall.describe_beside(["recall"]) is recall
    for offered, named in (
        (["read", "memory_read_bulk"], "send its next to read as an item"),
        (["memory_read_bulk"], "send its next to memory_read_bulk"),
    ):
        assert recall.describe_beside(offered).description.count("send its next") == 1
        assert named in recall.describe_beside(offered).description
