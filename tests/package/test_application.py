"""Abilities and their registry; an application: what is handed over to it, and its views."""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

import httpx
import pytest
from mcp import Client
from pydantic import Field

from abilities import (
    Abilities,
    Ability,
    AbilityError,
    AbilityRegistry,
    Context,
    Refused,
    Settings,
    ability,
    application,
    render,
)
from abilities.adapters.functions import load_functions
from abilities.adapters.langchain import load_tools
from abilities.adapters.mcp import create_server
from abilities.application import OptionalRoots, build_offer, build_registry
from abilities.builtin.index import NEED_HISTORY, list_built_in
from abilities.declarations.fields import Arguments
from abilities.declarations.memories import StoreMemoryInput
from abilities.declarations.values import JsonObject, Model
from abilities.definition import LazyAbility, build_schema, validate_arguments
from abilities.helpers.files.reader import RootPlace
from abilities.helpers.store.protocol import MemoryStore
from abilities.registry import Reply
from abilities.server.app import create_app
from examples.own_ability import word_count
from examples.store.volatile_store import VolatileStore
from tests.memories.calls import calls_of, find_reason
from tests.support.catalog import BUILT_IN
from tests.support.plugins import install


@dataclass
class Found:
    name: str
    rank: int


@ability
async def find(
    name: Annotated[str, Field(max_length=9, description="What to find.")],
    ranks: list[int],
    deep: bool = False,
) -> list[Found]:
    """Find something."""
    return [Found(name, rank) for rank in ranks if rank > 1 or deep]


@ability
async def measure(kind: str = "") -> dict[str, float | None]:
    """Measure something."""
    answers: dict[str, Any] = {
        "": {"width": 1.5, "height": None},
        "wrong": {"width": "x"},
        "none": 3,
    }
    answer: dict[str, float | None] = answers[kind]
    return answer


@ability(name="sleep_now", read_only=True)
async def sleep(context: Context) -> int | None:
    """Answer nothing."""
    return None if context.namespace else 1


STORE = {"op": "store", "type": "core", "key": "a", "content": "It rains."}

OWN = (word_count, find, measure, sleep)


class Empty:
    """What is false, as an empty container is."""

    def __len__(self) -> int:
        return 0


class CoreStore(Empty):
    """A store of the core alone: it forwards what `MemoryStore` names, and has nothing else."""

    def __init__(self) -> None:
        self._store = VolatileStore()
        self.is_closed = False

    @property
    def queue_size(self) -> int:
        return self._store.queue_size

    async def close(self) -> None:
        self.is_closed = True
        await self._store.close()


def _forward(name: str) -> Any:
    return property(lambda core: getattr(core._store, name))


for _name in vars(MemoryStore):
    if not _name.startswith("_") and not hasattr(CoreStore, _name):
        setattr(CoreStore, _name, _forward(_name))


class Doubles(Empty):
    """An embedder: texts about rain are alike."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        self.texts += texts
        return [[1.0, float("rain" in text)] for text in texts]


@pytest.fixture
def settings(roots: Settings) -> Settings:
    (roots.workspace_dir / "poem.txt").write_text("roses are red")
    return roots.model_copy(update={"tools": ("lean",), "plugins": False})


@asynccontextmanager
async def serve_http(abilities: Abilities) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_app(abilities))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


ANSWERS: dict[str, tuple[dict[str, Any], Any]] = {
    "word_count": ({"paths": ["poem.txt"]}, {"poem.txt": 3}),
    "find": ({"name": "x", "ranks": [1, 2]}, {"result": [{"name": "x", "rank": 2}]}),
    "measure": ({}, {"width": 1.5, "height": None}),
    "sleep_now": ({}, {}),
}


async def test_a_plain_function_answers_alike_everywhere(settings: Settings) -> None:
    tools = {tool.name: tool for tool in load_tools(Abilities.open(settings, abilities=OWN))}

    async with (
        Abilities.open(settings, abilities=OWN) as abilities,
        serve_http(abilities) as http,
        Client(create_server(abilities)) as mcp,
    ):
        for name, (arguments, answer) in ANSWERS.items():
            (function,) = load_functions(abilities, only=[name])
            posted = await http.post(f"/api/abilities/{name}", json=arguments)
            answered = await mcp.call_tool(name, arguments)

            assert await abilities.call(name, arguments) == answer
            assert json.loads(await tools[name].ainvoke(arguments)) == answer
            assert (await function.call(arguments)).payload == answer
            assert posted.json() == answer
            assert answered.content[0].text == posted.text  # type: ignore[union-attr]


async def test_own_abilities_are_offered_beside_every_profile(settings: Settings) -> None:
    async with Abilities.open(settings, abilities=OWN) as abilities:
        names = abilities.registry.names
        for_token = abilities.for_caller("token", tools=["files"]).registry.names
    assert names == ["file_list", "read", "recall", "remember", *(own.name for own in OWN)]
    assert for_token == ["file_list"]

    off = settings.model_copy(update={"disabled": ("find",)})
    async with Abilities.open(off, abilities=OWN) as abilities:
        assert "find" not in abilities.registry
        assert "find" in abilities.context.disabled

    listed = load_functions([find], only=["find"])
    assert (await listed[0].call({"name": "x", "ranks": [2]})).payload["result"][0]["rank"] == 2


async def test_what_cannot_be_offered_is_refused_where_it_is_handed_over(
    settings: Settings,
) -> None:
    async def plain(context: Context) -> int:
        return 1

    @ability
    async def recall(query: str) -> str:
        """Takes a name that is taken."""
        return query

    for wrong, error, words in (
        (plain, TypeError, "plain is no ability; write @ability above"),
        (recall, ValueError, "already an ability named recall"),
    ):
        with pytest.raises(error, match=words):
            load_tools(Abilities.open(settings, abilities=[cast(Ability, wrong)]))
        with pytest.raises(error, match=words):
            async with Abilities.open(settings, abilities=[cast(Ability, wrong)]):
                pytest.fail("it was opened")


async def test_arguments_and_results_of_a_plain_function_are_checked(settings: Settings) -> None:
    async with Abilities.open(settings, abilities=OWN) as abilities:
        sent = {"name": "x", "ranks": "[1, 2]", "deep": "true"}
        assert len((await abilities.call("find", sent))["result"]) == 2

        for name, arguments, reason in (
            ("find", {"name": "x" * 10, "ranks": []}, "too_long"),
            ("find", {"ranks": [1], "name": 3}, "wrong_type"),
            ("find", {"nam": "x", "ranks": [1]}, "unknown_argument"),
            ("word_count", {"paths": ["none"]}, "not_found"),
            ("measure", {"kind": "wrong"}, "internal"),
            ("measure", {"kind": "none"}, "internal"),
        ):
            assert await find_reason(calls_of(abilities), name, **arguments) == reason, name


async def test_an_ability_is_called_like_its_function_in_a_test(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        assert await word_count(abilities.context, ["poem.txt"]) == {"poem.txt": 3}
        with pytest.raises(Refused):
            await word_count(abilities.context, ["none"])
    assert await find("x", ranks=[2]) == [Found("x", 2)]


def test_schemas_say_what_a_plain_function_takes_and_answers() -> None:
    taken = build_schema(find.input, "brief")
    assert taken["required"] == ["name", "ranks"]
    name = {"type": "string", "maxLength": 9, "description": "What to find."}
    assert taken["properties"]["name"] == name
    number = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert build_schema(measure.answer)["additionalProperties"] == number
    assert build_schema(sleep.answer)["properties"] == {"result": {"type": "integer"}}
    assert "context" not in build_schema(word_count.input, "brief")["properties"]


async def test_a_store_of_the_core_serves_what_it_can(settings: Settings) -> None:
    store = CoreStore()
    every = settings.model_copy(update={"tools": ("all",)})
    opening = Abilities.open(every, store=cast(MemoryStore, store))
    assert not {*opening.build_registry().names}.intersection(NEED_HISTORY)

    async with opening as abilities:
        assert not {*abilities.registry.names}.intersection(NEED_HISTORY)
        await abilities.call("remember", {"operations": [STORE]})
        found = await abilities.call("recall", {"queries": ["Does it rain?"]})
        assert found["results"][0]["memories"][0]["key"] == "a"

        past = {"key": "a", "as_of": "2026-01-01T00:00:00.000Z"}
        reason = await find_reason(calls_of(abilities), "memory_get", **past)
        assert reason == "version_not_found"

        await abilities.set_token_mark()
        assert not await abilities.has_token_mark()
        async with serve_http(abilities) as http:
            assert (await http.get("/readyz")).status_code == 200
            timeline = await http.post("/api/explorer/timeline", json={})
            memory = await http.post("/api/explorer/memory", json={"key": "a"})
        assert timeline.json()["error"]["reason"] == "unknown_address"  # left out as well
        assert memory.json()["memory"]["content"] == "It rains."

    assert store.is_closed


async def test_an_embedder_of_ones_own_ranks(settings: Settings) -> None:
    embedder = Doubles()
    async with Abilities.open(settings, embedder=embedder) as abilities:
        await abilities.call("remember", {"operations": [{**STORE, "content": "Much rain."}]})
        await abilities.call("recall", {"queries": ["rain"]})
    assert "rain" in embedder.texts

    with pytest.raises(TypeError, match="embed"):
        async with Abilities.open(settings, embedder=cast(Any, object())):
            pytest.fail("it was opened")


async def pass_on(name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
    return await call()


async def test_views_share_what_is_open(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        views = [abilities.for_namespace("other"), abilities.with_middleware(pass_on)]

        assert all(view.registry is abilities.registry for view in views)
        assert all(view.problems is abilities.problems for view in views)
        assert views[1].context is abilities.context
        assert abilities.for_namespace("default") is abilities


async def test_a_view_of_a_reading_view_may_only_read(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        reading = abilities.for_namespace("other", read_only=True)

        views = [reading.for_namespace(name) for name in ("other", "default")]
        for view in (*views, reading.with_middleware(pass_on)):
            reply = await view.reply("store_memory", {"type": "core", "content": "Tea."})
            assert reply.payload["error"]["reason"] == "scope"


def test_roots_that_never_existed_are_forgotten_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MAX_ROOTS", 10)
    roots = OptionalRoots()
    place = RootPlace("agent", tmp_path, None)
    existed = roots.get(place)
    descriptor = existed.open()
    assert descriptor is not None
    os.close(descriptor)

    places = [place._replace(path=tmp_path / str(number)) for number in range(100)]
    invented = [roots.get(place) for place in places]

    assert roots.get(place) is existed
    assert roots.get(places[-1]) is invented[-1]
    assert roots.get(places[0]) is not invented[0]
    assert len(roots._roots) <= 10


NAMES = [built_in.name for built_in in BUILT_IN]


class EchoInput(Arguments):
    """What the test's own ability takes."""

    text: str = Field(description="What to say.")
    output_format: str = Field(default="json", description="json or toon.")


class EchoAnswer(Model):
    """What the test's own ability answers."""

    said: list[str] = Field(description="What was said.")


@ability(title="Echo", description="Say something.", read_only=True)
async def echo(context: Context, arguments: EchoInput) -> EchoAnswer:
    return EchoAnswer(said=[arguments.text])


@ability()
async def say_twice(context: Context, arguments: EchoInput) -> EchoAnswer:
    """Say something twice."""
    return EchoAnswer(said=[arguments.text] * 2)


def test_the_decorator_makes_an_ability_of_a_function() -> None:
    assert isinstance(echo, Ability)
    assert (echo.name, echo.title, echo.description) == ("echo", "Echo", "Say something.")
    assert (echo.input, echo.answer) == (EchoInput, EchoAnswer)
    assert (echo.read_only, echo.idempotent, echo.destructive) == (True, False, False)

    assert (say_twice.name, say_twice.title) == ("say_twice", "Say twice")
    assert say_twice.description == "Say something twice."


def test_what_is_no_ability_is_refused_where_it_is_made() -> None:
    async def silent(context: Context, arguments: EchoInput) -> EchoAnswer:
        return EchoAnswer(said=[])

    def not_async(context: Context, arguments: EchoInput) -> EchoAnswer:
        """Is not async."""
        return EchoAnswer(said=[])

    async def untyped(context, arguments):  # type: ignore[no-untyped-def]
        """Has no types."""

    async def half_typed(a) -> int:  # type: ignore[no-untyped-def]
        """Has no type for its argument."""
        return 1

    async def many(*names: str) -> int:
        """Takes names without end."""
        return 1

    async def without_result(a: int):  # type: ignore[no-untyped-def]
        """Has no type for its result."""

    async def unsendable(a: int) -> Context:
        """Has a result that is no JSON."""
        raise NotImplementedError

    for function, words in (
        (not_async, "async def"),
        (untyped, "async def"),
        (half_typed, "half_typed has no type for a"),
        (many, "a parameter that cannot be given by name: names"),
        (without_result, "no type for its result"),
        (unsendable, "a result that cannot be sent"),
    ):
        with pytest.raises(TypeError, match=words):
            ability()(function)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="description"):
        ability()(silent)
    with pytest.raises(ValueError, match="snake_case"):
        ability(name="Not-Snake", description="x")(silent)


def test_a_registry_keeps_its_order_and_refuses_a_name_twice() -> None:
    registry = AbilityRegistry([*BUILT_IN, echo])

    assert [a.name for a in registry] == [*NAMES, "echo"]
    assert registry.get("echo") is echo and registry.get("none") is None
    assert "echo" in registry and len(registry) == len(NAMES) + 1
    with pytest.raises(ValueError, match="already"):
        registry.add(echo)


def test_a_view_is_filtered_and_read_only() -> None:
    registry = AbilityRegistry([echo, say_twice])

    assert [a.name for a in registry.only("say_twice")] == ["say_twice"]
    assert [a.name for a in registry.only(read_only=True)] == ["echo"]
    assert list(registry.only("say_twice", read_only=True)) == []
    with pytest.raises(KeyError):
        registry.only("none")
    with pytest.raises(TypeError):
        registry.only("echo").add(say_twice)


def test_a_lazy_ability_is_loaded_when_it_is_first_needed_and_once() -> None:
    loaded: list[str] = []

    def load() -> Ability:
        loaded.append("echo")
        return echo

    registry = AbilityRegistry([LazyAbility("echo", load)])
    view = registry.select(["echo"])
    assert "echo" in registry and len(view) == 1
    assert registry.names == view.names == ["echo"]
    assert loaded == []

    assert view.get("echo") is echo
    assert list(view) == list(view.only(read_only=True)) == [echo]
    assert loaded == ["echo"]


def test_each_built_in_ability_has_the_name_by_which_it_is_loaded() -> None:
    for for_kv_memory in (False, True):
        lazy = list_built_in(for_kv_memory=for_kv_memory)
        assert [ability.name for ability in lazy] == [ability.load().name for ability in lazy]


MANY = """
from dataclasses import replace
from tests.package.test_application import echo
many = [replace(echo, name=name) for name in ("echo_one", "echo_two")]
"""


@pytest.mark.requirement("R4.5.6", "R4.6.5")
def test_abilities_and_plugins_can_be_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"echo": "many_plugin:echo", "many": "many_plugin:many"}
    with install(tmp_path, {"many_plugin": MANY}, points, monkeypatch):
        offer, _ = build_offer(Settings(disabled=("memory_read_bulk", "echo")))
        without_plugins, problems = build_registry(Settings(plugins=False))

    built_in = [name for name in NAMES if name != "memory_read_bulk"]
    assert [a.name for a in offer.registry] == [*built_in, "echo_one", "echo_two"]
    assert [a.name for a in without_plugins] == NAMES and problems == []


async def test_what_changes_something_runs_once_however_long_its_answer_is(
    roots: Settings,
) -> None:
    runs: list[str] = []

    class Table(Model):
        said: list[list[str]]

    async def write(context: Context, arguments: EchoInput) -> JsonObject:
        runs.append(arguments.text)
        return {"said": [["x"]] * 20}  # is longer as TOON

    writer = Ability("write", "Write", "Write something down.", EchoInput, Table, write)
    registry = AbilityRegistry([writer])
    arguments = {"text": "x", "output_format": "toon"}

    async with Abilities.open(roots) as abilities:
        short = await registry.reply("write", arguments, abilities.context)
        context = replace(abilities.context, max_response_bytes=len(short.text.encode()) - 1)
        long = await registry.reply("write", arguments, context)

    assert len(runs) == 2
    assert (short.format, short.text) == ("toon", render(short.payload, "toon"))
    assert (long.format, long.text) == ("json", render(short.payload))


async def test_a_call_that_cannot_be_one_is_a_fault(roots: Settings) -> None:
    memory = {"type": "core", "content": "x", "memory_score": 10**400}  # too large for a float

    async with Abilities.open(roots) as abilities:
        for name, arguments, reason, field in (
            ("none", {}, "unknown_ability", None),
            ("file_read_bulk", [], "wrong_type", None),
            ("file_read_bulk", "text", "wrong_type", None),
            ("file_read_bulk", 5, "wrong_type", None),
            ("file_read_bulk", [("text", "x")], "wrong_type", None),
            ("store_memory", memory, "out_of_range", "memory_score"),
        ):
            with pytest.raises(AbilityError) as caught:
                await abilities.call(name, arguments)  # type: ignore[arg-type]
            assert (caught.value.fault.reason, caught.value.fault.field) == (reason, field)


@pytest.mark.parametrize("text", ["{}", '{"a": 1}'])
def test_metadata_sent_as_json_is_that_object(text: str) -> None:
    memory = {"type": "core", "content": "x", "metadata": text}

    assert validate_arguments(StoreMemoryInput, memory).metadata == json.loads(text)
