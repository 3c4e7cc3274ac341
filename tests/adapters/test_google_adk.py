"""Google ADK: agents with a scripted model, in parity with the application."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, BaseTool
from google.genai import types

from abilities import Abilities, Settings
from abilities.adapters.google_adk import load_tools
from tests.adapters import parity
from tests.adapters.parity import Call, Seen


class Scripted(BaseLlm):
    model: str = "scripted"
    calls: list[Call]
    requests: list[LlmRequest] = []  # noqa: RUF012 (pydantic copies it)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request)
        number = len(self.requests) - 1
        if number < len(self.calls):
            name, arguments = self.calls[number]
            part = types.Part(function_call=types.FunctionCall(name=name, args=arguments))
        else:
            part = types.Part(text="Done.")

        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def run(
    tools: Sequence[BaseTool], *calls: Call, state: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Let a scripted model make calls, and say that it is done; return what it saw of each."""
    model = Scripted(calls=list(calls))
    agent = LlmAgent(name="reader", model=model, tools=list(tools))
    runner = InMemoryRunner(agent, app_name="test")
    session = await runner.session_service.create_session(
        app_name="test", user_id="user", state=state
    )

    last: str | None = None
    message = types.UserContent("Read.")
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        if event.content and event.content.parts:  # an error has none
            last = event.content.parts[0].text

    assert last == "Done."
    return find_responses(model.requests[-1])


def find_responses(request: LlmRequest) -> list[dict[str, Any]]:
    parts = [part for content in request.contents for part in content.parts or ()]
    return [part.function_response.response for part in parts if part.function_response]


async def through_an_agent(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    responses = await run(load_tools(abilities), *calls)
    pairs = [pair for response in responses for pair in response.items()]
    return [Seen(text, failed=kind == "error") for kind, text in pairs]


async def test_a_model_sees_what_the_application_answers(tmp_path: Path) -> None:
    await parity.check_parity(through_an_agent, tmp_path)


async def test_a_model_is_offered_each_schema_as_it_is() -> None:
    model = Scripted(calls=[])
    runner = InMemoryRunner(LlmAgent(name="reader", model=model, tools=load_tools()))
    await runner.run_debug("Read.", quiet=True)

    tools: Any = model.requests[0].config.tools
    (tool,) = tools
    declarations = tool.function_declarations
    parity.check_offered(
        {each.name: (each.description, each.parameters_json_schema) for each in declarations}
    )
    assert all(each.parameters is None for each in declarations)


async def test_the_namespace_is_in_the_state_of_the_session(tenants: Settings) -> None:
    async def ask(state: Any) -> str:
        (answer,) = await run(load_tools(tenants), parity.WHO, state=state)
        return str(answer["result"])

    named = [(None, "default"), ({"namespace": "ada"}, "ada"), ({"namespace": 42}, "42")]
    await parity.check_namespaces(ask, named, parity.WRONG_NAMESPACES)

    with pytest.raises(ValueError, match="require_namespace is set: set 'namespace' in the state"):
        await run(load_tools(tenants, require_namespace=True), parity.WHO)


async def test_an_agent_that_is_a_tool_has_the_namespace_of_its_caller(tenants: Settings) -> None:
    inner = Scripted(calls=[parity.WHO])
    reader = LlmAgent(name="reader", description="", model=inner, tools=load_tools(tenants))

    await run([AgentTool(reader)], Call("reader", {"request": "Who?"}), state={"namespace": "ada"})

    (answer,) = find_responses(inner.requests[-1])
    assert answer["result"].split()[-1] == "ada"
