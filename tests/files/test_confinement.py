"""Confinement: nothing outside of a root is ever read, though names change under the reader.

Figure 1: 50,000 tries for each of four kinds of race without one escape, while a naive reader,
which checks the resolved path and then opens it, does escape in the same test.
"""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from abilities import Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.files.confinement import (
    MOST_FOLDERS,
    PathRequest,
    open_directory,
    open_file,
    parse_path,
)
from abilities.helpers.files.reader import FileReader, ReadingSession
from abilities.helpers.files.roots import Root, find_ban
from abilities.helpers.threads.circuit_breaker import CircuitBreaker
from abilities.helpers.threads.workers import Batch, Worker, WorkerPool
from tests.support import racer
from tests.support.measurements import reached
from tests.support.tier import size

TRIES = size("ABILITIES_RACE_TRIES", quick=2000, full=50000)
NAIVE_TRIES = size("ABILITIES_NAIVE_TRIES", quick=1, full=20_000)
SECRET = "SECRET from outside"
GIVEN_UP = "symlink_escape"
"""The reason for a name that keeps changing."""

MOST_TRIES = TRIES + 1_000_000
"""A race is run on until both sides were seen: the system may let one process rest for a while."""


@contextmanager
def swap_names(name: Path, other: Path) -> Iterator[None]:
    """Let another process swap two names meanwhile."""
    process = subprocess.Popen(
        [sys.executable, racer.__file__, str(name), str(other)], stdout=subprocess.PIPE
    )

    assert process.stdout is not None
    assert process.stdout.readline() == b"racing\n"

    try:
        yield
        assert process.poll() is None, "the racer died before the race was over"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def build_reader(settings: Settings) -> FileReader:
    roots = [Root(place.name, place.path) for place in settings.roots]
    return FileReader(roots, settings.policy, WorkerPool())


def open_session(settings: Settings) -> AbstractContextManager[ReadingSession]:
    """Open a reading session on this thread."""
    return open_session_of(build_reader(settings))


@contextmanager
def open_session_of(reader: FileReader) -> Iterator[ReadingSession]:
    batch: Batch[ReadingSession, None, None] = Batch(
        reader.open_session, lambda *_: None, [], CircuitBreaker(), lambda: None
    )

    with reader.open_session(Worker(batch)) as session:
        yield session


def read_naively(root: Path, path: str) -> str:
    """Resolve, check the prefix, open: this is a race. A link's '..' is left to the kernel."""
    if path.endswith("up.txt"):
        folder = os.open(root / "d" / "deep", os.O_RDONLY)
        try:
            with open(os.open("../secret.txt", os.O_RDONLY, dir_fd=folder)) as file:
                return file.read()
        finally:
            os.close(folder)

    resolved = Path(os.path.realpath(root / path))
    if not resolved.is_relative_to(os.path.realpath(root)):
        raise PermissionError(path)

    return (root / path).read_text()


class Race(NamedTuple):
    """A path to read while two names, by which it is reached, are swapped."""

    path: str
    name: Path
    other: Path


def file_becomes_link(root: Path, outside: Path) -> Race:
    (root / "a.txt").write_text("inside")
    (root / "swap").symlink_to(outside / "secret.txt")
    return Race("a.txt", root / "a.txt", root / "swap")


def folder_becomes_link(root: Path, outside: Path) -> Race:
    (root / "d").mkdir()
    (root / "d" / "secret.txt").write_text("inside")
    (root / "swap").symlink_to(outside)
    return Race("d/secret.txt", root / "d", root / "swap")


def link_changes_target(root: Path, outside: Path) -> Race:
    (root / "real").mkdir()
    (root / "real" / "secret.txt").write_text("inside")
    (root / "link").symlink_to("real")
    (root / "swap").symlink_to("../outside")
    return Race("link/secret.txt", root / "link", root / "swap")


def folder_moves_up(root: Path, outside: Path) -> Race:
    """The folder that a link climbs out of with '..' is moved, so that '..' is now outside."""
    (root / "d" / "deep").mkdir(parents=True)
    (root / "d" / "secret.txt").write_text("inside")
    (root / "d" / "deep" / "up.txt").symlink_to("../secret.txt")
    (outside / "deep").mkdir()
    (outside / "deep" / "up.txt").symlink_to("../secret.txt")
    return Race("d/deep/up.txt", root / "d" / "deep", outside / "deep")


KINDS = [file_becomes_link, folder_becomes_link, link_changes_target, folder_moves_up]


@pytest.mark.parametrize("kind", KINDS)
def test_no_race_ever_reads_outside_while_the_naive_reader_does(
    kind: Callable[[Path, Path], Race], roots: Settings
) -> None:
    root, outside = roots.workspace_dir, roots.workspace_dir.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    race = kind(root, outside)
    request = parse_path(race.path)
    outcomes: Counter[str] = Counter()

    reader = build_reader(roots)

    with swap_names(race.name, race.other):
        while outcomes.total() < TRIES or outcomes["inside"] <= TRIES // 100:
            # The first read of a session opens the folders, and the second finds them open.
            with open_session_of(reader) as session:
                outcomes[_try_to_read(session, request)] += 1
                outcomes[_try_to_read(session, request)] += 1
            assert outcomes.total() < MOST_TRIES, outcomes

        escapes, naive_tries = _count_naive_escapes(root, race.path)

    assert outcomes.keys() <= {"inside", "symlink_escape"}, outcomes
    assert outcomes["inside"] > TRIES // 100, outcomes
    assert escapes > 0, "the race is not one: even the naive reader never lost it"

    name = kind.__name__.replace("_", " ")
    tries = f"{outcomes.total():,} tries; the naive reader {escapes:,} in {naive_tries:,}"
    reached(1, f"{name}: 0 escapes in {tries}")


def _try_to_read(session: ReadingSession, request: PathRequest) -> str:
    try:
        return session.read(request, 100).piece.text
    except Refused as error:
        return error.reason


def _count_naive_escapes(root: Path, path: str) -> tuple[int, int]:
    """Return how often the naive reader read from outside, and how often it tried."""
    escapes = tries = 0
    while tries < NAIVE_TRIES or (escapes == 0 and tries < MOST_TRIES):
        tries += 1
        try:
            escapes += read_naively(root, path) == SECRET
        except OSError:
            continue

    return escapes, tries


def _list_paths(arguments: dict[str, object]) -> list[str]:
    paths = arguments.get("paths")
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def test_a_descriptor_is_never_left_open(world: object, settings: Settings) -> None:
    from tests.support.file_cases import FILE_ROWS

    before = len(os.listdir("/proc/self/fd"))

    with open_session(settings) as session:
        for path in (path for row in FILE_ROWS for path in _list_paths(row.arguments)):
            try:
                session.read(parse_path(path), 100)
            except Refused:
                continue

    # Others, of tests before, may be closed meanwhile.
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_whole_disk_or_home_is_never_a_root(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_ban(Path("/")) == "the whole disk"
    assert find_ban(Path(os.path.expanduser("~"))) == "your home directory"
    assert find_ban(roots.workspace_dir) is None

    shutil.rmtree(roots.workspace_dir)
    roots.workspace_dir.symlink_to("/")

    with open_session(roots) as session, pytest.raises(Refused, match="root_unavailable"):
        session.read(parse_path("etc/hostname"), 100)


def read(settings: Settings, path: str) -> str:
    """Return a file's text, or the reason why it is not read."""
    with open_session(settings) as session:
        try:
            return session.read(parse_path(path), 100).piece.text
        except Refused as error:
            return error.reason


def test_links_are_followed_as_often_as_the_kernel_does(roots: Settings) -> None:
    top = roots.workspace_dir
    (top / "0").write_text("reached")
    for n in range(1, 43):
        (top / str(n)).symlink_to(str(n - 1))

    assert (read(roots, "40"), (top / "40").read_text()) == ("reached", "reached")
    assert read(roots, "41") == "symlink_loop"

    with pytest.raises(OSError, match="symbolic links"):
        (top / "41").read_text()


def test_a_link_leads_only_so_deep(roots: Settings) -> None:
    deepest = roots.workspace_dir.joinpath(*["d"] * 64)
    deepest.mkdir(parents=True)
    for folders in (63, 64):
        path = "/".join([*["d"] * folders, "file"])
        (roots.workspace_dir / path).write_text("deep")
        (roots.workspace_dir / f"link{folders}").symlink_to(path)

    assert (read(roots, "link63"), read(roots, "link64")) == ("deep", "path_too_deep")


def test_names_that_sort_before_two_dots_are_names(roots: Settings) -> None:
    for name in ("!", "#", "-", "--", "..."):
        folder = roots.workspace_dir / "d" / name
        folder.mkdir(parents=True)
        (folder / "file").write_text(name)
        (roots.workspace_dir / f"to{name}x").symlink_to(f"d/{name}/../{name}/file")

        assert read(roots, f"to{name}x") == name

    (roots.workspace_dir / "slash").symlink_to("d/!/file/")
    (roots.workspace_dir / "folder").symlink_to("d/!/")

    assert (read(roots, "slash"), read(roots, "folder")) == ("dangling_link", "is_directory")


def test_another_root_is_tried_only_if_truly_nothing_is_there(roots: Settings) -> None:
    for name in ("dangling", "file/below", "linked/none", "loop", "folder", "linked-folder"):
        (roots.workspace_dir / name).parent.mkdir(exist_ok=True)
        (roots.workspace_dir / name).write_text("the workspace's")

    (roots.agent_dir / "file").write_text("a file where the workspace has a folder")
    (roots.agent_dir / "dangling").symlink_to("nothing")
    (roots.agent_dir / "loop").symlink_to("loop")
    (roots.agent_dir / "folder").mkdir()
    (roots.agent_dir / "linked").symlink_to("folder")
    (roots.agent_dir / "linked-folder").symlink_to("folder")

    assert read(roots, "file/below") == read(roots, "folder") == "the workspace's"
    for name, reason in {
        "dangling": "dangling_link",
        "loop": "symlink_loop",
        "linked/none": "not_found",
        "linked-folder": "is_directory",
    }.items():
        assert read(roots, name) == reason


def test_a_name_that_cannot_be_looked_at_or_is_gone_again_says_so(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roots.workspace_dir / "link").symlink_to("file")
    (roots.workspace_dir / "file").write_text("found")
    stat = os.stat
    for number, times, reason in (
        (errno.EIO, 1, "io_error"),
        (errno.ENOENT, 1, "found"),
        (errno.ENOENT, 99, GIVEN_UP),
    ):
        failures = [number] * times

        def fail(
            name: str,
            *,
            dir_fd: int | None = None,
            follow_symlinks: bool = True,
            left: list[int] = failures,
        ) -> object:
            if name == "link" and not follow_symlinks and left:
                raise OSError(left.pop(), "refused")

            return stat(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

        monkeypatch.setattr(os, "stat", fail)

        assert read(roots, "link") == reason

        monkeypatch.undo()

    assert read(roots, "link") == "found"


def test_descriptors_are_closed_whatever_their_numbers(roots: Settings) -> None:
    (roots.workspace_dir / "a" / "b").mkdir(parents=True)
    (roots.workspace_dir / "a" / "b" / "file").write_text("deep")
    low = os.open(roots.workspace_dir, os.O_RDONLY | os.O_DIRECTORY)
    high = fcntl.fcntl(low, fcntl.F_DUPFD, 500)
    before = len(os.listdir("/proc/self/fd"))
    for root in (low, high):
        opened = open_file(root, ("a", "b", "file"), roots.policy)
        assert not isinstance(opened, str)
        os.close(opened[0])

    # Others, of tests before, may be closed meanwhile.
    assert len(os.listdir("/proc/self/fd")) <= before

    os.close(low)
    os.close(high)


def test_a_folder_that_is_replaced_during_a_call_leads_nowhere_else(roots: Settings) -> None:
    folder, outside = roots.workspace_dir / "d", roots.workspace_dir.parent / "outside"
    for place in (folder, outside):
        place.mkdir()
        (place / "a.txt").write_text(place.name)
    (outside / "secret.txt").write_text(SECRET)

    with open_session(roots) as session:
        assert session.read(parse_path("d/a.txt"), 100).piece.text == "d"
        folder.rename(roots.workspace_dir / "moved")
        folder.symlink_to(outside)
        assert session.read(parse_path("d/a.txt"), 100).piece.text == "d"
        with pytest.raises(Refused, match="not_found"):
            session.read(parse_path("d/secret.txt"), 100)

    with open_session(roots) as session, pytest.raises(Refused, match="symlink_escape"):
        session.read(parse_path("d/secret.txt"), 100)


def test_a_call_keeps_few_folders_open(roots: Settings) -> None:
    before = len(os.listdir("/proc/self/fd"))

    with open_session(roots) as session:
        for number in range(5 * MOST_FOLDERS):
            (roots.workspace_dir / f"{number}" / "deep").mkdir(parents=True)
            (roots.workspace_dir / f"{number}" / "deep" / "a.txt").write_text(f"{number}")
            request = parse_path(f"{number}/deep/a.txt")
            assert session.read(request, 100).piece.text == f"{number}"
            assert session.read(request, 100).piece.text == f"{number}"

        assert len(os.listdir("/proc/self/fd")) <= before + MOST_FOLDERS + len(roots.roots)

    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_second_name_of_a_file_is_refused_only_if_configured(roots: Settings) -> None:
    for name in ("one", "first"):
        (roots.workspace_dir / name).write_text(name)

    (roots.workspace_dir / "second").hardlink_to(roots.workspace_dir / "first")

    assert [read(roots, name) for name in ("one", "first", "second")] == ["one", "first", "first"]

    strict = roots.model_copy(update={"deny_hardlinks": True})

    assert [read(strict, name) for name in ("one", "first", "second")] == [
        "one",
        "hard_link",
        "hard_link",
    ]


def test_a_root_is_a_folder_that_is_there_and_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()

    def open_root(path: Path, *, optional: bool = False) -> str:
        try:
            descriptor = Root("x", path, optional=optional).open()
        except Refused as error:
            return error.reason

        if descriptor is None:
            return "empty"

        os.close(descriptor)
        return "opened"

    assert open_root(tmp_path) == open_root(tmp_path, optional=True) == "opened"
    assert [open_root(tmp_path / "none", optional=optional) for optional in (True, False)] == [
        "empty",
        "root_unavailable",
    ]
    assert [open_root(tmp_path / "file", optional=optional) for optional in (True, False)] == [
        "root_unavailable"
    ] * 2

    with pytest.raises(Refused, match="root_unavailable"):
        Root("x", tmp_path / "none").open()  # only where it is said may a root be missing

    top = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "link").symlink_to(".")
    for name in ("file", "none", "link"):
        with pytest.raises(Refused, match="io_error"):
            open_directory(name, top)

    os.close(top)
    open_really = os.open
    for number, reason in (
        (errno.EACCES, "access_denied"),
        (errno.EMFILE, "resource_exhausted"),
        (errno.EIO, "root_unavailable"),
        (errno.EPERM, "access_denied"),
    ):

        def fail(path: object, *more: object, number: int = number, **options: object) -> int:
            if str(path).startswith(str(tmp_path)):
                raise OSError(number, "refused")

            return open_really(path, *more, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", fail)

        assert [open_root(tmp_path, optional=optional) for optional in (True, False)] == [
            reason
        ] * 2

        monkeypatch.undo()

    monkeypatch.setenv("HOME", "/no such home")

    assert (
        open_root(tmp_path) == "opened"
        and find_ban(tmp_path) is None
        and find_ban(Path("/")) is not None
    )


def test_the_kernel_agrees_with_every_answer(settings: Settings, unprivileged: None) -> None:
    """``openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)``, the oracle, opens the same files."""
    root = os.open(settings.workspace_dir, os.O_RDONLY | os.O_DIRECTORY)
    compared = 0
    for path in _list_names(settings.workspace_dir):
        request = parse_path(path)
        if settings.policy.deny.denies(request.name) or "link-" in path or "#" in path:
            continue

        ours, kernel = _open_here(root, request.parts, settings), _open_by_kernel(root, path)

        assert ours == kernel, path

        compared += 1

    os.close(root)

    assert compared > 30


def test_the_kernel_agrees_about_links(settings: Settings) -> None:
    root = os.open(settings.workspace_dir, os.O_RDONLY | os.O_DIRECTORY)
    links = [
        name
        for name in _list_names(settings.workspace_dir)
        if "link-" in name and name not in ("link-env",)
    ]
    for path in links:
        assert _open_here(root, parse_path(path).parts, settings) == _open_by_kernel(root, path), (
            path
        )

    os.close(root)

    assert len(links) > 15


def _list_names(root: Path) -> list[str]:
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if "closed" not in path.parts
    )


def _open_here(root: int, parts: tuple[str, ...], settings: Settings) -> int | None:
    try:
        opened = open_file(root, parts, settings.policy)
    except Refused:
        return None

    if isinstance(opened, str):
        return None

    descriptor, status = opened
    os.close(descriptor)
    return status.st_ino


def _open_by_kernel(root: int, path: str) -> int | None:
    import ctypes
    import stat
    import struct

    how = struct.pack("QQQ", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, 0x08 | 0x02)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(437, root, path.encode(), how, len(how))
    if descriptor < 0:
        assert ctypes.get_errno() != 38, "this kernel has no openat2"
        return None

    status = os.fstat(descriptor)
    os.close(descriptor)
    return status.st_ino if stat.S_ISREG(status.st_mode) else None
