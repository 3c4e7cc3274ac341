"""pydantic-ai: agents with a scripted model, in parity with the application."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, Tool, UsageLimits
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.toolsets import FunctionToolset

from abilities import Abilities, Settings
from abilities.adapters.pydantic_ai import load_tools
from tests.adapters import parity
from tests.adapters.parity import Call, Seen

UNBOUND = UsageLimits(request_limit=None)


class Script:
    def __init__(self, calls: Sequence[Call | tuple[str, Any]]) -> None:
        self.calls = list(calls)
        self.number = 0
        self.messages: list[ModelMessage] = []
        self.offered: list[Any] = []

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.messages, self.offered = messages, info.function_tools
        self.number += 1
        if self.number > len(self.calls):
            return ModelResponse(parts=[TextPart("Done.")])

        name, arguments = self.calls[self.number - 1]
        return ModelResponse(parts=[ToolCallPart(name, arguments)])

    def list_returns(self) -> list[ToolReturnPart]:
        requests = [message for message in self.messages if isinstance(message, ModelRequest)]
        parts = [part for request in requests for part in request.parts]
        return [part for part in parts if isinstance(part, ToolReturnPart)]


async def run(
    tools: list[Tool[Any]], *calls: Call | tuple[str, Any], deps: object = None
) -> list[ToolReturnPart]:
    """Let a scripted model make calls, and say that it is done; return what it saw of each."""
    script = Script(calls)
    agent = Agent(FunctionModel(script), tools=tools, deps_type=object)

    result = await agent.run("Read.", deps=deps, usage_limits=UNBOUND)

    assert result.output == "Done."
    return script.list_returns()


async def through_agents(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    parts = await run(load_tools(abilities), *calls)
    return [
        Seen(part.model_response_str(wrap_if_error=False), part.metadata, part.outcome == "failed")
        for part in parts
    ]


async def test_a_model_sees_what_the_application_answers(tmp_path: Path) -> None:
    await parity.check_parity(through_agents, tmp_path)


async def test_what_frameworks_use_themselves_may_name_an_argument(settings: Settings) -> None:
    names = ("self", "function", "context", "ctx", "namespace", "arguments")

    wrong = await run(load_tools(settings), *(("file_list", {name: 1}) for name in names))

    assert [json.loads(str(part.content))["error"]["reason"] for part in wrong] == [
        "unknown_argument"
    ] * len(names)


@pytest.mark.parametrize("arguments", ["[]", "5", '{"pattern": '])
async def test_arguments_that_are_no_object_are_told(arguments: str, settings: Settings) -> None:
    wrong, right = await run(load_tools(settings), ("file_list", arguments), ("file_list", None))

    assert wrong.outcome in ("failed", "retried")
    assert right.outcome == "success"


@pytest.mark.usefixtures("default_loop")
def test_an_agent_without_an_event_loop_does_the_same(tenants: Settings) -> None:
    agent = Agent(
        FunctionModel(Script([parity.WHO])), toolsets=[FunctionToolset(load_tools(tenants))]
    )

    assert agent.run_sync("Who?").output == "Done."


async def test_a_model_is_offered_each_schema_as_it_is(settings: Settings) -> None:
    script = Script([])
    await Agent(FunctionModel(script), tools=load_tools(settings)).run("Nothing.")

    tools = script.offered
    parity.check_offered(
        {tool.name: (tool.description, tool.parameters_json_schema) for tool in tools}
    )
    for tool in tools:
        # What OpenAI's models get says the same; an object without fields is written differently.
        openai = OpenAIJsonSchemaTransformer(tool.parameters_json_schema, strict=tool.strict)
        assert drop_empty_fields(openai.walk()) == drop_empty_fields(tool.parameters_json_schema)


def drop_empty_fields(schema: Any) -> Any:
    if isinstance(schema, list):
        return [drop_empty_fields(value) for value in schema]
    if not isinstance(schema, dict):
        return schema

    return {
        key: drop_empty_fields(value)
        for key, value in schema.items()
        if (key, value) != ("properties", {})
    }


@dataclass
class User:
    namespace: object


async def test_the_namespace_is_that_of_the_runs_deps(tenants: Settings) -> None:
    async def ask(deps: Any) -> str:
        (part,) = await run(load_tools(tenants), parity.WHO, deps=deps)
        return str(part.content)

    named = [(None, "default"), (User("ada"), "ada"), ({"namespace": 42}, "42")]
    await parity.check_namespaces(ask, named, [User(None), {"namespace": "../ada"}])

    with pytest.raises(ValueError, match=r"require_namespace is set: give agent\.run"):
        await run(load_tools(tenants, require_namespace=True), parity.WHO)


async def test_a_wrong_call_may_be_repeated_beyond_an_agents_retries(settings: Settings) -> None:
    parts = await run(load_tools(settings), *[parity.WRONG] * 4)

    assert [part.outcome for part in parts] == ["failed"] * 4
