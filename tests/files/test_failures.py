"""Errors of the system, exhaustion, vanishing roots, growing files, and bugs of our own.

Every kind of failure may stand between successes, and nothing is lost.
"""

import asyncio
import errno
import logging
import os
import random
import re
import shutil
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from abilities import Abilities, Settings
from abilities.adapters.langchain import load_tools
from abilities.helpers.files import confinement, reader, window
from abilities.registry import Reply
from tests.support.mixed_batches import Expected, check_answer, mix, read_one_at_a_time
from tests.support.reading import fail_for, follow, list_outcomes, read, write_files
from tests.support.surfaces import SURFACES


@pytest.mark.requirement("R5.1.2")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("function", "number", "reason"),
    [
        pytest.param("open", errno.EMFILE, "resource_exhausted", id="F34"),
        pytest.param("open", errno.ENFILE, "resource_exhausted", id="F34-system"),
        pytest.param("read", errno.ENOMEM, "resource_exhausted", id="F34-memory"),
        pytest.param("read", errno.EIO, "io_error", id="F35"),
        pytest.param("read", errno.ESTALE, "io_error", id="F35-stale"),
        pytest.param("read", errno.ENXIO, "io_error", id="F35-device"),
        pytest.param("open", errno.EIO, "io_error", id="F35-open"),
        pytest.param("open", errno.ENXIO, "not_regular_file", id="F19"),
    ],
)
async def test_a_failing_system_call_fails_its_item_alone(
    function: str,
    number: int,
    reason: str,
    surface: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = confinement if function == "open" else window
    failing = fail_for("ok.txt", getattr(os, function), OSError(number, os.strerror(number)))
    monkeypatch.setattr(module.os, function, failing)
    payload = await SURFACES[surface](
        settings, "file_read_bulk", {"paths": ["dir/a.txt", "ok.txt", "empty.txt"]}
    )
    before, failed, after = payload["results"]
    is_ours = reason != "not_regular_file"

    assert before["success"] and after["success"]
    assert failed["error"]["code"] == ("STORAGE_ERROR" if is_ours else "PERMISSION_ERROR")
    assert failed["error"]["reason"] == reason
    assert failed["error"].get("retryable", False) == is_ours


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
    monkeypatch.setattr(reader, "read_piece", fail_for("ok.txt", window.read_piece, error))

    with caplog.at_level(logging.ERROR, "abilities"):
        payload = await SURFACES[surface](
            settings, "file_read_bulk", {"paths": ["ok.txt", "dir/a.txt"]}
        )

    fault = payload["results"][0]["error"]

    assert payload["results"][1]["success"]

    if isinstance(error, MemoryError):
        assert fault["reason"] == "resource_exhausted"
        return

    nothing_leaks = {"code": "INTERNAL_ERROR", "reason": "internal", "message": "Unexpected error."}
    assert fault == {**nothing_leaks, "ref": fault["ref"]}
    assert re.fullmatch("[0-9a-f]{12}", fault["ref"])
    assert fault["ref"] in caplog.text
    assert type(error).__name__ in caplog.text


async def test_f37_a_root_that_vanishes_is_missed_and_a_new_one_served(roots: Settings) -> None:
    write_files(roots.workspace_dir, {"a.txt": "old"})
    write_files(roots.agent_dir, {"own.txt": "own"})

    async with Abilities.open(roots) as abilities:
        assert await read(abilities, "a.txt", "own.txt") == ["old", "own"]

        shutil.rmtree(roots.workspace_dir)
        assert await read(abilities, "a.txt", "own.txt") == ["root_unavailable", "own"]

        write_files(roots.workspace_dir, {"a.txt": "new"})
        assert await read(abilities, "a.txt") == ["new"]

        shutil.rmtree(roots.agent_dir)
        assert await read(abilities, "a.txt") == ["root_unavailable"]


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with the default agent directory, which is not there yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write_files(tmp_path / "work", {"a.txt": "here"})
    return Settings(workspace_dir=tmp_path / "work")


async def call_through(name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
    return await call()


@pytest.mark.parametrize("first", ["itself", "another view"])
async def test_f37_every_view_knows_that_it_vanished_later(first: str, at_home: Settings) -> None:
    async with Abilities.open(at_home) as abilities:
        user = abilities if first == "itself" else abilities.for_namespace("other")
        assert await read(user, "a.txt", "none.txt") == ["here", "not_found"]

        write_files(at_home.agent_dir, {"a.txt": "own"})
        assert await read(user, "a.txt") == ["own"]

        shutil.rmtree(at_home.agent_dir)
        views = {
            "same": abilities,
            "namespace": abilities.for_namespace("third"),
            "reading": abilities.for_namespace("other", read_only=True),
            "middleware": abilities.with_middleware(call_through),
            "both": abilities.with_middleware(call_through).for_namespace("other"),
        }
        reasons = {name: await read(view, "a.txt") for name, view in views.items()}
        (tool,) = load_tools(abilities, only=["file_read_bulk"])
        run = {"configurable": {"namespace": "other"}}
        text = await tool.ainvoke({"paths": ["a.txt"]}, run)  # type: ignore[arg-type]

    assert reasons == {name: ["root_unavailable"] for name in views}
    assert '"root_unavailable"' in text


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
                (content,) = await read(abilities, "growing.log")
                assert content.startswith("line\nanother") or content == "line\n"
                assert len(content) <= 20_000
    finally:
        stop.set()
        thread.join()


async def test_f24_a_huge_file_takes_bounded_memory(roots: Settings) -> None:
    block = b"one line without an end " * 43_690
    with (roots.workspace_dir / "huge.txt").open("wb") as file:
        file.writelines([block] * 72)

    async with Abilities.open(roots) as abilities:
        await read(abilities, "none")
        tracemalloc.start()
        heads = {"paths": ["huge.txt"] * 25, "max_chars_per_file": 2_000}
        payload = await abilities.call("file_read_bulk", heads)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        parts = ("L2", "L-1", "byte=75000000-75000003")
        far = await read(abilities, *(f"huge.txt#{part}" for part in parts))

    assert payload["summary"]["truncated"] == 25
    assert peak < 8_000_000
    assert far == ["range_too_far", "range_too_far", block[75_000_000 % len(block) :][:3].decode()]


@pytest.mark.requirement("R5.2.1")
async def test_m4_no_date_means_today_in_the_configured_zone(roots: Settings) -> None:
    """And what goes on says which day it was."""
    zone = "Pacific/Kiritimati"  # fourteen hours ahead of UTC
    today = datetime.now(ZoneInfo(zone)).date()
    days = [str(today), str(today), str(today - timedelta(days=1))]
    write_files(roots.agent_dir / "memory", {f"{day}.md": day * 9 for day in days})
    targets = [
        {"type": "short_term", **date} for date in ({}, {"date": "today"}, {"date": "yesterday"})
    ]
    request = {"targets": targets, "max_chars_per_item": 10}

    async with Abilities.open(roots.model_copy(update={"timezone": zone})) as abilities:
        payload = await abilities.call("memory_read_bulk", request)
        assert datetime.now(ZoneInfo(zone)).date() == today

    assert list_outcomes(payload) == days
    assert [record["data"]["date"] for record in payload["results"]] == days
    assert [target["date"] for target in payload["next_request"]["targets"]] == days


async def test_modified_at_is_the_files_own_time_in_utc(roots: Settings) -> None:
    seconds = int(datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC).timestamp())
    write_files(roots.workspace_dir, ["a.txt"])
    os.utime(roots.workspace_dir / "a.txt", ns=(0, seconds * 1_000_000_000 + 678_999_999))

    async with Abilities.open(roots) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": ["a.txt"]})

    assert payload["results"][0]["data"]["modified_at"] == "2026-03-01T12:30:15.678Z"


async def test_calls_from_several_loops_at_once_do_not_interfere(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        read_it = partial(read, abilities, "ok.txt")
        here = [read_it() for _ in range(8)]
        there = [asyncio.to_thread(lambda: asyncio.run(read_it())) for _ in range(8)]

        assert await asyncio.gather(*here, *there) == [["fine\n"]] * 16


SUCCESSES = [
    Expected("ok.txt", content="fine\n"),
    Expected("both.txt", content="from the agent"),
    Expected("empty.txt"),
    Expected("lines.txt#L10-L11", content="line 10\nline 11\n"),
    Expected("bom16le.txt", content="hällo\n世"),
    Expected("link-inside.txt", content="fine\n"),
    Expected("folder.txt", content="beside the agent's folder"),
]

FAILURES = [
    Expected(5, "not_a_string"),
    Expected("", "empty_path"),
    Expected("/etc/passwd", "absolute_path"),
    Expected("../secret.txt", "parent_traversal"),
    Expected("a\\b", "backslash"),
    Expected("C:/x", "drive_path"),
    Expected("a\nb", "control_character"),
    Expected("x" * 2000, "path_too_long"),
    Expected("/".join("d" * 33), "path_too_deep"),
    Expected("ok.txt/", "trailing_slash"),
    Expected("dir", "is_directory"),
    Expected("missing.txt", "not_found"),
    Expected("link-dangling", "dangling_link"),
    Expected("link-outside.txt", "symlink_escape"),
    Expected("link-self", "symlink_loop"),
    Expected("id_rsa", "denied"),
    Expected("fifo", "not_regular_file"),
    Expected("mode000.txt", "access_denied"),
    Expected("locked.txt", "access_denied"),
    Expected("picture.png", "binary_file"),
    Expected("lines.txt#L9-L3", "invalid_range"),
    Expected("lines.txt#byte=7@000000000000", "changed"),
]

BATCHES = list(mix(SUCCESSES, FAILURES))


@pytest.mark.requirement("R5.6.2", "R5.7.2")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("batch", BATCHES, ids=range(len(BATCHES)))
async def test_each_item_of_a_mixed_batch_has_its_own_outcome(
    batch: list[Expected], surface: str, settings: Settings, unprivileged: None
) -> None:
    paths = [expected.item for expected in batch]

    answer = await SURFACES[surface](settings, "file_read_bulk", {"paths": paths})

    check_answer(answer, batch)


@pytest.mark.parametrize("batch", BATCHES, ids=range(len(BATCHES)))
async def test_an_item_gets_in_a_mixed_batch_what_it_gets_alone(
    batch: list[Expected], settings: Settings, unprivileged: None
) -> None:
    paths = [expected.item for expected in batch]

    async with Abilities.open(settings) as abilities:
        together = await abilities.call("file_read_bulk", {"paths": paths})
        alone = await read_one_at_a_time(abilities, "file_read_bulk", "paths", batch)

    assert together["results"] == alone


async def test_a_mixed_batch_over_the_budget_loses_nothing(roots: Settings) -> None:
    """Failures are told once; what did not fit comes with the next requests, each byte once."""
    settings = roots.model_copy(update={"max_response_bytes": 40_000})
    texts = {f"{n:02}.txt": f"{n:02} äöü\n" * random.Random(n).randint(1, 2_000) for n in range(12)}
    write_files(roots.workspace_dir, texts)
    paths = [path for name in texts for path in (name, f"missing-{name}")]
    request = {"paths": paths, "max_chars_per_file": 100_000}
    pieces = dict.fromkeys(texts, "")
    failures: list[str] = []

    async with Abilities.open(settings) as abilities:
        answers = [answer async for answer in follow(abilities, "file_read_bulk", request)]

    for record in (record for answer in answers for record in answer["results"]):
        if record["success"]:
            pieces[record["data"]["path"]] += record["data"]["content"]
        elif record["error"]["reason"] != "response_budget":
            failures.append(f"{record['input']}: {record['error']['reason']}")

    assert pieces == texts
    assert failures == [f"missing-{name}: not_found" for name in texts]
    assert len(answers) > 2
