"""LlamaIndex: agents with a scripted model, in parity with the application."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.tools.calling import call_tool
from llama_index.core.workflow import Context

from abilities import Abilities, Settings
from abilities.adapters.llama_index import load_tools
from tests.adapters import parity
from tests.adapters.parity import Call, Seen
from tests.support.catalog import BUILT_IN

# The framework's agents look at all attributes of theirs, old ones of pydantic among them.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


class Script:
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


async def through_sync_calls(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    tools = {tool.metadata.name: tool for tool in load_tools(abilities)}
    outputs = [
        await asyncio.to_thread(call_tool, tools[call.name], call.arguments) for call in calls
    ]
    return [to_seen(output) for output in outputs]


@pytest.mark.parametrize("through", [through_agents, through_sync_calls])
async def test_a_model_sees_what_the_application_answers(through: Any, tmp_path: Path) -> None:
    await parity.check_parity(through, tmp_path)


async def test_what_frameworks_use_themselves_may_name_an_argument(settings: Settings) -> None:
    names = ("ctx", "context", "args", "function", "tool", "input")

    wrong = await run(load_tools(settings), *(Call("file_list", {name: 1}) for name in names))

    reasons = [json.loads(output.content)["error"]["reason"] for output in wrong]
    assert reasons == ["unknown_argument"] * len(names)


def test_a_model_is_offered_each_schema_as_it_is() -> None:
    tools = load_tools()
    for _ in range(2):
        offered = [tool.metadata.to_openai_tool()["function"] for tool in tools]
        parity.check_functions(offered)
        offered[0]["parameters"].clear()  # as clients do that adapt it

    assert [tool.metadata.fn_schema for tool in tools] == [ability.input for ability in BUILT_IN]


async def test_the_namespace_is_that_of_the_runs_context(tenants: Settings) -> None:
    tools = load_tools(tenants)

    for context, namespace in (
        ({}, "default"),
        ({"namespace": "ada"}, "ada"),
        ({"namespace": 42}, "42"),
    ):
        (output,) = await run(tools, parity.WHO, context=context)
        assert output.content.split()[-1] == namespace

    for wrong in (None, "", "../ada"):  # agents give every exception of a tool to the model
        (output,) = await run(tools, parity.WHO, context={"namespace": wrong})
        assert output.is_error
        assert output.content.startswith("a namespace is 1 to 128")
        assert isinstance(output.exception, ValueError)

    (output,) = await run(load_tools(tenants, require_namespace=True), parity.WHO, context={})
    assert output.is_error
    assert "require_namespace is set: set 'namespace' in the store" in output.content
