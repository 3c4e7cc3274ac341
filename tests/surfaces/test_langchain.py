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
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel
from typing_extensions import TypedDict, override

from abilities import Abilities, Settings
from abilities.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool
from abilities.adapters.langchain import AbilitiesToolkit, load_tools
from abilities.adapters.langgraph_store import AbilitiesStore
from abilities.adapters.retriever import AbilitiesRetriever

KNOWN = "known to the test"
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


def build_standard_tests(name: str) -> list[type]:
    """Return the standard unit and integration suites for a tool, whose example has its memory."""

    class Example:
        @pytest.fixture(autouse=True)
        def _known_memory(self, tmp_path: Path) -> None:
            self._settings = Settings(store_url=f"sqlite:///{tmp_path}/memory.db")
            (store,) = load_tools(self._settings, only=["store_memory"])
            reply = store.invoke({"type": "core", "content": "text", "key": "known"})
            self._id = orjson.loads(reply)["id"]

        @property
        def tool_constructor(self) -> BaseTool:
            (tool,) = load_tools(getattr(self, "_settings", Settings()), only=[name])
            return tool

        @property
        def tool_invoke_params_example(self) -> dict[str, Any]:
            example = EXAMPLES[name]
            return {**example, "id": self._id} if "id" in example else example

    suites = (("Unit", ToolsUnitTests), ("Integration", ToolsIntegrationTests))
    return [type(f"Test{kind}_{name}", (Example, suite), {}) for kind, suite in suites]


for _name in EXAMPLES:
    for _suite in build_standard_tests(_name):
        globals()[_suite.__name__] = _suite


def test_every_tool_has_its_standard_tests() -> None:
    assert list(EXAMPLES) == [tool.name for tool in load_tools()]


class Scripted(GenericFakeChatModel):
    """A chat model that sends the messages that it was created with."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Scripted":
        return self


def create_model(*calls: tuple[str, dict[str, Any]]) -> Scripted:
    """Return a model that makes these calls at once, and then says that it is done."""
    tool_calls = [
        {"id": f"call-{n}", "name": name, "args": arguments}
        for n, (name, arguments) in enumerate(calls)
    ]
    return Scripted(messages=iter([AIMessage("", tool_calls=tool_calls), AIMessage("Done.")]))


READ = ("file_read_bulk", {"paths": ["ok.txt", "none"]})
WRONG: tuple[str, dict[str, Any]] = ("file_read_bulk", {"paths": []})
NOTES = ("memory_read_bulk", {"targets": [{"type": "long_term"}]})


def check_messages(messages: list[Any]) -> None:
    read, wrong, notes = (message for message in messages if isinstance(message, ToolMessage))
    assert [record["success"] for record in read.artifact["results"]] == [True, False]
    assert read.status == "success"
    assert wrong.status == "error"
    assert '"INVALID_INPUT"' in str(wrong.content)
    assert notes.artifact["results"][0]["data"]["content"] == "# Memory\n- likes tea\n"
    assert messages[-1].content == "Done."


@pytest.mark.parametrize("create", [create_agent, create_deep_agent])
async def test_an_agent_reads_survives_a_wrong_call_and_goes_on(
    create: Any, settings: Settings
) -> None:
    agent = create(model=create_model(READ, WRONG, NOTES), tools=load_tools(settings))

    state = await agent.ainvoke({"messages": [HumanMessage("Read.")]})

    check_messages(state["messages"])


def test_an_agent_without_an_event_loop_does_the_same(settings: Settings) -> None:
    agent = create_agent(create_model(READ, WRONG, NOTES), load_tools(settings))

    state = agent.invoke({"messages": [HumanMessage("Read.")]})

    check_messages(state["messages"])


async def test_a_bare_tool_node_does_the_same(settings: Settings) -> None:
    model, tools = create_model(READ, WRONG, NOTES), load_tools(settings)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges(
        "think", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    graph.add_edge("tools", "think")

    state = await graph.compile().ainvoke({"messages": [HumanMessage("Read.")]})

    check_messages(state["messages"])


def test_tools_are_chosen_by_name_and_by_what_they_do(settings: Settings) -> None:
    assert len(load_tools(settings)) == 17
    assert [tool.name for tool in load_tools(settings, only=["memory_read_bulk"])] == [
        "memory_read_bulk"
    ]
    reading = [tool.name for tool in AbilitiesToolkit.load(settings, read_only=True).get_tools()]
    assert len(reading) == 12
    assert {"store_memory", "update_memory", "delete_memory"}.isdisjoint(reading)
    with pytest.raises(KeyError):
        load_tools(settings, only=["no_such_tool"])
    with pytest.raises(ValueError, match="the whole disk"):
        load_tools(Settings(workspace_dir=Path("/")))


def test_the_namespace_comes_from_the_runs_configuration(tmp_path: Path) -> None:
    for namespace in ("default", "ada", "42", "%41da"):
        (tmp_path / namespace).mkdir()
        (tmp_path / namespace / "who.txt").write_text(namespace)
    template = tmp_path / "{namespace}"
    (tool,) = load_tools(
        Settings(agent_dir=template, workspace_dir=template), only=["file_read_bulk"]
    )

    def read_who(**configurable: Any) -> str:
        return str(tool.invoke({"paths": ["who.txt"]}, {"configurable": configurable}))

    assert read_who().endswith("\ndefault\n")
    assert read_who(namespace="ada").endswith("\nada\n")
    assert read_who(namespace=42).endswith("\n42\n")
    assert read_who(namespace="Ada").endswith("\n%41da\n")


@pytest.mark.parametrize("namespace", ["../ada", "", "a b", None, True, 1.5, "x" * 129])
def test_a_wrong_namespace_is_told_to_the_developer_and_not_to_the_model(
    settings: Settings, namespace: object
) -> None:
    (tool,) = load_tools(settings, only=["file_read_bulk"])
    config: RunnableConfig = {"configurable": {"namespace": namespace}}
    calls = [{"name": "file_read_bulk", "args": {"paths": ["ok.txt"]}, "id": "1"}]
    agent = StateGraph(MessagesState)
    agent.add_node("tools", ToolNode([tool]))
    agent.add_edge(START, "tools")

    with pytest.raises(ValueError, match="a namespace is 1 to 128"):
        tool.invoke({"paths": ["ok.txt"]}, config)

    with pytest.raises(ValueError, match="a namespace is 1 to 128"):
        agent.compile().invoke({"messages": [AIMessage("", tool_calls=calls)]}, config)


@dataclass
class User:
    namespace: str
    name: str = "Ada"


class UserModel(BaseModel):
    namespace: str


class Fields(TypedDict):
    namespace: NotRequired[str]


class ScriptedModel(GenericFakeChatModel):
    @override
    def bind_tools(self, *_: object, **__: object) -> Runnable[Any, AIMessage]:
        return self


def create_reader(tools: list[BaseTool], context_schema: type) -> Any:
    """Return LangChain's own agent; its model reads once, and is done."""
    call = {"name": "file_read_bulk", "args": {"paths": ["who.txt"]}, "id": "1"}
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")]))
    return create_agent(model, tools, context_schema=context_schema)


def find_reader(result: dict[str, Any]) -> str:
    (message,) = [part for part in result["messages"] if isinstance(part, ToolMessage)]
    return str(message.content).split()[-1]


@pytest.fixture
def tenants(tmp_path: Path) -> Settings:
    for namespace in ("default", "ada", "bob"):
        (tmp_path / namespace).mkdir()
        (tmp_path / namespace / "who.txt").write_text(namespace)

    template = tmp_path / "{namespace}"
    return Settings(agent_dir=template, workspace_dir=template)


ASKED: dict[str, Any] = {"messages": [HumanMessage("Who am I?")]}


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
    tools = load_tools(tenants, only=["file_read_bulk"])

    result = create_reader(tools, schema).invoke(ASKED, context=context)
    later = asyncio.run(create_reader(tools, schema).ainvoke(ASKED, context=context))

    assert find_reader(result) == find_reader(later) == namespace


def test_context_and_configuration_may_name_one_user_and_not_two(tenants: Settings) -> None:
    tools = load_tools(tenants, only=["file_read_bulk"])
    same: RunnableConfig = {"configurable": {"namespace": "ada"}}
    other: RunnableConfig = {"configurable": {"namespace": "bob"}}

    result = create_reader(tools, User).invoke(ASKED, same, context=User("ada"))

    assert find_reader(result) == "ada"
    with pytest.raises(ValueError, match="name two namespaces"):
        create_reader(tools, User).invoke(ASKED, other, context=User("ada"))


def test_a_namespace_may_be_required(tenants: Settings) -> None:
    (tool,) = tools = load_tools(tenants, only=["file_read_bulk"], require_namespace=True)

    result = create_reader(tools, User).invoke(ASKED, context=User("ada"))

    assert find_reader(result) == "ada"
    with pytest.raises(ValueError, match="require_namespace is set: pass context="):
        create_reader(tools, Fields).invoke(ASKED, context={})
    with pytest.raises(ValueError, match="require_namespace is set"):
        tool.invoke({"paths": ["who.txt"]})


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
