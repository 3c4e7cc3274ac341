"""Failures while files are read.

Errors of the system, exhaustion, vanishing roots, growing files, and bugs of our own.
"""

import asyncio
import errno
import logging
import os
import re
import shutil
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from abilities import Abilities, Settings
from abilities.adapters.langchain import load_tools
from abilities.helpers.files import confinement, reader, window
from abilities.registry import Reply
from tests.support.surfaces import SURFACES


def make_failing(function: Callable[..., Any], name: str, number: int) -> Callable[..., Any]:
    """Return an os function that fails for descriptors and paths of one name."""

    def fail(subject: Any, *rest: Any, **more: Any) -> Any:
        path = subject if isinstance(subject, str) else ""
        if isinstance(subject, int):
            path = os.readlink(f"/proc/self/fd/{subject}")

        if path.endswith(name):
            raise OSError(number, os.strerror(number))

        return function(subject, *rest, **more)

    return fail


@pytest.mark.requirement("R5.1.2")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("row", "function", "number", "code", "reason"),
    [
        ("F34", "open", errno.EMFILE, "STORAGE_ERROR", "resource_exhausted"),
        ("F34", "open", errno.ENFILE, "STORAGE_ERROR", "resource_exhausted"),
        ("F34", "read", errno.ENOMEM, "STORAGE_ERROR", "resource_exhausted"),
        ("F35", "read", errno.EIO, "STORAGE_ERROR", "io_error"),
        ("F35", "read", errno.ESTALE, "STORAGE_ERROR", "io_error"),
        ("F35", "read", errno.ENXIO, "STORAGE_ERROR", "io_error"),
        ("F35", "open", errno.EIO, "STORAGE_ERROR", "io_error"),
        ("F19", "open", errno.ENXIO, "PERMISSION_ERROR", "not_regular_file"),
    ],
)
async def test_a_failing_system_call_fails_its_item_alone(
    row: str,
    function: str,
    number: int,
    code: str,
    reason: str,
    surface: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = confinement if function == "open" else window
    monkeypatch.setattr(module.os, function, make_failing(getattr(os, function), "ok.txt", number))
    payload = await SURFACES[surface](
        settings, "file_read_bulk", {"paths": ["dir/a.txt", "ok.txt", "empty.txt"]}
    )
    before, failed, after = payload["results"]

    assert before["success"] and after["success"]
    assert (failed["error"]["code"], failed["error"]["reason"]) == (code, reason)
    assert failed["error"].get("retryable", False) == (code == "STORAGE_ERROR")


@pytest.mark.requirement("R5.6.2")
@pytest.mark.parametrize(
    "error", [RuntimeError("/secret/path leaked"), KeyError("x"), RecursionError(), MemoryError()]
)
@pytest.mark.parametrize("surface", SURFACES)
async def test_our_own_bug_fails_its_item_alone_and_is_in_the_log(
    error: Exception,
    surface: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    read = window.read_piece

    def read_or_fail(fd: int, *rest: Any, **more: Any) -> Any:
        if os.readlink(f"/proc/self/fd/{fd}").endswith("ok.txt"):
            raise error

        return read(fd, *rest, **more)

    monkeypatch.setattr(reader, "read_piece", read_or_fail)

    with caplog.at_level(logging.ERROR, "abilities"):
        payload = await SURFACES[surface](
            settings, "file_read_bulk", {"paths": ["ok.txt", "dir/a.txt"]}
        )

    fault = payload["results"][0]["error"]

    assert payload["results"][1]["success"]

    if isinstance(error, MemoryError):
        assert fault["reason"] == "resource_exhausted"
        return

    assert fault == {
        "code": "INTERNAL_ERROR",
        "reason": "internal",
        "message": "Unexpected error.",
        "ref": fault["ref"],
    }
    assert re.fullmatch("[0-9a-f]{12}", fault["ref"])
    assert fault["ref"] in caplog.text
    assert type(error).__name__ in caplog.text


async def ask(abilities: Abilities, *paths: str) -> list[str]:
    payload = await abilities.call("file_read_bulk", {"paths": list(paths)})
    return [
        r["data"]["content"] if r["success"] else r["error"]["reason"] for r in payload["results"]
    ]


async def test_f37_a_root_that_vanishes_is_unavailable_and_a_new_one_is_served(
    roots: Settings,
) -> None:
    (roots.workspace_dir / "a.txt").write_text("old")
    (roots.agent_dir / "own.txt").write_text("own")

    async with Abilities.open(roots) as abilities:
        assert await ask(abilities, "a.txt", "own.txt") == ["old", "own"]

        shutil.rmtree(roots.workspace_dir)

        assert await ask(abilities, "a.txt", "own.txt") == ["root_unavailable", "own"]

        roots.workspace_dir.mkdir()
        (roots.workspace_dir / "a.txt").write_text("new")

        assert await ask(abilities, "a.txt") == ["new"]

        shutil.rmtree(roots.agent_dir)

        assert await ask(abilities, "a.txt") == ["root_unavailable"]


async def test_f37_a_default_agent_directory_that_never_was_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("here")

    async with Abilities.open(Settings(workspace_dir=tmp_path / "work")) as abilities:
        assert await ask(abilities, "a.txt") == ["here"]

        (tmp_path / ".abilities" / "agent").mkdir(parents=True)
        (tmp_path / ".abilities" / "agent" / "a.txt").write_text("own")

        assert await ask(abilities, "a.txt") == ["own"]

        shutil.rmtree(tmp_path / ".abilities")

        assert await ask(abilities, "a.txt") == ["root_unavailable"]


async def test_f37_every_view_knows_that_the_default_agent_directory_vanished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = tmp_path / ".abilities" / "agent"
    agent.mkdir(parents=True)
    (agent / "a.txt").write_text("own")
    (tmp_path / "work").mkdir()

    async def call_through(name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        return await call()

    async with Abilities.open(Settings(workspace_dir=tmp_path / "work")) as abilities:
        assert await ask(abilities, "a.txt") == ["own"]

        shutil.rmtree(agent)

        views = {
            "same": abilities,
            "namespace": abilities.for_namespace("other"),
            "reading": abilities.for_namespace("other", read_only=True),
            "middleware": abilities.with_middleware(call_through),
            "both": abilities.with_middleware(call_through).for_namespace("other"),
        }
        reasons = {name: await ask(view, "a.txt") for name, view in views.items()}
        (tool,) = load_tools(abilities, only=["file_read_bulk"])
        run = {"configurable": {"namespace": "other"}}
        text = await tool.ainvoke({"paths": ["a.txt"]}, run)  # type: ignore[arg-type]

    assert reasons == {name: ["root_unavailable"] for name in views}
    assert '"root_unavailable"' in text


async def test_f37_a_view_that_uses_the_default_agent_directory_first_tells_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = tmp_path / ".abilities" / "agent"
    (tmp_path / "work").mkdir()

    async with Abilities.open(Settings(workspace_dir=tmp_path / "work")) as abilities:
        assert await ask(abilities.for_namespace("other"), "a.txt") == ["not_found"]

        agent.mkdir(parents=True)
        (agent / "a.txt").write_text("own")

        assert await ask(abilities.for_namespace("other"), "a.txt") == ["own"]

        shutil.rmtree(agent)

        assert await ask(abilities.for_namespace("third"), "a.txt") == ["root_unavailable"]
        assert await ask(abilities, "a.txt") == ["root_unavailable"]


async def test_f24_a_file_that_grows_while_it_is_read_ends(roots: Settings) -> None:
    path = roots.workspace_dir / "growing.log"
    path.write_text("line\n")
    stop = threading.Event()

    def grow() -> None:
        with path.open("a") as file:
            while not stop.is_set() and file.tell() < 200_000_000:
                file.write("another line\n" * 1_000)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        async with Abilities.open(roots) as abilities:
            for _ in range(50):
                payload = await abilities.call("file_read_bulk", {"paths": ["growing.log"]})
                (record,) = payload["results"]

                assert record["success"]
                assert len(record["data"]["content"]) <= 20_000
    finally:
        stop.set()
        thread.join()


async def test_f24_a_huge_file_takes_bounded_memory(roots: Settings) -> None:
    path = roots.workspace_dir / "huge.txt"
    block = b"one line without an end " * 43_690

    with path.open("wb") as file:
        for _ in range(256):
            file.write(block)

    assert path.stat().st_size > 250_000_000

    async with Abilities.open(roots) as abilities:
        await ask(abilities, "none")
        tracemalloc.start()
        heads = {"paths": ["huge.txt"] * 25, "max_chars_per_file": 2_000}
        payload = await abilities.call("file_read_bulk", heads)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        far = await ask(
            abilities, "huge.txt#L2", "huge.txt#L-1", "huge.txt#byte=250000000-250000003"
        )

    assert payload["summary"]["truncated"] == 25
    assert peak < 8_000_000
    assert far == ["range_too_far", "range_too_far", block[250_000_000 % len(block) :][:3].decode()]


@pytest.mark.requirement("R5.2.1")
async def test_m4_no_date_means_today_in_the_configured_zone(roots: Settings) -> None:
    zone = "Pacific/Kiritimati"  # fourteen hours ahead of UTC
    today = datetime.now(ZoneInfo(zone)).date()
    (roots.agent_dir / "memory").mkdir()
    for day in (today, today - timedelta(days=1)):
        (roots.agent_dir / "memory" / f"{day}.md").write_text(str(day))

    targets: list[dict[str, str]] = [
        {"type": "short_term"},
        *({"type": "short_term", "date": d} for d in ("today", "yesterday")),
    ]

    async with Abilities.open(roots.model_copy(update={"timezone": zone})) as abilities:
        payload = await abilities.call("memory_read_bulk", {"targets": targets})
        assert datetime.now(ZoneInfo(zone)).date() == today

    notes = [record["data"] for record in payload["results"]]

    assert [note["date"] for note in notes] == [note["content"] for note in notes]
    assert [note["date"] for note in notes] == [
        str(today),
        str(today),
        str(today - timedelta(days=1)),
    ]


async def test_an_undated_target_continues_on_the_day_it_began(roots: Settings) -> None:
    today = datetime.now().astimezone().date()
    (roots.agent_dir / "memory").mkdir()
    (roots.agent_dir / "memory" / f"{today}.md").write_text("x" * 100)

    async with Abilities.open(roots) as abilities:
        arguments = {"targets": [{"type": "short_term"}], "max_chars_per_item": 10}
        payload = await abilities.call("memory_read_bulk", arguments)

    (following,) = payload["next_request"]["targets"]

    assert following == {"type": "short_term", "date": str(today), "resume": following["resume"]}


async def test_modified_at_is_the_files_own_time_in_utc(roots: Settings) -> None:
    seconds = int(datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC).timestamp())
    path = roots.workspace_dir / "a.txt"
    path.write_text("x")
    os.utime(path, ns=(0, seconds * 1_000_000_000 + 678_999_999))

    async with Abilities.open(roots) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": ["a.txt"]})

    assert payload["results"][0]["data"]["modified_at"] == "2026-03-01T12:30:15.678Z"


async def test_calls_from_several_loops_at_once_do_not_interfere(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:

        def ask_elsewhere() -> list[str]:
            return asyncio.run(ask(abilities, "ok.txt"))

        here = [ask(abilities, "ok.txt") for _ in range(8)]
        there = [asyncio.to_thread(ask_elsewhere) for _ in range(8)]

        assert await asyncio.gather(*here, *there) == [["fine\n"]] * 16
