"""Google ADK: agents with a scripted model, in parity with the application."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, BaseTool
from google.genai import types

from abilities import Abilities, Settings, schemas
from abilities.adapters.google_adk import load_tools
from tests.adapters.parity import READ, WRONG, Call, Seen, check_parity
from tests.support.catalog import BUILT_IN

WHO = Call("file_read_bulk", {"paths": ["who.txt"]})


class Scripted(BaseLlm):
    """Makes one call after the other, and then says that it is done."""

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
) -> tuple[str | None, list[dict[str, Any]]]:
    """Let a scripted model make calls; return its last words, and what it saw of each call."""
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

    return last, find_responses(model.requests[-1])


def find_responses(request: LlmRequest) -> list[dict[str, Any]]:
    parts = [part for content in request.contents for part in content.parts or ()]
    return [part.function_response.response for part in parts if part.function_response]


async def through_an_agent(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    _, responses = await run(load_tools(abilities), *calls)
    pairs = [pair for response in responses for pair in response.items()]
    return [Seen(text, failed=kind == "error") for kind, text in pairs]


async def test_a_model_sees_what_the_application_answers(tmp_path: Path) -> None:
    await check_parity(through_an_agent, tmp_path)


async def test_an_agent_reads_survives_a_wrong_call_and_goes_on(settings: Settings) -> None:
    last, (read, wrong) = await run(load_tools(settings), READ, WRONG)

    assert last == "Done."
    assert list(read) == ["result"] and '"succeeded":1,"failed":1' in read["result"]
    assert list(wrong) == ["error"] and '"INVALID_INPUT"' in wrong["error"]


async def test_a_model_is_offered_each_schema_as_it_is() -> None:
    model = Scripted(calls=[])
    runner = InMemoryRunner(LlmAgent(name="reader", model=model, tools=load_tools()))
    await runner.run_debug("Read.", quiet=True)

    tools: Any = model.requests[0].config.tools
    (tool,) = tools
    offered = {declared.name: declared for declared in tool.function_declarations}
    for ability in BUILT_IN:
        declared = offered[ability.name]
        assert declared.parameters_json_schema == schemas.build_input_schema(ability)
        assert declared.description == ability.description
        assert declared.parameters is None

    assert len(offered) == len(BUILT_IN)


async def test_the_namespace_is_in_the_state_of_the_session(tenants: Settings) -> None:
    tools = load_tools(tenants)

    for state, namespace in (
        (None, "default"),
        ({"namespace": "ada"}, "ada"),
        ({"namespace": 42}, "42"),
    ):
        _, (answer,) = await run(tools, WHO, state=state)
        assert answer["result"].split()[-1] == namespace

    for wrong in ("../ada", "", None):
        with pytest.raises(ValueError, match="a namespace is 1 to 128"):
            await run(tools, WHO, state={"namespace": wrong})

    with pytest.raises(ValueError, match="require_namespace is set: set 'namespace' in the state"):
        await run(load_tools(tenants, require_namespace=True), WHO)


async def test_an_agent_that_is_a_tool_has_the_namespace_of_its_caller(tenants: Settings) -> None:
    inner = Scripted(calls=[WHO])
    reader = LlmAgent(name="reader", description="", model=inner, tools=load_tools(tenants))

    await run([AgentTool(reader)], Call("reader", {"request": "Who?"}), state={"namespace": "ada"})

    (answer,) = find_responses(inner.requests[-1])
    assert answer["result"].split()[-1] == "ada"


async def test_tools_work_on_several_loops(settings: Settings) -> None:
    tools = load_tools(settings)
    expected = await run(tools, READ, WRONG)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(lambda: asyncio.run(run(tools, READ, WRONG))) for _ in range(4)]
        answers = await asyncio.gather(*map(asyncio.wrap_future, futures))

    assert answers == [expected] * 4
