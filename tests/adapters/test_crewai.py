"""CrewAI: crews with a scripted model, in parity with the application."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import BaseTool, ToolFailure

from abilities import Abilities, Settings
from abilities.adapters.crewai import load_tools
from abilities.adapters.functions import build_strict_schema, load_functions
from tests.adapters.parity import READ, WHO, WRONG, Call, Seen, check_parity


class Scripted(BaseLLM):
    calls: list[Any]
    requests: list[tuple[list[Any], Any]] = []  # noqa: RUF012 (pydantic copies it)

    def call(self, messages: Any, tools: Any = None, *args: Any, **more: Any) -> Any:
        self.requests.append((list(messages), tools))
        number = len(self.requests) - 1
        if number >= len(self.calls):
            return "Done."

        name, arguments = self.calls[number]
        function = {"name": name, "arguments": json.dumps(arguments)}
        return [{"id": f"call-{number}", "type": "function", "function": function}]

    async def acall(self, messages: Any, tools: Any = None, *args: Any, **more: Any) -> Any:
        return self.call(messages, tools)

    def supports_function_calling(self) -> bool:
        return True


def build_crew(tools: Sequence[BaseTool], calls: Sequence[Call]) -> tuple[Crew, Scripted]:
    model = Scripted(model="scripted", calls=list(calls))
    agent = Agent(
        role="reader", goal="Read.", backstory="None.", llm=model, tools=list(tools), max_iter=1_000
    )
    task = Task(description="Read.", expected_output="Text.", agent=agent)
    return Crew(agents=[agent], tasks=[task], cache=True, tracing=False), model


def find_texts(model: Scripted) -> list[str]:
    messages, _ = model.requests[-1]
    return [message["content"] for message in messages if message["role"] == "tool"]


def run(tools: Sequence[BaseTool], *calls: Call) -> tuple[list[str], list[str]]:
    """Let a scripted model make calls, and to end; return what it saw, and failures."""
    crew, model = build_crew(tools, calls)

    output = crew.kickoff()

    failures = [record.failure.message for record in output.tasks_output[0].tool_failures]
    assert output.raw == "Done."
    return find_texts(model), failures


async def through_a_crew(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
    texts, failures = await asyncio.to_thread(run, load_tools(abilities), *calls)
    return [Seen(text, failed=text in failures) for text in texts]


async def test_a_model_sees_what_the_application_answers(tmp_path: Path) -> None:
    await check_parity(through_a_crew, tmp_path)


async def test_a_crew_on_an_event_loop_does_the_same(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        for start in (Crew.akickoff, Crew.kickoff_async):
            crew, model = build_crew(load_tools(abilities), [READ, WRONG])
            output = await start(crew)

            assert output.raw == "Done."
            read, wrong = find_texts(model)
            assert '"succeeded":1,"failed":1' in read
            assert '"INVALID_INPUT"' in wrong


async def test_a_tool_answers_sync_and_async_callers(settings: Settings) -> None:
    (tool,) = load_tools(settings, only=["file_read_bulk"])

    text = await tool.arun(**READ.arguments)

    assert '"succeeded":1,"failed":1' in text
    assert tool.run(**READ.arguments) == text
    assert tool.to_structured_tool().invoke(dict(READ.arguments)) == text
    failure = await tool.arun(**WRONG.arguments)
    assert isinstance(failure, ToolFailure)
    assert failure == tool.run(**WRONG.arguments)
    assert failure.details["code"] == "INVALID_INPUT"


def test_a_model_is_offered_each_schema_as_a_strict_one(settings: Settings) -> None:
    crew, model = build_crew(load_tools(settings), [])
    crew.kickoff()

    (_, tools), *_ = model.requests
    offered = {tool["function"]["name"]: tool["function"] for tool in tools}
    functions = load_functions(settings)
    for function in functions:
        assert offered[function.name] == {
            "name": function.name,
            "description": function.description,
            "parameters": build_strict_schema(function),
            "strict": True,
        }

    assert len(offered) == len(functions)


def test_null_stands_for_an_optional_argument(settings: Settings) -> None:
    left_out = {"max_chars_per_file": None, "detail": None}
    link = {"key": "b", "link_weight": None, "type": None, "term": None}
    store = {"op": "store", "type": "core", "key": "k", "content": "text", "to": None}
    operations = [{**store, "links": [link], "metadata": '{"a": 1}', "tags": None}]

    texts, failures = run(
        load_tools(settings),
        Call(READ.name, {**READ.arguments, **left_out}),
        READ,
        Call("remember", {"operations": operations, "atomic": None}),
    )

    assert failures == []
    assert texts[0] == texts[1]
    assert '"succeeded":1,"failed":0' in texts[2]


def test_what_was_read_is_read_again(settings: Settings) -> None:
    (tool,) = load_tools(settings, only=["file_read_bulk"])
    path = settings.workspace_dir / "a.txt"

    class Changing(Scripted):
        def call(self, *args: Any, **more: Any) -> Any:
            path.write_text(f"version {len(self.requests)}")
            return super().call(*args, **more)

    crew, _ = build_crew([tool], [])
    model = Changing(model="scripted", calls=[READ, READ])
    crew.agents[0].llm = model
    crew.kickoff()

    first, second = find_texts(model)
    assert "version 0" in first
    assert "version 1" in second


async def test_the_namespace_is_that_of_the_source(tenants: Settings) -> None:
    async with Abilities.open(tenants) as abilities:
        for namespace in ("default", "ada", "42"):
            tools = load_tools(abilities.for_namespace(namespace))
            texts, _ = await asyncio.to_thread(run, tools, WHO)
            assert texts[0].split()[-1] == namespace

    texts, _ = await asyncio.to_thread(run, load_tools(tenants, namespace="ada"), WHO)
    assert texts[0].split()[-1] == "ada"

    with pytest.raises(ValueError, match="require_namespace is set: pass namespace"):
        load_tools(tenants, require_namespace=True)
