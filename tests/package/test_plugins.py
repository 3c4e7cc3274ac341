"""What a plugin does wrong hurts its own call alone: real packages that do everything wrong."""

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, AbilityRegistry, Settings
from abilities.adapters.langchain import load_tools
from abilities.helpers.threads import loops
from tests.memories.calls import calls_of, find_reason
from tests.support.catalog import BUILT_IN
from tests.support.piped import HELLO, build_call, build_request
from tests.support.plugins import TAME, install, read_through_the_context, write_distribution
from tests.support.serving import serving_app
from tests.support.surfaces import SURFACES, environment
from tests.support.waiting import wait_until

SECRET = "/secret/path"
WILD_THREAD = "abilities-plugin-wild_plugin"

WILD = f'''
import asyncio, contextvars, math, os, sys, threading, time
from typing import Annotated
from pydantic import Field
from abilities import Abilities, AbilityError, Arguments, Context, Fault, FileText, Model, Refused
from abilities import ability

release = threading.Event()
waiting = threading.Event()
cancelled = threading.Event()
tag = contextvars.ContextVar("tag", default="none")

class Input(Arguments):
    how: str
    text: Annotated[str, Field(pattern="^(a+)+$")] = "a"
    output_format: str = "json"

class Answer(Model):
    said: object = None

class Other(Model):
    said: int = 1

class Unknown(BaseException): pass

class Unspeakable(Exception):
    def __str__(self): raise SystemExit("{SECRET}")

def nest(depth): return [nest(depth - 1)] if depth else []

def recurse(): return recurse() + 1

async def wait_forever():
    waiting.set()
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.set()

async def exit_in_a_task():
    asyncio.get_running_loop().call_soon(sys.exit, 1)
    task = asyncio.create_task(asyncio.sleep(0))
    task.add_done_callback(lambda _: sys.exit(2))
    await asyncio.sleep(0.01)
    return Answer(said="alive")

async def stop_the_loop():
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return Answer(said="alive")

RAISES = {{
    "exit": SystemExit("{SECRET}"),
    "interrupt": KeyboardInterrupt("{SECRET}"),
    "generator exit": GeneratorExit("{SECRET}"),
    "cancelled": asyncio.CancelledError("{SECRET}"),
    "base": Unknown("{SECRET}"),
    "stop": StopIteration("{SECRET}"),
    "error": RuntimeError("{SECRET}"),
    "timeout": TimeoutError("{SECRET}"),
    "unspeakable": Unspeakable(),
    "memory": MemoryError(),
    "made up reason": AbilityError(Fault(code="NOT_FOUND", reason="{SECRET}", message="x")),
    "other code": AbilityError(Fault(code="NOT_FOUND", reason="internal", message="x")),
    "expected": Refused("out_of_range", "how", expected={{"minimum": object()}}),
    "large expected": Refused("out_of_range", "how", expected={{"one_of": ["x" * 100] * 10_000}}),
}}
ANSWERS = {{
    "nan": lambda: {{"said": math.nan}},
    "infinity": lambda: Answer(said=[1, -math.inf]),
    "bytes": lambda: {{"said": b"\\xff"}},
    "surrogate": lambda: {{"said": "\\ud800"}},
    "number key": lambda: {{"said": {{1: 2}}}},
    "object": lambda: {{"said": object()}},
    "deep": lambda: {{"said": nest(500)}},
    "loop": lambda: Answer.model_construct(said=LOOP),
    "list": lambda: ["said"],
    "none": lambda: None,
    "generator": lambda: (part for part in "said"),
    "other model": lambda: Other(),
    "unknown field": lambda: {{"written": 1}},
    "large": lambda: {{"said": "x" * 10_000_000}},
    "tuple": lambda: {{"said": (1, 2)}},
}}
LOOP = []
LOOP.append(LOOP)

@ability(description="Does what it is told.", read_only=True)
async def wild(context: Context, arguments: Input) -> Answer:
    how = arguments.how
    if how == "block":
        waiting.set()
        release.wait(600)
    if how == "block a thread":
        await asyncio.to_thread(release.wait, 600)
    if how == "spin":
        while not release.is_set():
            await asyncio.sleep(0)
    if how == "stubborn":
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                cancelled.set()
    if how == "wait":
        await wait_forever()
    if how == "recursion":
        recurse()
    if how == "exit in a task":
        return await exit_in_a_task()
    if how == "stop the loop":
        return await stop_the_loop()
    if how == "cancel itself":
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
    if how == "made up refusal":
        raise Refused("no such reason")
    if how == "tag":
        return Answer(said=tag.get())
    if how == "thread":
        return Answer(said=threading.current_thread().name)
    if how in RAISES:
        raise RAISES[how]
    if how in ANSWERS:
        return ANSWERS[how]()
    return Answer(said=how)
'''

POINTS = {"tame": "tame_plugin:tame", "wild": "wild_plugin:wild"}
MODULES = {"tame_plugin": TAME, "wild_plugin": WILD}


@pytest.fixture
async def wild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The module of the installed plugin that does what it is told; what it blocks ends at last."""
    gc.collect()  # an application of a framework's tools ends when it is forgotten
    await wait_until(lambda: WILD_THREAD not in list_names())
    folder = tmp_path / "site"
    folder.mkdir()

    with install(folder, MODULES, POINTS, monkeypatch):
        import wild_plugin  # type: ignore[import-not-found]

        yield wild_plugin
        wild_plugin.release.set()


@pytest.fixture
async def abilities(roots: Settings, wild: Any) -> AsyncIterator[Abilities]:
    """An application with the plugin that does what it is told."""
    async with Abilities.open(roots) as opened:
        yield opened


@contextmanager
def in_haste() -> Iterator[None]:
    """Let calls time out early; only for calls that are to time out, however fast the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "CALL_SECONDS", 0.1)
        patch.setattr(loops, "STALL_SECONDS", 0.1)
        yield


async def read_outcome(abilities: Abilities, how: str) -> Any:
    """Return the reason of a call that fails, or what the call says."""
    reply = await abilities.reply("wild", {"how": how})
    assert SECRET not in reply.text
    assert json.loads(reply.text) == reply.payload
    assert len(reply.text) < 20_000

    if reply.failed:
        return reply.payload["error"]["reason"]
    return reply.payload["said"]


OUTCOMES: dict[str, object] = {
    "memory": "resource_exhausted",
    "large": "response_too_large",
    "expected": "out_of_range",
    "large expected": "out_of_range",
    "tuple": [1, 2],
}
"""What becomes of calls in which something else goes wrong than an internal error."""


async def test_whatever_a_plugin_raises_or_answers_is_a_fault_of_the_closed_set(
    abilities: Abilities, wild: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hows = [*wild.RAISES, *wild.ANSWERS, "recursion", "cancel itself", "made up refusal"]
    wanted = {**dict.fromkeys(hows, "internal"), **OUTCOMES}

    assert {how: await read_outcome(abilities, how) for how in wanted} == wanted
    assert await read_outcome(abilities, "well") == "well"
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == len(wanted) - len(OUTCOMES)
    assert all(message.startswith("unexpected error in wild, ref") for message in logged)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("how", ["tuple", "exit", "cancelled", "nan", "large", "expected"])
async def test_a_plugin_that_goes_wrong_gives_the_same_payload_on_every_surface(
    how: str, surface: str, settings: Settings, wild: Any
) -> None:
    payload = await SURFACES[surface](settings, "wild", {"how": how})
    expected = await SURFACES["python"](settings, "wild", {"how": how})

    for answer in (payload, expected):
        answer.get("error", {}).pop("ref", None)
    assert payload == expected
    assert ("error" in payload) == (how != "tuple")


@pytest.mark.parametrize("how", ["exit in a task", "stop the loop"])
async def test_a_plugins_loop_survives_what_runs_on_it(how: str, abilities: Abilities) -> None:
    assert await read_outcome(abilities, how) == "alive"
    assert await read_outcome(abilities, "thread") == WILD_THREAD
    assert await read_outcome(abilities, "thread") == WILD_THREAD


@pytest.mark.parametrize("how", ["block", "spin", "stubborn", "wait"])
async def test_a_call_that_does_not_end_times_out_and_the_next_one_is_answered(
    how: str, abilities: Abilities
) -> None:
    with in_haste():
        assert await read_outcome(abilities, how) == "timeout"

    assert await read_outcome(abilities, "well") == "well"


@pytest.mark.parametrize("how", ["block", "spin"])
async def test_a_blocked_loop_delays_neither_built_in_calls_nor_those_of_the_same_plugin(
    how: str, abilities: Abilities, wild: Any
) -> None:
    stuck = asyncio.create_task(read_outcome(abilities, how))
    await asyncio.sleep(0)

    assert await abilities.call("get_memory_stats", {})
    others = [read_outcome(abilities, "well") for _ in range(10)]
    assert await asyncio.gather(*others) == ["well"] * 10
    assert not stuck.done()

    wild.release.set()
    assert await stuck == how


def list_names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


async def test_a_plugin_whose_threads_are_all_stuck_is_refused_at_once_until_one_comes_back(
    roots: Settings, wild: Any
) -> None:
    (roots.workspace_dir / "note.txt").write_text("a note")

    async with Abilities.open(roots) as abilities:
        with in_haste():
            while await read_outcome(abilities, "block") != "overloaded":
                assert list_names().count(WILD_THREAD) <= loops.MAX_THREADS

        refused = [await read_outcome(abilities, "well") for _ in range(100)]
        assert refused == ["overloaded"] * 100
        assert list_names().count(WILD_THREAD) == loops.MAX_THREADS

        # Another plugin, and what it reads, is not affected.
        memory = {"type": "core", "content": "kept", "key": "k"}
        await abilities.call("store_memory", memory)
        assert (await abilities.call("tame", {"key": "k"}))["text"] == "a note"

        wild.release.set()
        while await read_outcome(abilities, "well") != "well":
            await asyncio.sleep(0.01)

    await wait_until(lambda: WILD_THREAD not in list_names())


async def test_a_plugin_has_a_bounded_number_of_calls(abilities: Abilities) -> None:
    calls = [asyncio.create_task(read_outcome(abilities, "wait")) for _ in range(loops.MAX_CALLS)]
    await asyncio.sleep(0)
    assert await read_outcome(abilities, "well") == "overloaded"

    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert await read_outcome(abilities, "well") == "well"


async def test_a_caller_that_goes_away_cancels_its_call(abilities: Abilities, wild: Any) -> None:
    call = asyncio.create_task(read_outcome(abilities, "wait"))
    await wait_until(wild.waiting.is_set)
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_until(wild.cancelled.is_set)
    assert await read_outcome(abilities, "well") == "well"


async def test_a_call_runs_in_the_context_of_its_caller(abilities: Abilities, wild: Any) -> None:
    wild.tag.set("mine")

    assert await read_outcome(abilities, "tag") == "mine"


async def test_closing_ends_idle_loops_and_leaves_stuck_ones_behind(
    roots: Settings, wild: Any
) -> None:
    async with Abilities.open(roots) as abilities:
        await abilities.reply("tame", {"key": "none"})
        stuck = asyncio.create_task(read_outcome(abilities, "block"))
        await wait_until(wild.waiting.is_set)

    assert not stuck.done()
    await wait_until(lambda: "abilities-plugin-tame_plugin" not in list_names())
    assert WILD_THREAD in list_names()

    wild.release.set()
    assert await stuck == "block"
    await wait_until(lambda: WILD_THREAD not in list_names())


async def test_a_context_works_on_a_plugins_loop_beside_the_callers(
    roots: Settings, wild: Any
) -> None:
    await read_through_the_context(roots)


async def test_a_pattern_that_others_would_backtrack_in_is_checked_at_once(
    abilities: Abilities,
) -> None:
    wild = {"how": "well", "text": "a" * 50_000 + "b"}

    assert await find_reason(calls_of(abilities), "wild", **wild) == "invalid_format"


async def test_an_application_may_call_its_own_ability_from_a_registry_of_its_own(
    abilities: Abilities, wild: Any
) -> None:
    registry = AbilityRegistry([*BUILT_IN, wild.wild])

    answer = await registry.call("wild", {"how": "thread"}, abilities.context)
    await registry.close()

    assert answer == {"said": WILD_THREAD}
    assert WILD_THREAD not in list_names()


HEAD = """
from dataclasses import replace
from typing import Callable
from pydantic import BaseModel, Field, RootModel, create_model
from abilities import Ability, Arguments, Context, Model, ability
class Answer(Model):
    said: str = ""
class Input(Arguments):
    text: str = ""
@ability(description="Fine.")
async def fine(context: Context, arguments: Input) -> Answer:
    return Answer()
"""
BROKEN = {
    "absent_name": "",
    "exits": "raise SystemExit('bye')",
    "interrupts": "raise KeyboardInterrupt",
    "cancels": "import asyncio\nraise asyncio.CancelledError",
    "imports": "import no_such_module",
    "recurses": "def f(): f()\nf()",
    "syntax": "def",
    "long": "raise ValueError('x\\n\\x1b' * 10_000)",
    "surrogates": "raise ValueError('\\ud800')",
    "unspeakable": "class E(Exception):\n  def __str__(self): raise SystemExit\nraise E",
    "number": "x = 5",
    "crowd": HEAD + "x = [replace(fine, name=f'fine_{n}') for n in range(101)]",
    "subclass": HEAD + "class Own(Ability):\n  def __post_init__(self): pass\n"
    "x = Own('Bad Name', '', '', Input, Answer, fine.run)",
    "exploding": HEAD + "m = Input\nfor n in range(60):\n"
    "  m = create_model(f'M{n}', __base__=Arguments, a=(m, ...), b=(m, ...))\n"
    "x = replace(fine, input=m)",
}
BROKEN_CHANGES = {
    "shadow": "name='file_read_bulk'",
    "described": "description='x' * 5_000",
    "controlled": "description='\\x1b[2J'",
    "half": "title='\\ud800'",
    "untitled": "title=5",
    "hinted": "read_only='yes'",
    "modelless": "answer=dict",
    "uncallable": "run=5",
    "root": "input=RootModel[list[int]]",
}
BROKEN_FIELDS = {
    "unpublishable": "call: Callable[[], int]",
    "endless": "inner: 'C | None' = None",
    "talkative": "text: str = Field(description='x' * 100_000)",
    "undecodable": "text: str = Field(description='\\ud800')",
}
for name, change in BROKEN_CHANGES.items():
    BROKEN[name] = f"{HEAD}x = replace(fine, {change})"
for name, field in BROKEN_FIELDS.items():
    BROKEN[name] = f"{HEAD}class C(Arguments):\n  {field}\nx = replace(fine, input=C)"


async def test_a_plugin_that_cannot_be_loaded_is_a_sentence_and_the_others_are_offered(
    roots: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {f"{name}_plugin": code for name, code in BROKEN.items()}
    points = {name: f"{name}_plugin:x" for name in BROKEN}
    modules["zealous_plugin"] = HEAD
    points["zealous"] = "zealous_plugin:fine"

    with install(tmp_path, modules, points, monkeypatch):
        tools = load_tools(roots)
        async with serving_app(roots) as server:
            abilities = server.abilities
            pages = ["/api/abilities", "/openapi.json", "/healthz", "/readyz", "/metrics"]
            texts = [(await server.ask("GET", page)).text for page in pages]

    problems = {problem.split()[1]: problem for problem in abilities.problems}
    assert abilities.registry.names == [*(built_in.name for built_in in BUILT_IN), "fine"]
    assert [tool.name for tool in tools] == abilities.registry.names
    assert list(problems) == sorted(BROKEN)
    assert all(len(problem) <= 300 and problem.isprintable() for problem in problems.values())
    assert problems["exits"].endswith("it raised SystemExit")
    assert "no_such_module" in problems["imports"] and "file_read_bulk" in problems["shadow"]
    # No remote caller learns of the problems.
    assert not any("_plugin" in text or "SystemExit" in text for text in texts)


NOISY = """
import atexit, os, subprocess, threading, time
def make_noise(word):
    print(word)
    os.write(1, word.encode() + b"\\n")
    subprocess.run(["echo", word])
make_noise("imported")
atexit.register(print, "ended")
from abilities import Arguments, Context, Model, ability
class Answer(Model):
    said: bool
def chatter():
    while True:
        print("chattered")
        time.sleep(0.001)
@ability(description="Prints where it should not.", read_only=True)
async def loud(context: Context, arguments: Arguments) -> Answer:
    threading.Thread(target=chatter, daemon=True).start()
    make_noise("called")
    return Answer(said=True)
"""
COMMANDS = {
    "call": ["call", "loud"],
    "list": ["list", "--json"],
    "describe": ["describe", "loud", "--json"],
    "declarations": ["declarations"],
    "mcp": ["mcp"],
}


def start(folder: Path, settings: Settings, *arguments: str, **options: Any) -> Any:
    """Run a command in a process of its own that finds the plugins of a folder."""
    return subprocess.run(
        [sys.executable, "-m", "abilities", *arguments],
        capture_output=True,
        env={**os.environ, **environment(settings), "PYTHONPATH": str(folder)},
        timeout=120,
        **options,
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", COMMANDS)
def test_stdout_holds_nothing_but_json_whatever_a_plugin_prints(
    name: str, settings: Settings, tmp_path: Path
) -> None:
    write_distribution(tmp_path, {"loud_plugin": NOISY}, {"loud": "loud_plugin:loud"})
    lines = (build_request(1, "initialize", HELLO), build_call(2, "loud"))
    typed = b"".join(line + b"\n" for line in lines) if name == "mcp" else b""

    done = start(tmp_path, settings, *COMMANDS[name], input=typed)

    # One document per line, or one of many lines.
    is_one = done.stdout.startswith(b"{\n")
    answers = [json.loads(text) for text in ([done.stdout] if is_one else done.stdout.splitlines())]
    assert done.returncode == 0, done.stderr
    assert len(answers) == (2 if name == "mcp" else 1)
    assert done.stderr.count(b"imported") == 3
    if name == "call":
        assert answers == [{"said": True}]
        assert done.stderr.count(b"called") == 3


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["block", "block a thread"])
def test_a_process_ends_though_a_plugin_sleeps_on(
    how: str, settings: Settings, tmp_path: Path
) -> None:
    write_distribution(tmp_path, MODULES, POINTS)

    done = start(tmp_path, settings, "call", "wild", json.dumps({"how": how}))

    assert json.loads(done.stdout)["error"]["reason"] == "timeout"
