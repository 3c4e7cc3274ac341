"""The profile `lean`: four tools, and nothing that leads to one which is not offered."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client

from abilities import Abilities, Settings, parse_text
from abilities.adapters.mcp import create_server
from abilities.builtin.index import NAMES, PROFILES
from abilities.declarations.refusals import FAULTS

Payload = dict[str, Any]

LONG = " ".join(f"tea{number}" for number in range(600))

NAMED = re.compile(r"[a-z]+(?:_[a-z]+)+")
"""What could be the name of an ability of several words."""


class Agent:
    """Calls tools, and reads what a model reads."""

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities

    async def call(self, name: str, **arguments: Any) -> Payload:
        reply = await self._abilities.reply(name, arguments, for_model=True)
        assert not reply.failed, reply.text
        return parse_text(reply.text)

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


@pytest.mark.parametrize("kind", ["a memory", "a note"])
async def test_what_recall_cuts_is_read_on_by_read(
    kind: str, agent: Agent, roots: Settings
) -> None:
    if kind == "a memory":
        await agent.change(op="store", type="core", key="tea", content=LONG)
    else:
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
    pieces: list[str] = []
    following: Payload | None = item

    while following is not None:
        record = await agent.read(following, max_tokens=1_000)
        following = record.get("next")
        pieces.append(record.get("items", [record])[0]["content"])

    assert len(pieces) > 1
    assert "".join(pieces) == LONG


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


CHANGES: list[Payload] = [
    {"op": "store", "type": "task", "content": "Coffee."},
    {"op": "update", "content": "Coffee.", "summary": "Not tea."},
    {"op": "append", "content": " And coffee."},
    {"op": "append", "content": "coffee " * 2_000},
    {"op": "link", "links": [{"key": "coffee"}]},
    {"op": "archive"},
    {"op": "delete", "permanent": True},
]


@pytest.mark.parametrize("names_version", [True, False])
async def test_a_change_is_undone(names_version: bool, agent: Agent) -> None:
    for number, change in enumerate(CHANGES):
        key = f"tea{number}"
        before = await agent.change(op="store", type="core", key=key, content="Green tea.")
        version = {"version": before["version"]} if names_version else {}

        changed = await agent.change(**change, key=key)
        restored = await agent.change(op="restore", id=before["id"], **version)

        assert before["version"] < changed["version"] < restored["version"]
        assert restored["key"] == key
        record = await agent.read({"memory": key, "total": 2})
        assert [item["content"] for item in record["items"]] == ["Green tea."], change
        assert "archived" not in record["items"][0], change


@pytest.mark.parametrize("structured", [False, True])
async def test_a_model_reads_of_no_ability_that_is_not_offered(
    structured: bool, roots: Settings
) -> None:
    for tools in (*PROFILES, *NAMES):
        settings = roots.model_copy(update={"tools": (tools,), "structured": structured})

        async with (
            Abilities.open(settings) as abilities,
            Client(create_server(abilities)) as client,
        ):
            listed = (await client.list_tools()).tools
            texts = [client.instructions or "", *(tool.model_dump_json() for tool in listed)]
            for prompt in (await client.list_prompts()).prompts:
                texts.append(prompt.model_dump_json())
                asked = {"recall": {"question": "q"}, "remember": {}}.get(prompt.name)
                if asked is not None:
                    filled = await client.get_prompt(prompt.name, asked)
                    texts.append(filled.model_dump_json())

        named = {name for text in texts for name in NAMED.findall(text)}
        assert named.intersection(NAMES) <= {tool.name for tool in listed}, tools


def test_no_fault_names_an_ability() -> None:
    messages = " ".join(meaning.message for meaning in FAULTS.values())

    assert set(NAMED.findall(messages)).isdisjoint(NAMES)
