"""Abilities as functions, their strict schemas, and the host that every adapter shares."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema_rs
import pytest

from abilities import Abilities, Settings, definition
from abilities.adapters.functions import (
    NULL,
    Function,
    build_strict_schema,
    find_namespace,
    leave_out_null,
    load_functions,
)
from abilities.registry import Reply
from tests.adapters.parity import Call, Seen, check_parity, make_tenants
from tests.support.catalog import BUILT_IN


def load(settings: Settings | Abilities, name: str) -> Function:
    (function,) = load_functions(settings, only=[name])
    return function


@pytest.mark.parametrize("way", ["async", "json", "sync"])
async def test_a_function_answers_as_the_application_does(way: str, tmp_path: Path) -> None:
    async def through(abilities: Abilities, calls: Sequence[Call]) -> list[Seen]:
        functions = {function.name: function for function in load_functions(abilities)}
        assert {call.name for call in calls} == functions.keys()
        replies: list[Reply] = []
        for name, arguments in calls:
            function = functions[name]
            if way == "sync":
                replies.append(await asyncio.to_thread(function.call_sync, arguments))
            else:
                sent = json.dumps(arguments, ensure_ascii=False) if way == "json" else arguments
                replies.append(await function.call(sent))
        return [Seen(reply.text, reply.payload, reply.failed) for reply in replies]

    await check_parity(through, tmp_path)


def test_functions_describe_the_abilities_as_models_read_them(roots: Settings) -> None:
    functions = load_functions(roots)

    for function, ability in zip(functions, BUILT_IN, strict=True):
        assert function.name == ability.name
        assert function.description == ability.description
        assert function.schema == definition.build_schema(ability.input, "brief")
        assert function.model is ability.input
        assert function.read_only is ability.read_only
        assert "host" not in repr(function)

    functions[0].schema.clear()  # as frameworks do that adapt it
    assert load_functions(roots)[0].schema == definition.build_schema(BUILT_IN[0].input, "brief")


def test_functions_are_chosen_by_name_and_by_what_they_do(roots: Settings) -> None:
    reading = [ability.name for ability in BUILT_IN if ability.read_only]

    assert [f.name for f in load_functions(roots, read_only=True)] == reading
    assert [f.name for f in load_functions(roots, only=["recall", "read"])] == ["read", "recall"]
    with pytest.raises(KeyError, match="no_such"):
        load_functions(roots, only=["no_such"])
    with pytest.raises(ValueError, match="the whole disk"):
        load_functions(Settings(workspace_dir=Path("/")))


async def test_arguments_may_be_json_and_none_are_written_in_many_ways(roots: Settings) -> None:
    function = load(roots, "memory_list")
    expected = function.call_sync({}).payload
    nothings: list[Any] = [None, {}, "", " \n", "{}", "null", MappingProxyType({})]

    for nothing in nothings:
        reply = await function.call(nothing)
        assert reply.payload == expected and not reply.failed, nothing
    for wrong in ("{", "[]", '"{}"', '{"a": NaN}', '{"a": 1, "a": 1}'):
        reply = await function.call(wrong)
        assert reply.failed, wrong
        assert reply.payload["error"]["message"] == "The arguments must be an object."
        assert json.loads(reply.text) == reply.payload


async def test_the_namespace_is_that_of_the_call(tmp_path: Path) -> None:
    function = load(make_tenants(tmp_path, "default", "ada", "42"), "file_read_bulk")
    request = {"paths": ["who.txt"]}

    texts = [
        function.call_sync(request, namespace=namespace).text.split()[-1]
        for namespace in (None, "ada", 42)
    ]

    assert texts == ["default", "ada", "42"]
    wrongs: tuple[Any, ...] = ("", "../ada", True, 1.5)
    for wrong in wrongs:
        with pytest.raises(ValueError, match="a namespace is 1 to 128"):
            await function.call(request, namespace=wrong)
        with pytest.raises(ValueError, match="a namespace is 1 to 128"):
            function.call_sync(request, namespace=wrong)


@dataclass
class User:
    namespace: object


def test_a_context_names_its_namespace_by_a_key_or_an_attribute() -> None:
    assert find_namespace({"namespace": 42}) == "42"
    assert find_namespace(MappingProxyType({"namespace": "ada"})) == "ada"
    assert find_namespace(User("ada")) == "ada"
    for unnamed in (None, {}, {"user": "ada"}, "namespace", object()):
        assert find_namespace(unnamed) is None
    for wrong in (None, "", True, "a b"):
        with pytest.raises(ValueError, match="a namespace is 1 to 128"):
            find_namespace({"namespace": wrong})
        with pytest.raises(ValueError, match="a namespace is 1 to 128"):
            find_namespace(User(wrong))


async def test_settings_are_opened_once_for_all_threads_and_loops(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roots.workspace_dir / "ok.txt").write_text("fine\n")
    opened: list[Settings] = []
    open_application = Abilities.open

    def count(settings: Settings) -> Any:
        opened.append(settings)
        return open_application(settings)

    monkeypatch.setattr(Abilities, "open", count)
    functions = load_functions(roots, only=["file_read_bulk", "file_list"])

    def call(number: int) -> Reply:
        function = functions[number % 2]
        arguments = {"paths": ["ok.txt"]} if function.name == "file_read_bulk" else {}
        if number % 4 < 2:
            return function.call_sync(arguments)
        return asyncio.run(function.call(arguments))

    with ThreadPoolExecutor(16) as pool:
        futures = [asyncio.wrap_future(pool.submit(call, number)) for number in range(32)]
        replies = await asyncio.gather(*futures)

    assert opened == [roots]
    assert len({reply.text for reply in replies}) == 2
    assert not any(reply.failed for reply in replies)


async def test_a_cancelled_first_call_does_not_cancel_the_opening(roots: Settings) -> None:
    (roots.workspace_dir / "ok.txt").write_text("fine\n")
    function = load(roots, "file_read_bulk")
    first = asyncio.create_task(function.call({"paths": ["ok.txt"]}))
    second = asyncio.create_task(function.call({"paths": ["ok.txt"]}))
    await asyncio.sleep(0)  # lets both begin
    first.cancel()

    with pytest.raises(asyncio.CancelledError):
        await first

    assert (await second).text.endswith("\nfine\n\n")


def test_what_could_not_be_opened_is_opened_when_it_can_be(roots: Settings) -> None:
    missing = roots.agent_dir.with_name("later")
    function = load(roots, "file_list")
    roots.agent_dir.rename(missing)
    with pytest.raises(ValueError, match="does not exist"):
        function.call_sync({})

    missing.rename(roots.agent_dir)
    assert not function.call_sync({}).failed


def test_a_forked_process_opens_an_application_of_its_own(roots: Settings) -> None:
    command = [sys.executable, "-c", FORKED, str(roots.workspace_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")


FORKED = """
import os, sys, warnings
from abilities import Settings
from abilities.adapters.functions import load_functions
warnings.simplefilter("ignore")  # Python warns of forks with threads
(function,) = load_functions(Settings(workspace_dir=sys.argv[1]), only=["file_list"])
assert not function.call_sync({}).failed
child = os.fork()
if child == 0:
    os._exit(7 if not function.call_sync({}).failed else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


FUNCTIONS = {function.name: function for function in load_functions(Settings())}
LINK = {"key": "b", "term": "word"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("file_read_bulk", {"paths": ["a.txt"]}),
    ("memory_read_bulk", {"targets": [{"type": "long_term"}, {"type": "stored", "key": "k"}]}),
    ("read", {"items": ["a.txt", {"memory": "k"}, {"search": "x", "in": "*.md"}]}),
    ("store_memory", {"type": "core", "content": "x", "links": [LINK], "metadata": '{"a": 1}'}),
    ("update_memory", {"id": "x", "links": [LINK], "remove_links": [{"key": "b"}]}),
    ("remember", {"operations": [{"op": "link", "key": "k", "links": [LINK]}], "atomic": True}),
    ("recall", {"queries": ["tea"]}),
    ("get_memory_stats", {}),
]


def list_objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for item in schema:
            yield from list_objects(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from list_objects(value)


def add_null(value: Any, schema: dict[str, Any]) -> Any:
    for alternative in schema.get("anyOf", []):
        value = add_null(value, alternative)

    if isinstance(value, list):
        return [add_null(item, schema.get("items", {})) for item in value]

    if not isinstance(value, dict):
        return value

    fields = schema.get("properties", {})
    return {
        **dict.fromkeys(fields),
        **{name: add_null(item, fields.get(name, {})) for name, item in value.items()},
    }


def test_every_field_of_every_object_is_required_and_described() -> None:
    for name, function in FUNCTIONS.items():
        strict = build_strict_schema(function)

        jsonschema_rs.meta.validate(strict)
        assert list(strict["properties"]) == list(function.schema["properties"]), name
        for fields in list_objects(strict):
            assert fields["additionalProperties"] is False, name
            assert fields["required"] == list(fields["properties"]), name
        for field in function.schema.get("required", []):
            assert NULL not in strict["properties"][field].get("anyOf", []), name


def test_null_for_what_was_left_out_is_left_out() -> None:
    for name, arguments in CALLS:
        strict = build_strict_schema(FUNCTIONS[name])
        sent = add_null(arguments, strict)

        jsonschema_rs.validate(strict, sent)
        assert sent != arguments or not arguments, name
        assert leave_out_null(sent, strict) == arguments, name

    strict = build_strict_schema(FUNCTIONS["file_read_bulk"])
    offered_or_not = {"paths": None, "unknown": None, "detail": None}
    assert leave_out_null(offered_or_not, strict) == {"paths": None, "unknown": None}
