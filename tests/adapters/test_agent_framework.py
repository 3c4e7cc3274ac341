"""The Microsoft Agent Framework: agents with a scripted model, in parity with the application."""

from collections.abc import AsyncIterator, Mapping, Sequence
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

from abilities import Abilities, Settings
from abilities.adapters.agent_framework import load_tools
from tests.adapters import parity
from tests.adapters.parity import Call, Seen


class Scripted(FunctionInvocationLayer, BaseChatClient):
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
) -> list[str]:
    """Let a scripted model make calls, and say that it is done; return what it saw of each."""
    model = Scripted(calls)
    agent = Agent(model, tools=list(tools), middleware=more.pop("middleware", None))

    response = await agent.run("Read.", **more)

    messages, _ = model.requests[-1]
    contents = [content for message in messages for content in message.contents]
    results = [content for content in contents if content.type == "function_result"]
    assert [result.exception for result in results] == [None] * len(results)
    assert response.text == "Done."
    return [result.result for result in results]


async def through_an_agent(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    return [Seen(text) for text in await run(load_tools(abilities), *calls)]


async def test_a_model_sees_what_the_application_answers(tmp_path: Path) -> None:
    await parity.check_parity(through_an_agent, tmp_path)


class Middleware(FunctionMiddleware):
    def __init__(self) -> None:
        self.count = 0

    async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
        self.count += 1
        await call_next()


async def test_middleware_changes_nothing(settings: Settings) -> None:
    middleware = Middleware()

    with_it = await run(load_tools(settings), parity.READ, parity.WRONG, middleware=[middleware])

    assert with_it == await run(load_tools(settings), parity.READ, parity.WRONG)
    assert middleware.count == 2


async def test_odd_arguments_are_told_to_the_model(settings: Settings) -> None:
    calls = [("file_list", text) for text in ('{"pattern": ', "", '{"context": 1}', '{"ctx": 1}')]

    broken, nothing, *unknown = await run(load_tools(settings), *calls)

    assert "a.txt" in nothing
    for text in (broken, *unknown):
        assert '"unknown_argument"' in text


async def test_the_namespace_is_an_argument_of_the_run(tenants: Settings) -> None:
    async def ask(arguments: Any) -> str:
        (text,) = await run(load_tools(tenants), parity.WHO, function_invocation_kwargs=arguments)
        return text

    named = [(None, "default"), ({}, "default"), ({"namespace": 42}, "42")]
    await parity.check_namespaces(ask, named, parity.WRONG_NAMESPACES)

    with pytest.raises(MiddlewareFailure, match="require_namespace is set: pass function_invoc"):
        await run(load_tools(tenants, require_namespace=True), parity.WHO)


async def test_an_agent_that_is_a_tool_has_the_namespace_of_its_caller(tenants: Settings) -> None:
    inner = Scripted([parity.WHO])
    reader = Agent(inner, name="reader", tools=load_tools(tenants)).as_tool()
    named = {"namespace": "ada"}

    await run([reader], Call("reader", {"task": "Who?"}), function_invocation_kwargs=named)

    messages, _ = inner.requests[-1]
    assert messages[-1].contents[0].result.split()[-1] == "ada"


def test_a_model_is_offered_each_schema_as_it_is() -> None:
    offered = [tool.to_json_schema_spec()["function"] for tool in load_tools()]

    parity.check_functions(offered)
