"""The registry, the decorator, plugins of other packages, and the validation of arguments."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from abilities import Abilities, Ability, AbilityError, AbilityRegistry, Settings, ability, render
from abilities.application import build_offer, build_registry
from abilities.builtin.index import list_built_in
from abilities.declarations.fields import Arguments, Integer
from abilities.declarations.memories import StoreMemoryInput
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, Model
from abilities.definition import Context, LazyAbility
from abilities.schemas import validate_arguments
from tests.support.catalog import BUILT_IN
from tests.support.surfaces import SURFACES

NAMES = [built_in.name for built_in in BUILT_IN]


class EchoInput(Arguments):
    """What the test's own ability takes."""

    text: str = Field(description="What to say.")
    times: int = Field(default=1, description="How often.")
    output_format: str = Field(default="json", description="json or toon.")


class EchoAnswer(Model):
    """What the test's own ability answers."""

    said: list[str] = Field(description="What was said.")
    note: str | None = None


@ability(title="Echo", description="Say something.", read_only=True)
async def echo(context: Context, arguments: EchoInput) -> EchoAnswer:
    if arguments.text == "crash":
        raise RuntimeError("/secret")
    if arguments.text == "refuse":
        raise Refused("denied")
    if arguments.text == "made up":
        raise Refused("no such reason")  # type: ignore[arg-type]
    return EchoAnswer(said=[arguments.text] * arguments.times)


def test_the_decorator_makes_an_ability_of_a_function() -> None:
    assert isinstance(echo, Ability)
    assert (echo.name, echo.title, echo.description) == ("echo", "Echo", "Say something.")
    assert (echo.input, echo.answer) == (EchoInput, EchoAnswer)
    assert (echo.read_only, echo.idempotent, echo.destructive) == (True, False, False)


def test_the_decorator_takes_names_and_words_from_the_function() -> None:
    @ability()
    async def say_twice(context: Context, arguments: EchoInput) -> EchoAnswer:
        """Say something twice."""
        return EchoAnswer(said=[arguments.text] * 2)

    assert (say_twice.name, say_twice.title) == ("say_twice", "Say twice")
    assert say_twice.description == "Say something twice."


def test_what_is_no_ability_is_refused_where_it_is_made() -> None:
    async def untyped(context, arguments):  # type: ignore[no-untyped-def]
        """Has no types."""

    def not_async(context: Context, arguments: EchoInput) -> EchoAnswer:
        """Is not async."""
        return EchoAnswer(said=[])

    async def silent(context: Context, arguments: EchoInput) -> EchoAnswer:
        return EchoAnswer(said=[])

    for wrong in (untyped, not_async):
        with pytest.raises(TypeError, match="async def"):
            ability()(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="description"):
        ability()(silent)
    with pytest.raises(ValueError, match="snake_case"):
        ability(name="Not-Snake", description="x")(silent)


def test_a_registry_keeps_its_order_and_refuses_a_name_twice() -> None:
    registry = AbilityRegistry([*BUILT_IN, echo])
    assert [a.name for a in registry] == [*NAMES, "echo"]
    assert registry.get("echo") is echo
    assert registry.get("none") is None
    assert "echo" in registry and len(registry) == len(NAMES) + 1
    with pytest.raises(ValueError, match="already"):
        registry.add(echo)


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


def test_a_view_is_filtered_and_read_only() -> None:
    @ability(description="Changes something.")
    async def change(context: Context, arguments: EchoInput) -> EchoAnswer:
        return EchoAnswer(said=[])

    registry = AbilityRegistry([echo, change])
    assert [a.name for a in registry.only("change")] == ["change"]
    assert [a.name for a in registry.only(read_only=True)] == ["echo"]
    assert list(registry.only("change", read_only=True)) == []
    with pytest.raises(KeyError):
        registry.only("none")
    with pytest.raises(TypeError):
        registry.only("echo").add(change)


PLUGINS = {
    "single": "from tests.package.test_registry import echo",
    "several": "from tests.package.test_registry import echo\nimport dataclasses\n"
    "many = [dataclasses.replace(echo, name=n) for n in ('echo_one', 'echo_two')]",
    "broken": "raise RuntimeError('cannot start')",
    "wrong": "thing = 5",
    "greedy": "import dataclasses\nfrom tests.package.test_registry import echo\n"
    "taken = dataclasses.replace(echo, name='file_read_bulk')",
}
POINTS = {
    "broken": "broken_plugin:x",
    "echo": "single_plugin:echo",
    "greedy": "greedy_plugin:taken",
    "many": "several_plugin:many",
    "missing": "no_such_module:x",
    "wrong": "wrong_plugin:thing",
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution that declares abilities, good and bad, as pip would have installed it."""
    for name, code in PLUGINS.items():
        (tmp_path / f"{name}_plugin.py").write_text(code)
    info = tmp_path / "plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[abilities]\n" + "".join(f"{n} = {v}\n" for n, v in POINTS.items())
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in PLUGINS:
        sys.modules.pop(f"{name}_plugin", None)


def test_plugins_are_found_and_a_broken_one_is_reported_not_fatal(installed: None) -> None:
    registry, problems = build_registry(Settings())
    assert [a.name for a in registry] == [*NAMES, "echo", "echo_one", "echo_two"]
    assert registry.get("file_read_bulk") is BUILT_IN[0], "built-in names win"
    assert [problem.split()[1] for problem in problems] == ["broken", "greedy", "missing", "wrong"]


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


@pytest.mark.requirement("R4.5.6", "R4.6.5")
def test_abilities_and_plugins_can_be_switched_off(installed: None) -> None:
    offer, _ = build_offer(Settings(disabled=("memory_read_bulk", "echo")))
    registry = offer.registry
    assert [a.name for a in registry] == [n for n in NAMES if n != "memory_read_bulk"] + [
        "echo_one",
        "echo_two",
    ]
    registry, problems = build_registry(Settings(plugins=False))
    assert [a.name for a in registry] == NAMES
    assert problems == []


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello", None),
        ("crash", "internal"),
        ("refuse", "denied"),
        ("made up", "internal"),
        ("x" * 70_000, "response_too_large"),
    ],
    ids=["hello", "crash", "refuse", "made up", "large"],
)
async def test_a_plugins_ability_behaves_the_same_on_every_surface(
    text: str, reason: str | None, surface: str, settings: Settings, installed: None
) -> None:
    payload = await SURFACES[surface](settings, "echo", {"text": text})

    if reason is None:
        assert payload == {"said": ["hello"]}
    else:
        assert payload["error"]["reason"] == reason


async def test_toon_carries_the_same_payload(settings: Settings, installed: None) -> None:
    from mcp import Client
    from toon_format import loads

    from abilities.adapters.langchain import load_tools
    from abilities.adapters.mcp import create_server

    arguments = {"text": "a, b\n", "times": 2, "output_format": "toon"}
    async with Abilities.open(settings) as abilities:
        payload = await abilities.call("echo", arguments)
        async with Client(create_server(abilities)) as client:
            (part,) = (await client.call_tool("echo", arguments)).content
    (tool,) = load_tools(settings, only=["echo"])
    assert await tool.ainvoke(arguments) == part.text == render(payload, "toon")  # type: ignore[union-attr]
    assert loads(render(payload, "toon")) == payload == {"said": ["a, b\n"] * 2}


async def test_an_unknown_ability_is_a_fault(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        with pytest.raises(AbilityError) as caught:
            await abilities.call("none", {})
    assert caught.value.fault.reason == "unknown_ability"
    assert str(caught.value) == "INVALID_INPUT (unknown_ability): No ability has this name."


@pytest.mark.parametrize("arguments", [[], "text", 5, [("text", "x")]])
async def test_arguments_that_are_no_object_are_refused(arguments: Any, settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        with pytest.raises(AbilityError) as caught:
            await abilities.call("file_read_bulk", arguments)
    assert caught.value.fault.reason == "wrong_type"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="xml"):
        render({}, "xml")  # type: ignore[arg-type]


@pytest.mark.parametrize(("sent", "taken"), [("3", 3), (3.0, 3), (-2, -2), ("-2", -2), ("007", 7)])
def test_a_number_in_another_shape_is_that_number(sent: Any, taken: int) -> None:
    assert Integer.func(sent) == taken  # type: ignore[call-arg]


async def test_a_score_too_large_for_a_float_is_refused_like_any_other(settings: Settings) -> None:
    memory = {"type": "core", "content": "x", "memory_score": 10**400}

    async with Abilities.open(settings) as abilities:
        with pytest.raises(AbilityError) as caught:
            await abilities.call("store_memory", memory)

    assert (caught.value.fault.reason, caught.value.fault.field) == (
        "out_of_range",
        "memory_score",
    )


@pytest.mark.parametrize("text", ["{}", '{"a": 1}'])
def test_metadata_sent_as_json_is_that_object(text: str) -> None:
    memory = {"type": "core", "content": "x", "metadata": text}

    assert validate_arguments(StoreMemoryInput, memory).metadata == json.loads(text)
