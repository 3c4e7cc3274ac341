"""LlamaIndex: agents with a scripted model, in parity with the application."""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.tools.calling import acall_tool, call_tool
from llama_index.core.workflow import Context

from abilities import Abilities, Settings, schemas
from abilities.adapters.llama_index import load_tools
from tests.adapters.parity import READ, WRONG, Call, Seen, check_parity
from tests.support.catalog import BUILT_IN

# The framework's agents look at all attributes of theirs, old ones of pydantic among them.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")

WHO = Call("file_read_bulk", {"paths": ["who.txt"]})


class Script:
    """Makes one call after the other, and then says that it is done."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = list(calls)
        self.number = 0
        self.texts: list[str | None] = []
        self.model = MockFunctionCallingLLM(response_generator=self.answer)

    def answer(self, messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        self.texts = [message.content for message in messages if message.role == "tool"]
        self.number += 1
        if self.number > len(self.calls):
            return ChatMessage("Done.", role="assistant")

        name, arguments = self.calls[self.number - 1]
        call = ToolCallBlock(
            tool_call_id=f"call-{self.number}", tool_name=name, tool_kwargs=arguments
        )
        return ChatMessage(role="assistant", blocks=[call])


async def run(
    tools: list[FunctionTool], *calls: Call, context: dict[str, Any] | None = None
) -> list[ToolOutput]:
    """Let a scripted model make calls, and say that it is done; return what the tools put out."""
    script = Script(calls)
    agent = FunctionAgent(tools=[*tools], llm=script.model, streaming=False)
    own = Context(agent)
    for key, value in (context or {}).items():
        await own.store.set(key, value)

    result: Any = await agent.run("Read.", ctx=own, max_iterations=1_000)

    assert str(result) == "Done."
    outputs = [call.tool_output for call in result.tool_calls]
    assert [output.content for output in outputs] == script.texts
    return outputs


def to_seen(output: ToolOutput) -> Seen:
    return Seen(output.content, output.raw_output, output.is_error)


async def through_agents(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    return [to_seen(output) for output in await run(load_tools(abilities), *calls)]


async def through_calls(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    tools = {tool.metadata.name: tool for tool in load_tools(abilities)}
    outputs = [await acall_tool(tools[call.name], call.arguments) for call in calls]
    return [to_seen(output) for output in outputs]


async def through_sync_calls(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    tools = {tool.metadata.name: tool for tool in load_tools(abilities)}
    outputs = [
        await asyncio.to_thread(call_tool, tools[call.name], call.arguments) for call in calls
    ]
    return [to_seen(output) for output in outputs]


@pytest.mark.parametrize("through", [through_agents, through_calls, through_sync_calls])
async def test_a_model_sees_what_the_application_answers(through: Any, tmp_path: Path) -> None:
    await check_parity(through, tmp_path)


async def test_an_agent_reads_survives_a_wrong_call_and_goes_on(settings: Settings) -> None:
    read, wrong = await run(load_tools(settings), READ, WRONG)

    assert not read.is_error
    assert [record["success"] for record in read.raw_output["results"]] == [True, False]
    assert read.raw_input == READ.arguments
    assert wrong.is_error
    assert json.loads(wrong.content)["error"]["code"] == "INVALID_INPUT"


async def test_a_workflow_of_agents_does_the_same(settings: Settings) -> None:
    script = Script([READ, WRONG])
    tools = load_tools(settings)
    agent = FunctionAgent(name="reader", tools=[*tools], llm=script.model, streaming=False)

    result: Any = await AgentWorkflow(agents=[agent]).run("Read.")

    assert str(result) == "Done."
    assert [call.tool_output.is_error for call in result.tool_calls] == [False, True]


@pytest.mark.parametrize("name", ["ctx", "context", "args", "function", "tool", "input"])
async def test_what_frameworks_use_themselves_may_be_the_name_of_an_argument(
    name: str, settings: Settings
) -> None:
    (wrong,) = await run(load_tools(settings), Call("file_list", {name: 1}))

    assert json.loads(wrong.content)["error"]["reason"] == "unknown_argument"


def test_a_model_is_offered_each_schema_as_it_is() -> None:
    for tool, ability in zip(load_tools(), BUILT_IN, strict=True):
        offered = tool.metadata.to_openai_tool()["function"]
        assert offered == {
            "name": ability.name,
            "description": ability.description,
            "parameters": schemas.build_input_schema(ability),
        }

        offered["parameters"].clear()  # as clients do that adapt it
        assert tool.metadata.get_parameters_dict() == schemas.build_input_schema(ability)
        assert tool.metadata.fn_schema is ability.input


async def test_the_namespace_is_that_of_the_runs_context(tenants: Settings) -> None:
    tools = load_tools(tenants)

    for context, namespace in (
        ({}, "default"),
        ({"namespace": "ada"}, "ada"),
        ({"namespace": 42}, "42"),
    ):
        (output,) = await run(tools, WHO, context=context)
        assert output.content.split()[-1] == namespace

    for wrong in (None, "", "../ada"):  # agents give every exception of a tool to the model
        (output,) = await run(tools, WHO, context={"namespace": wrong})
        assert output.is_error
        assert output.content.startswith("a namespace is 1 to 128")
        assert isinstance(output.exception, ValueError)

    (output,) = await run(load_tools(tenants, require_namespace=True), WHO, context={})
    assert output.is_error
    assert "require_namespace is set: set 'namespace' in the store" in output.content


async def test_tools_work_on_several_loops(settings: Settings) -> None:
    tools = load_tools(settings)

    async def call() -> list[str]:
        return [output.content for output in await run(tools, READ, WRONG)]

    expected = await call()
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(lambda: asyncio.run(call())) for _ in range(4)]
        futures += [
            pool.submit(lambda: [tools[0].call(**READ.arguments).content, expected[1]])
            for _ in range(4)
        ]
        answers = await asyncio.gather(*map(asyncio.wrap_future, futures))

    assert tools[0].metadata.name == READ.name
    assert answers == [expected] * 8


async def test_a_cancelled_call_ends_and_the_next_one_answers(settings: Settings) -> None:
    tools = load_tools(settings)
    for pause in range(20):
        task = asyncio.create_task(tools[0].acall(**READ.arguments))
        for _ in range(pause):
            await asyncio.sleep(0)
        if task.cancel():  # it has not ended yet
            with pytest.raises(asyncio.CancelledError):
                await task

    assert not (await tools[0].acall(**READ.arguments)).is_error
