"""LangChain: the standard suites per tool, three kinds of agent, namespaces, event loops."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

import orjson
import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel
from typing_extensions import TypedDict

from abilities import Abilities, Settings
from abilities.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool
from abilities.adapters.langchain import AbilitiesToolkit, load_tools
from abilities.adapters.langgraph_store import AbilitiesStore
from abilities.adapters.retriever import AbilitiesRetriever
from tests.support.catalog import BUILT_IN
from tests.support.scripted import ToolCall, find_answers, script_model

KNOWN = "00000000-0000-4000-8000-000000000000"
"""Stands for the id of the memory that a test knows."""
EXAMPLES: dict[str, dict[str, Any]] = {
    "file_read_bulk": {"paths": ["pyproject.toml#L1-L3", "none"]},
    "memory_read_bulk": {"targets": [{"type": "long_term"}]},
    "bulk_read_memory": {"key": "known", "depth": 1},
    "memory_get": {"key": "known"},
    "store_memory": {"type": "core", "content": "text", "key": "known"},
    "query_memories": {"search": "text"},
    "update_memory": {"id": KNOWN, "content": "text"},
    "delete_memory": {"id": KNOWN},
    "get_memory_stats": {},
    "file_list": {"pattern": "*.toml"},
    "read": {"items": ["pyproject.toml#L1-L3", {"memory": "known"}, {"note": "today"}]},
    "recall": {"queries": ["known text"]},
    "remember": {"operations": [{"op": "append", "key": "known", "content": "more"}]},
    "memory_list": {"prefix": "kn"},
    "memory_history": {"key": "known"},
    "memory_restore": {"key": "known", "version": 1},
    "memory_changes": {"since": 0},
}


QUICK = ("file_read_bulk", "update_memory", "remember")
"""The tools whose standard tests run also in the quick tier."""


def build_standard_tests(name: str) -> list[type]:
    """Return the standard unit and integration suites for a tool, whose example has its memory."""

    class Example:
        _settings: Settings | None = None
        _id = KNOWN

        @property
        def tool_constructor(self) -> BaseTool:
            (tool,) = load_tools(self._settings, only=[name])
            return tool

        @property
        def tool_invoke_params_example(self) -> dict[str, Any]:
            example = EXAMPLES[name]
            return {**example, "id": self._id} if "id" in example else example

    class StoredExample(Example):
        @pytest.fixture(autouse=True)
        def _known_memory(self, tmp_path: Path) -> None:
            self._settings = Settings(store_url=f"sqlite:///{tmp_path}/memory.db")
            (store,) = load_tools(self._settings, only=["store_memory"])
            reply = store.invoke({"type": "core", "content": "text", "key": "known"})
            self._id = orjson.loads(reply)["id"]

    marks = {"pytestmark": [] if name in QUICK else [pytest.mark.thorough]}
    return [
        type(f"TestUnit_{name}", (Example, ToolsUnitTests), marks),
        type(f"TestIntegration_{name}", (StoredExample, ToolsIntegrationTests), marks),
    ]


for _name in EXAMPLES:
    for _suite in build_standard_tests(_name):
        globals()[_suite.__name__] = _suite


def test_every_tool_has_its_standard_tests() -> None:
    assert list(EXAMPLES) == [tool.name for tool in load_tools()]


CALLS: list[ToolCall] = [
    ("file_read_bulk", {"paths": ["ok.txt", "none"]}),
    ("file_read_bulk", {"paths": []}),
    ("memory_read_bulk", {"targets": [{"type": "long_term"}]}),
]


ASKED = [HumanMessage("Read.")]


def build_tool_node(tools: Sequence[BaseTool]) -> Any:
    """Return a graph that makes the calls of a message, and nothing else."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    return graph.compile()


@pytest.mark.parametrize("kind", ["agent", "deep agent", "without an event loop", "tool node"])
async def test_an_agent_reads_survives_a_wrong_call_and_goes_on(
    kind: str, settings: Settings
) -> None:
    tools, model = load_tools(settings), script_model(CALLS)

    if kind == "tool node":
        state = await build_tool_node(tools).ainvoke({"messages": [next(model.messages)]})
    elif kind == "without an event loop":
        agent: Any = create_agent(model, tools)
        state = await asyncio.to_thread(agent.invoke, {"messages": ASKED})
    else:
        create: Any = create_deep_agent if kind == "deep agent" else create_agent
        state = await create(model=model, tools=tools).ainvoke({"messages": ASKED})

    read, wrong, notes = find_answers(state)
    assert [record["success"] for record in read.artifact["results"]] == [True, False]
    assert (read.status, wrong.status) == ("success", "error")
    assert '"INVALID_INPUT"' in str(wrong.content)
    assert notes.artifact["results"][0]["data"]["content"] == "# Memory\n- likes tea\n"
    assert kind == "tool node" or state["messages"][-1].content == "Done."


def test_tools_are_chosen_by_name_and_by_what_they_do(settings: Settings) -> None:
    toolkit = AbilitiesToolkit.load(settings, read_only=True)
    reading = [ability.name for ability in BUILT_IN if ability.read_only]

    assert [tool.name for tool in toolkit.get_tools()] == reading
    assert [tool.name for tool in load_tools(settings, only=["recall"])] == ["recall"]
    with pytest.raises(KeyError):
        load_tools(settings, only=["no_such_tool"])
    with pytest.raises(ValueError, match="the whole disk"):
        load_tools(Settings(workspace_dir=Path("/")))


@pytest.mark.parametrize("namespace", ["../ada", "", "a b", None, True, 1.5, "x" * 129])
def test_a_wrong_namespace_is_told_to_the_developer_and_not_to_the_model(
    settings: Settings, namespace: object
) -> None:
    tool = load_reader(settings)
    config: RunnableConfig = {"configurable": {"namespace": namespace}}
    call = next(script_model([WHO]).messages)

    with pytest.raises(ValueError, match="a namespace is 1 to 128"):
        tool.invoke(WHO[1], config)
    with pytest.raises(ValueError, match="a namespace is 1 to 128"):
        build_tool_node([tool]).invoke({"messages": [call]}, config)


@dataclass
class User:
    namespace: str
    name: str = "Ada"


class UserModel(BaseModel):
    namespace: str


class Fields(TypedDict):
    namespace: NotRequired[str]


@pytest.fixture
def tenants(tmp_path: Path) -> Settings:
    for namespace in ("default", "ada", "bob", "42", "%41da"):
        (tmp_path / namespace).mkdir()
        (tmp_path / namespace / "who.txt").write_text(namespace)

    template = tmp_path / "{namespace}"
    return Settings(agent_dir=template, workspace_dir=template)


WHO: ToolCall = ("file_read_bulk", {"paths": ["who.txt"]})


def load_reader(tenants: Settings, **more: Any) -> BaseTool:
    (tool,) = load_tools(tenants, only=["file_read_bulk"], **more)
    return tool


def create_reader(tool: BaseTool, context_schema: type) -> Any:
    """Return LangChain's own agent; its model reads once, and is done."""
    return create_agent(script_model([WHO]), [tool], context_schema=context_schema)


def find_reader(state: dict[str, Any]) -> str:
    (message,) = find_answers(state)
    return str(message.content).split()[-1]


@pytest.mark.parametrize(
    ("configurable", "namespace"),
    [
        ({}, "default"),
        ({"namespace": "ada"}, "ada"),
        ({"namespace": 42}, "42"),
        ({"namespace": "Ada"}, "%41da"),
    ],
)
def test_the_namespace_comes_from_the_runs_configuration(
    configurable: dict[str, Any], namespace: str, tenants: Settings
) -> None:
    text = load_reader(tenants).invoke(WHO[1], {"configurable": configurable})

    assert text.endswith(f"\n{namespace}\n")


@pytest.mark.parametrize(
    ("schema", "context", "namespace"),
    [
        (User, User("ada"), "ada"),
        (UserModel, UserModel(namespace="ada"), "ada"),
        (Fields, {"namespace": "ada"}, "ada"),
        (Fields, {}, "default"),
        (Fields, None, "default"),
    ],
)
def test_the_context_of_a_run_names_the_user(
    tenants: Settings, schema: type, context: object, namespace: str
) -> None:
    tool = load_reader(tenants)

    state = create_reader(tool, schema).invoke({"messages": ASKED}, context=context)
    later = create_reader(tool, schema).ainvoke({"messages": ASKED}, context=context)

    assert find_reader(state) == find_reader(asyncio.run(later)) == namespace


def test_context_and_configuration_may_name_one_user_and_not_two(tenants: Settings) -> None:
    def read_as(name: str) -> str:
        config: RunnableConfig = {"configurable": {"namespace": name}}
        agent = create_reader(load_reader(tenants), User)
        return find_reader(agent.invoke({"messages": ASKED}, config, context=User("ada")))

    assert read_as("ada") == "ada"
    with pytest.raises(ValueError, match="name two namespaces"):
        read_as("bob")


def test_a_namespace_may_be_required(tenants: Settings) -> None:
    tool = load_reader(tenants, require_namespace=True)

    state = create_reader(tool, User).invoke({"messages": ASKED}, context=User("ada"))

    assert find_reader(state) == "ada"
    with pytest.raises(ValueError, match="require_namespace is set: pass context="):
        create_reader(tool, Fields).invoke({"messages": ASKED}, context={})
    with pytest.raises(ValueError, match="require_namespace is set"):
        tool.invoke(WHO[1])


@pytest.mark.parametrize(
    "create",
    [AbilitiesRetriever, AbilitiesStore, MemoryTool, AsyncMemoryTool],
)
def test_what_serves_one_namespace_may_require_it(
    tenants: Settings, create: Callable[..., object]
) -> None:
    with pytest.raises(ValueError, match="require_namespace is set: pass namespace"):
        create(source=tenants, require_namespace=True)

    assert create(source=tenants, namespace="ada", require_namespace=True)


async def test_an_open_application_serves_sync_and_async_callers_and_other_loops(
    settings: Settings,
) -> None:
    async with Abilities.open(settings) as abilities:
        (tool,) = load_tools(abilities, only=["file_read_bulk"])
        expected = await tool.ainvoke({"paths": ["ok.txt"]})
        assert tool.invoke({"paths": ["ok.txt"]}) == expected, "even on the loop that opened it"

        def call_on_another_loop() -> Any:
            return asyncio.run(tool.ainvoke({"paths": ["ok.txt"]}))

        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(call_on_another_loop) for _ in range(8)]
            futures += [pool.submit(tool.invoke, {"paths": ["ok.txt"]}) for _ in range(8)]
            answers = await asyncio.gather(*map(asyncio.wrap_future, futures))

        assert answers == [expected] * 16


async def test_a_cancelled_call_ends_at_once(settings: Settings) -> None:
    (tool,) = load_tools(settings, only=["file_read_bulk"])
    for _ in range(20):
        task = asyncio.create_task(tool.ainvoke({"paths": ["ok.txt"] * 25}))
        await asyncio.sleep(0)  # lets the call begin
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert (await tool.ainvoke({"paths": ["ok.txt"]})).endswith("\nfine\n\n")


def test_a_program_that_only_loads_and_calls_tools_ends(tmp_path: Path) -> None:
    script = """
        from abilities.adapters.langchain import load_tools
        print(load_tools()[0].invoke({"paths": ["none"]})[:12])
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]

    done = subprocess.run(command, capture_output=True, timeout=120, check=True, cwd=tmp_path)

    assert done.stdout == b'{"results":[\n'
