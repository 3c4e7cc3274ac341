"""Hostile documents and readers: each is the outcome of its item alone."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from abilities import Abilities, Settings
from abilities.helpers.documents import documents
from abilities.plugins import open_documents
from tests.support.document_files import build_pages
from tests.support.hostile_documents import list_hostile
from tests.support.plugins import install
from tests.support.reading import count_descriptors, list_outcomes, read, write_files
from tests.support.rude_readers import POINTS, RUDE
from tests.support.tier import size, spread
from tests.support.waiting import wait_until

FINE = "[page 1]\nThis is page 1\n"
TRIED = size("ABILITIES_HOSTILE", quick=15, full=1_000)


def list_processes(parent: int | None = None) -> set[int]:
    """Return the processes that a process has started, and those that they have."""
    found: set[int] = set()
    for children in Path(f"/proc/{parent or os.getpid()}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found |= {child}
            if Path(f"/proc/{child}").exists():
                found |= list_processes(child)

    return found


def find_converters() -> set[int]:
    """Return the processes of readers that this process has started."""
    found: set[int] = set()
    for process in list_processes():
        try:
            if b"documents.converter" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.add(process)
        except OSError:
            continue  # it has ended

    return found


@pytest.fixture
def workspace(roots: Settings) -> Path:
    assert roots.workspace_dir is not None
    (roots.workspace_dir / "fine.pdf").write_bytes(build_pages(1))
    return roots.workspace_dir


@pytest.fixture
async def app(
    roots: Settings, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Abilities]:
    """An application with the rude readers, whose documents have three seconds."""
    monkeypatch.setattr(documents, "SECONDS", 3)
    package = tmp_path / "package"
    package.mkdir()
    with install(package, {"rude": RUDE}, POINTS, monkeypatch, "abilities.readers"):
        async with Abilities.open(roots) as opened:
            assert opened.problems == []
            yield opened


async def test_every_hostile_document_is_an_outcome_of_its_own(
    app: Abilities, workspace: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text("never shown")
    hostile = list(list_hostile(str(canary)))
    assert len(hostile) > 100

    for number in sorted(spread(TRIED, len(hostile))):
        name, content = hostile[number]
        write_files(workspace, {name: content, "fine.pdf": build_pages(1)})
        outcome, fine = await read(app, name, "fine.pdf")

        assert fine == FINE, name
        assert "never shown" not in outcome, name
        is_text = outcome.startswith(("[", "{", "a\n", "")) and "\0" not in outcome
        assert outcome in ("unreadable_document", "binary_file") or is_text, name


async def test_a_reader_can_do_nothing_but_read(
    app: Abilities, workspace: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text("never shown")
    before = sorted(tmp_path.iterdir())
    (workspace / "a.escape").write_text(str(canary))

    (text,) = await read(app, "a.escape")

    outcomes = text.splitlines()[1::2]
    assert len(outcomes) == 16
    assert set(outcomes) == {"PermissionError", "MemoryError"}, text
    assert sorted(tmp_path.iterdir()) == before


async def test_a_reader_sees_no_variables_and_no_other_files(
    app: Abilities, workspace: Path
) -> None:
    (workspace / "a.look").write_text("x")

    (text,) = await read(app, "a.look")

    variables, descriptors = text.splitlines()[1::2]
    assert set(eval(variables)) <= {"LC_CTYPE"}  # Python itself sets it
    assert descriptors == "[0, 1, 2]"


async def test_a_reader_that_fails_affects_no_other(app: Abilities, workspace: Path) -> None:
    for kind in ("end", "leave", "recur", "swell", "lie"):
        (workspace / f"a.{kind}").write_text("x")

        outcomes = await read(app, f"a.{kind}", "fine.pdf", f"a.{kind}")

        assert outcomes == ["unreadable_document", FINE, "unreadable_document"], kind


@pytest.mark.parametrize("kind", ["crash", "hang"])
async def test_the_parts_before_a_failure_are_kept(
    app: Abilities, workspace: Path, kind: str
) -> None:
    (workspace / f"a.{kind}").write_text("x")

    text, fine = await read(app, f"a.{kind}", "fine.pdf")

    assert text == f"[part one]\nfine\n{documents.REST_IS_MISSING.decode()}"
    assert fine == FINE


async def test_an_endless_text_is_cut(app: Abilities, workspace: Path) -> None:
    (workspace / "a.flood").write_text("x")

    (end,) = await read(app, "a.flood#L-3")

    assert end == "x" * 99 + "\n" + "x" * 99 + "\n" + documents.REST_IS_MISSING.decode()


async def test_many_that_hang_leave_no_thread_or_descriptor(
    app: Abilities, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "SECONDS", 1)
    await read(app, "fine.pdf")
    before = count_descriptors()
    names = [f"{number}.hang" for number in range(9)]
    write_files(workspace, names)

    outcomes = await read(app, *names)

    assert all(text.startswith("[part one]\nfine\n") or text == "timeout" for text in outcomes)
    await wait_until(lambda: count_descriptors() <= before)


async def test_the_documents_of_one_root_leave_room_for_those_of_others(
    app: Abilities, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "SECONDS", 60)
    texts, _ = open_documents(plugins=True)
    names = [f"{number}.hang" for number in range(documents.AT_ONCE + 1)]
    write_files(workspace, names)

    def begin(root: str, name: str) -> documents.Text:
        with open(workspace / name, "rb") as file, pytest.raises(documents.Converting) as raised:
            texts.find_text(root, name, file.fileno(), os.fstat(file.fileno()))
        return raised.value.text

    try:
        of_one = {begin("one", name) for name in names}
        assert len(of_one) == documents.MOST_OF_ONE_ROOT
        assert begin("other", names[-1]) not in of_one
    finally:
        texts.close()


async def test_a_text_is_kept_for_the_next_piece(app: Abilities, workspace: Path) -> None:
    (workspace / "a.stamp").write_text("x")

    (first,) = await read(app, "a.stamp")
    again, piece, part = await read(app, "a.stamp", "a.stamp#L2", "a.stamp#p1")
    os.utime(workspace / "a.stamp", ns=(1, 1))
    (changed,) = await read(app, "a.stamp")

    assert first == again == part == f"[stamp one]\n{piece}"
    assert changed != first


async def test_the_oldest_texts_are_forgotten(
    app: Abilities, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "CACHE_BYTES", 100)
    names = [f"{number}.stamp" for number in range(10)]
    write_files(workspace, names)

    first = await read(app, *names)
    again = await read(app, *names)

    assert len(first) == len(again) == 10 and first != again


async def test_a_file_that_changes_meanwhile_is_read_again(
    app: Abilities, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "SECONDS", 8)
    path = workspace / "a.wait"
    path.write_text("x")

    reading = asyncio.create_task(read(app, "a.wait"))
    await wait_until(lambda: len(find_converters()) == 2)
    path.write_text("changed")

    assert await reading == ["new\nold\n"]


async def test_a_process_that_cannot_start_is_a_passing_error(
    app: Abilities, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        assert await read(app, "fine.pdf") == ["resource_exhausted"]

    assert await read(app, "fine.pdf") == [FINE]


async def test_no_process_is_started_without_a_document(app: Abilities, workspace: Path) -> None:
    write_files(workspace, {"notes.md": "tea"})

    await read(app, "notes.md", "absent.pdf")

    assert find_converters() == set()


async def test_one_process_serves_all_and_ends_with_the_application(
    roots: Settings, workspace: Path
) -> None:
    async with Abilities.open(roots) as app:
        await read(app, "fine.pdf")
        (workspace / "fine.pdf").write_bytes(build_pages(2))
        await read(app, "fine.pdf")
        started = find_converters()

    assert len(started) == 1 and find_converters() == set()


async def test_a_killed_process_is_started_anew(app: Abilities, workspace: Path) -> None:
    await read(app, "fine.pdf")
    (killed,) = find_converters()
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    (workspace / "fine.pdf").write_bytes(build_pages(2))

    (text,) = await read(app, "fine.pdf#p1")

    assert text == FINE and find_converters() != {killed}


_SERVER = """
import asyncio, sys
from abilities import Abilities, Settings
async def main():
    settings = Settings(agent_dir=sys.argv[1], workspace_dir=sys.argv[2])
    async with Abilities.open(settings) as app:
        await app.call("file_read_bulk", {"paths": ["fine.pdf"]})
        print("read", flush=True)
        await asyncio.sleep(1000)
asyncio.run(main())
"""


async def test_no_process_outlives_the_one_that_started_it(
    roots: Settings, workspace: Path
) -> None:
    command = [sys.executable, "-c", _SERVER, str(roots.agent_dir), str(workspace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "read\n"
        started = list_processes(server.pid)
        server.kill()

    assert started
    await wait_until(lambda: not any(Path(f"/proc/{process}").exists() for process in started))


async def test_readers_that_cannot_be_loaded_are_problems(
    roots: Settings, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"bad": "broken:BAD", "none": "broken:NONE", "gone": "broken:GONE"}
    code = "class BAD: suffixes = ('.a',); magic = 'text'; imports = ()\nNONE = None\n"
    package = tmp_path / "package"
    package.mkdir()
    with install(package, {"broken": code}, points, monkeypatch, "abilities.readers"):
        async with Abilities.open(roots) as app:
            problems = app.problems
            (fine,) = list_outcomes(await app.call("file_read_bulk", {"paths": ["fine.pdf"]}))

    assert len(problems) == 3 and fine == FINE
