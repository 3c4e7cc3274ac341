"""LangChain: the standard suites, kinds of agent, namespaces, event loops, the retriever."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

import orjson
import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel
from typing_extensions import TypedDict

from abilities import Abilities, AbilityError, Settings
from abilities.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool
from abilities.adapters.deepagents import create_backend
from abilities.adapters.langchain import AbilitiesToolkit, load_tools
from abilities.adapters.langgraph_store import AbilitiesStore
from abilities.adapters.retriever import AbilitiesRetriever
from tests.adapters.parity import make_tenants
from tests.support.catalog import BUILT_IN
from tests.support.scripted import ToolCall, find_answers, script_model
from tests.support.surfaces import with_changes

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
    reading = [ability.name for ability in BUILT_IN if ability.read_only]
    toolkit = AbilitiesToolkit.load(read_only=True)
    assert [tool.name for tool in toolkit.get_tools()] == reading


CALLS: list[ToolCall] = [
    ("file_read_bulk", {"paths": ["ok.txt", "none"]}),
    ("file_read_bulk", {"paths": []}),
    ("memory_read_bulk", {"targets": [{"type": "long_term"}]}),
]


ASKED = [HumanMessage("Read.")]


def build_tool_node(tools: Sequence[BaseTool]) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    return graph.compile()


@pytest.mark.parametrize("kind", ["agent", "deep agent", "without an event loop", "tool node"])
async def test_an_agent_survives_a_wrong_call_and_goes_on(kind: str, settings: Settings) -> None:
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


def test_a_wrong_namespace_is_told_to_the_developer_not_to_the_model(settings: Settings) -> None:
    tool = load_reader(settings)
    wrongs: tuple[object, ...] = ("../ada", "", "a b", None, True, 1.5, "x" * 129)
    for namespace in wrongs:
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


def ask(tool: BaseTool, schema: type, context: Any, **configurable: object) -> str:
    """Return whose file LangChain's own agent reads; its model reads once, and is done."""

    def create() -> Any:
        return create_agent(script_model([WHO]), [tool], context_schema=schema)

    asked, config = {"messages": ASKED}, {"configurable": configurable}
    state = create().invoke(asked, config, context=context)
    later = asyncio.run(create().ainvoke(asked, config, context=context))
    (message,), (same,) = find_answers(state), find_answers(later)
    assert message.content == same.content
    return str(message.content).split()[-1]


def test_the_context_of_a_run_or_its_configuration_names_the_user(tenants: Settings) -> None:
    tool = load_reader(tenants)
    for schema, context, named, namespace in (
        (User, User("ada"), {}, "ada"),
        (UserModel, UserModel(namespace="ada"), {}, "ada"),
        (Fields, {"namespace": "ada"}, {}, "ada"),
        (Fields, {}, {}, "default"),
        (Fields, None, {}, "default"),
        (Fields, None, {"namespace": "ada"}, "ada"),
        (Fields, None, {"namespace": 42}, "42"),
        (Fields, None, {"namespace": "Ada"}, "%41da"),
        (User, User("ada"), {"namespace": "ada"}, "ada"),
    ):
        assert ask(tool, schema, context, **named) == namespace

    with pytest.raises(ValueError, match="name two namespaces"):
        ask(tool, User, User("ada"), namespace="bob")


@pytest.fixture
def tenants(tmp_path: Path) -> Settings:
    return make_tenants(tmp_path, "default", "ada", "bob", "42", "%41da")


WHO: ToolCall = ("file_read_bulk", {"paths": ["who.txt"]})


def load_reader(tenants: Settings, **more: Any) -> BaseTool:
    (tool,) = load_tools(tenants, only=["file_read_bulk"], **more)
    return tool


def test_a_namespace_may_be_required(tenants: Settings) -> None:
    tool = load_reader(tenants, require_namespace=True)

    assert ask(tool, User, User("ada")) == "ada"
    with pytest.raises(ValueError, match="require_namespace is set: pass context="):
        ask(tool, Fields, {})
    with pytest.raises(ValueError, match="require_namespace is set"):
        tool.invoke(WHO[1])


@pytest.mark.parametrize(
    "create", [AbilitiesRetriever, AbilitiesStore, MemoryTool, AsyncMemoryTool, create_backend]
)
def test_a_single_namespace_may_be_required(
    tenants: Settings, create: Callable[..., object]
) -> None:
    with pytest.raises(ValueError, match="require_namespace is set: pass namespace"):
        create(source=tenants, require_namespace=True)

    assert create(source=tenants, namespace="ada", require_namespace=True)


async def test_an_open_application_serves_all_callers_and_loops(settings: Settings) -> None:
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


def test_a_program_that_only_loads_and_calls_tools_ends(tmp_path: Path) -> None:
    script = (
        "from abilities.adapters.langchain import load_tools\n"
        'print(load_tools()[0].invoke({"paths": ["none"]})[:12])'
    )
    command = [sys.executable, "-c", script]

    done = subprocess.run(command, capture_output=True, timeout=120, check=True, cwd=tmp_path)

    assert done.stdout == b'{"results":[\n'


TEAS = [
    {"op": "store", "type": "core", "key": f"tea/{n}", "content": f"Green tea, kind {n}."}
    for n in range(10)
]
ADA = {
    "op": "store",
    "type": "learning",
    "key": "Ada",
    "content": "Ada drinks tea.",
    "tags": ["people"],
}


@pytest.fixture
async def abilities(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as opened:
        await opened.call("remember", {"operations": [*TEAS, ADA]})
        yield opened


class TestStandard(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _opened(self, abilities: Abilities) -> None:
        self._source = abilities

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return AbilitiesRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"source": self._source}

    @property
    def retriever_query_example(self) -> str:
        return "Which kind of green tea?"


async def test_documents_are_records_best_first(abilities: Abilities) -> None:
    retriever = AbilitiesRetriever(source=abilities, k=3)

    first, *others = await retriever.ainvoke("What does Ada drink, tea?")

    assert (first.page_content, first.id) == ("Ada drinks tea.", "Ada")
    assert first.metadata["key"] == "Ada" and first.metadata["type"] == "learning"
    assert first.metadata["score"] > others[0].metadata["score"]
    assert set(first.metadata) >= {"key", "score", "date", "type", "importance", "words"}
    assert await asyncio.to_thread(retriever.invoke, "What does Ada drink, tea?") == [
        first,
        *others,
    ]


async def test_notes_are_documents_too(roots: Settings) -> None:
    assert roots.agent_dir is not None
    Path(roots.agent_dir, "MEMORY.md").write_text("# Drinks\nAda had mate.\n")
    async with Abilities.open(roots) as abilities:
        (document,) = await AbilitiesRetriever(source=abilities).ainvoke("mate")

    assert "Ada had mate." in document.page_content
    assert document.id is None and document.metadata["filename"] == "MEMORY.md"


async def test_filters_are_arguments_of_recall_and_pages_follow(abilities: Abilities) -> None:
    async def find(question: str, **more: Any) -> list[str | None]:
        retriever = AbilitiesRetriever(source=abilities, **more)
        return [document.id for document in await retriever.ainvoke(question)]

    assert await find("tea", filters={"tags": ["people"]}) == ["Ada"]
    many = await find("tea", k=20, filters={"max_tokens": 400})
    assert len(set(many)) == len(many) == 11
    assert len(await find("tea " * 1_000)) == 4, "a long question is cut"
    assert await find("tea", namespace=42) == []
    with pytest.raises(AbilityError, match="INVALID_INPUT"):
        await find("tea", filters={"colour": "green"})


def test_settings_are_a_source_and_may_disable_recall(roots: Settings) -> None:
    without = with_changes(roots, disabled=("recall",))

    assert AbilitiesRetriever(source=roots).invoke("tea") == []
    with pytest.raises(AbilityError):
        AbilitiesRetriever(source=without).invoke("tea")
