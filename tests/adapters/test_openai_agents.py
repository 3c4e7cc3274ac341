"""The OpenAI Agents SDK: agents with a scripted model, in parity with the application."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, Tool, Usage
from agents.items import ToolCallOutputItem
from agents.models.chatcmpl_converter import Converter
from agents.models.interface import Model
from agents.models.openai_responses import Converter as ResponsesConverter
from agents.tracing import SpanData, Trace, TracingProcessor, set_trace_processors
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from abilities import Abilities, Settings
from abilities.adapters.openai_agents import load_tools
from tests.adapters import parity
from tests.adapters.parity import Call, Seen

WITHOUT_TRACE = RunConfig(tracing_disabled=True)


class Scripted(Model):
    def __init__(self, calls: Sequence[Call | tuple[str, str]]) -> None:
        self.calls = list(calls)
        self.inputs: list[Any] = []
        self.number = 0

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> ModelResponse:
        self.inputs.append(input)
        output: Any
        if self.number < len(self.calls):
            name, arguments = self.calls[self.number]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            output = ResponseFunctionToolCall(
                type="function_call", name=name, call_id=f"call-{self.number}", arguments=text
            )
        else:
            part = ResponseOutputText(type="output_text", text="Done.", annotations=[])
            output = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[part]
            )
        self.number += 1
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def run(
    tools: list[Tool], *calls: Call | tuple[str, str], context: object = None, **more: Any
) -> list[str]:
    """Let a scripted model make calls, and say that it is done; return what it saw of each."""
    model = Scripted(calls)
    agent = Agent(name="reader", model=model, tools=tools)
    more.setdefault("run_config", WITHOUT_TRACE)

    result = await Runner.run(agent, "Read.", context=context, max_turns=1_000, **more)

    outputs = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    seen = [
        item["output"] for item in model.inputs[-1] if item.get("type") == "function_call_output"
    ]
    assert outputs == seen
    assert result.final_output == "Done."
    return seen


async def through_agents(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    return [Seen(text) for text in await run(load_tools(abilities), *calls)]


async def test_a_model_sees_what_the_application_answers(tmp_path: Path) -> None:
    await parity.check_parity(through_agents, tmp_path)


async def test_arguments_that_are_not_json_are_told_to_the_model(settings: Settings) -> None:
    calls = [("file_list", text) for text in ('{"pattern": ', "")]

    wrong, nothing = await run(load_tools(settings), *calls)

    assert json.loads(wrong)["error"]["message"] == "The arguments must be an object."
    assert "a.txt" in nothing


@pytest.mark.usefixtures("default_loop")
def test_an_agent_without_an_event_loop_does_the_same(tenants: Settings) -> None:
    agent = Agent(name="reader", model=Scripted([parity.WHO]), tools=load_tools(tenants))

    result = Runner.run_sync(agent, "Who?", run_config=WITHOUT_TRACE)

    assert result.final_output == "Done."


def test_a_model_is_offered_each_schema_as_it_is() -> None:
    tools = load_tools()
    chat: list[Any] = [Converter.tool_to_openai(tool)["function"] for tool in tools]
    responses: Any = ResponsesConverter.convert_tools(tools, []).tools

    for offered in (chat, responses):
        parity.check_functions(offered)
        assert not any(each["strict"] for each in offered)


@dataclass
class User:
    namespace: object


async def test_the_namespace_is_that_of_the_runs_context(tenants: Settings) -> None:
    async def ask(context: Any) -> str:
        (text,) = await run(load_tools(tenants), parity.WHO, context=context)
        return text

    named = [(None, "default"), (User("ada"), "ada"), ({"namespace": 42}, "42")]
    await parity.check_namespaces(ask, named, [User(None), {"namespace": "../ada"}])

    with pytest.raises(Exception, match=r"require_namespace is set: give Runner\.run"):
        await run(load_tools(tenants, require_namespace=True), parity.WHO)


class Spans(TracingProcessor):
    def __init__(self) -> None:
        self.errors: list[Any] = []

    def on_span_end(self, span: Any) -> None:
        data: SpanData = span.span_data
        if data.type == "function":
            self.errors.append(span.error)

    def on_span_start(self, span: Any) -> None: ...
    def on_trace_start(self, trace: Trace) -> None: ...
    def on_trace_end(self, trace: Trace) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


async def test_the_trace_says_which_calls_failed(settings: Settings) -> None:
    spans = Spans()
    set_trace_processors([spans])

    await run(load_tools(settings), parity.READ, parity.WRONG, run_config=RunConfig())

    failed = {"message": "INVALID_INPUT", "data": {"tool_name": parity.WRONG.name}}
    assert spans.errors == [None, failed]
