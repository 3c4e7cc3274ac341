"""The registry, the decorator, and the validation of arguments."""

import json
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
from abilities.declarations.values import JsonObject, Model
from abilities.definition import Context, LazyAbility
from abilities.schemas import validate_arguments
from tests.support.catalog import BUILT_IN
from tests.support.plugins import install

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
from tests.package.test_registry import echo
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


async def test_a_call_that_cannot_be_one_is_a_fault(settings: Settings) -> None:
    memory = {"type": "core", "content": "x", "memory_score": 10**400}  # too large for a float

    async with Abilities.open(settings) as abilities:
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


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="xml"):
        render({}, "xml")  # type: ignore[arg-type]


@pytest.mark.parametrize(("sent", "taken"), [("3", 3), (3.0, 3), (-2, -2), ("-2", -2), ("007", 7)])
def test_a_number_in_another_shape_is_that_number(sent: Any, taken: int) -> None:
    assert Integer.func(sent) == taken  # type: ignore[call-arg]


@pytest.mark.parametrize("text", ["{}", '{"a": 1}'])
def test_metadata_sent_as_json_is_that_object(text: str) -> None:
    memory = {"type": "core", "content": "x", "metadata": text}

    assert validate_arguments(StoreMemoryInput, memory).metadata == json.loads(text)
