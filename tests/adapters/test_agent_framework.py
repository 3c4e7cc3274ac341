"""The Microsoft Agent Framework: agents with a scripted model, in parity with the application."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionMiddleware,
    FunctionTool,
    Message,
    MiddlewareFailure,
)

from abilities import Abilities, Settings, schemas
from abilities.adapters.agent_framework import load_tools
from tests.adapters.parity import READ, WRONG, Call, Seen, check_parity
from tests.support.catalog import BUILT_IN

WHO = Call("file_read_bulk", {"paths": ["who.txt"]})


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Makes one call after the other, and then says that it is done."""

    def __init__(self, calls: Sequence[Call | tuple[str, str]]) -> None:
        # The framework ends a run after 40 of its model's answers.
        super().__init__(function_invocation_configuration={"max_iterations": 1_000})
        self.calls = list(calls)
        self.requests: list[tuple[list[Message], Mapping[str, Any]]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **more: Any
    ) -> Any:
        self.requests.append((list(messages), options))
        number = len(self.requests) - 1
        content = Content.from_text("Done.")
        if number < len(self.calls):
            name, arguments = self.calls[number]
            content = Content.from_function_call(f"call-{number}", name, arguments=arguments)

        return self._build_response_stream(send(content)) if stream else respond(content)


async def respond(content: Content) -> ChatResponse:
    return ChatResponse(messages=[Message("assistant", [content])])


async def send(content: Content) -> AsyncIterator[ChatResponseUpdate]:
    yield ChatResponseUpdate(contents=[content], role="assistant")


async def run(
    tools: Sequence[FunctionTool], *calls: Call | tuple[str, str], **more: Any
) -> tuple[str, list[str]]:
    """Let a scripted model make calls; return its last words, and what it saw of each call."""
    model = Scripted(calls)
    agent = Agent(model, tools=list(tools), middleware=more.pop("middleware", None))

    response = await agent.run("Read.", **more)

    messages, _ = model.requests[-1]
    contents = [content for message in messages for content in message.contents]
    results = [content for content in contents if content.type == "function_result"]
    assert [result.exception for result in results] == [None] * len(results)
    return response.text, [result.result for result in results]


async def through_an_agent(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    _, texts = await run(load_tools(abilities), *calls)
    return [Seen(text) for text in texts]


async def test_a_model_sees_what_the_application_answers(tmp_path: Path) -> None:
    await check_parity(through_an_agent, tmp_path)


async def test_an_agent_reads_survives_a_wrong_call_and_goes_on(settings: Settings) -> None:
    last, (read, wrong) = await run(load_tools(settings), READ, WRONG)

    assert last == "Done."
    assert '"succeeded":1,"failed":1' in read
    assert '"INVALID_INPUT"' in wrong


class Middleware(FunctionMiddleware):
    """Counts the calls, and lets them happen."""

    def __init__(self) -> None:
        self.count = 0

    async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
        self.count += 1
        await call_next()


async def test_middleware_changes_nothing(settings: Settings) -> None:
    middleware = Middleware()

    with_it = await run(load_tools(settings), READ, WRONG, middleware=[middleware])

    assert with_it == await run(load_tools(settings), READ, WRONG)
    assert middleware.count == 2


async def test_odd_arguments_are_told_to_the_model(settings: Settings) -> None:
    calls = [("file_list", text) for text in ('{"pattern": ', "", '{"context": 1}', '{"ctx": 1}')]

    last, (broken, nothing, *unknown) = await run(load_tools(settings), *calls)

    assert last == "Done."
    assert "a.txt" in nothing
    for text in (broken, *unknown):
        assert '"unknown_argument"' in text


def test_a_model_is_offered_each_schema_as_it_is() -> None:
    offered = {tool.name: tool.to_json_schema_spec()["function"] for tool in load_tools()}

    for ability in BUILT_IN:
        assert offered[ability.name] == {
            "name": ability.name,
            "description": ability.description,
            "parameters": schemas.build_input_schema(ability),
        }

    assert len(offered) == len(BUILT_IN)


async def test_the_namespace_is_an_argument_of_the_run(tenants: Settings) -> None:
    tools = load_tools(tenants)

    for named, namespace in ((None, "default"), ({}, "default"), ({"namespace": 42}, "42")):
        _, (text,) = await run(tools, WHO, function_invocation_kwargs=named)
        assert text.split()[-1] == namespace

    for wrong in ("../ada", "", None):
        with pytest.raises(MiddlewareFailure, match="a namespace is 1 to 128"):
            await run(tools, WHO, function_invocation_kwargs={"namespace": wrong})

    with pytest.raises(MiddlewareFailure, match="require_namespace is set: pass function_invoc"):
        await run(load_tools(tenants, require_namespace=True), WHO)


async def test_an_agent_that_is_a_tool_has_the_namespace_of_its_caller(tenants: Settings) -> None:
    inner = Scripted([WHO])
    reader = Agent(inner, name="reader", tools=load_tools(tenants)).as_tool()
    named = {"namespace": "ada"}

    await run([reader], Call("reader", {"task": "Who?"}), function_invocation_kwargs=named)

    messages, _ = inner.requests[-1]
    assert messages[-1].contents[0].result.split()[-1] == "ada"


async def test_tools_work_on_several_loops(settings: Settings) -> None:
    tools = load_tools(settings)
    expected = await run(tools, READ, WRONG)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(lambda: asyncio.run(run(tools, READ, WRONG))) for _ in range(4)]
        answers = await asyncio.gather(*map(asyncio.wrap_future, futures))

    assert answers == [expected] * 4
