"""Confinement: nothing outside of a root is ever read, though names change under the reader.

Figure 1: 50,000 tries for each of four kinds of race without one escape, while a naive reader,
which checks the resolved path and then opens it, does escape in the same test.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import stat
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from abilities import Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.files.confinement import (
    MOST_FOLDERS,
    OpenFolders,
    open_directory,
    open_file,
    parse_path,
)
from abilities.helpers.files.files import Files
from abilities.helpers.files.reader import ReadingSession, Root, find_ban
from abilities.helpers.threads.circuit_breaker import CircuitBreaker
from abilities.helpers.threads.workers import Batch, Worker, WorkerPool
from tests.support.file_cases import FILE_ROWS
from tests.support.forked import Forked
from tests.support.measurements import reached
from tests.support.reading import count_descriptors, fail_for, write_files
from tests.support.tier import size

TRIES = size("ABILITIES_RACE_TRIES", quick=2_000, full=20_000)
NAIVE_TRIES = size("ABILITIES_NAIVE_TRIES", quick=1, full=10_000)
SECRET = "SECRET from outside"
GIVEN_UP = "symlink_escape"
"""The reason for a name that keeps changing."""

MOST_TRIES = TRIES + 1_000_000
"""A race is run on until both sides were seen: the system may let one process rest for a while."""


# Both names exist at every moment, and each stands for one thing, then for the other.
RACER = """
import ctypes, sys
AT_FDCWD, RENAME_EXCHANGE = -100, 2
exchange = ctypes.CDLL(None).renameat2
names = [name.encode() for name in sys.argv[1:]]
swap = AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE
assert exchange(*swap) == 0
print("racing", flush=True)
while exchange(*swap) == 0:
    pass
"""


@contextmanager
def swap_names(name: Path, other: Path) -> Iterator[None]:
    """Let another process swap two names meanwhile, as fast as the system can."""
    process = Forked(RACER, name, other)
    try:
        assert process.stdout.readline() == b"racing\n"
        yield
        assert process.poll() is None, "the racer died before the race was over"
    finally:
        process.kill()
        process.communicate()


def build_reader(settings: Settings) -> Files:
    roots = [Root(place.name, place.path) for place in settings.roots]
    return Files(roots, settings.policy, WorkerPool())


@contextmanager
def open_session(of: Settings | Files) -> Iterator[ReadingSession]:
    """Open a reading session on this thread."""
    reader = build_reader(of) if isinstance(of, Settings) else of
    batch: Batch[ReadingSession, None, None] = Batch(
        reader.open_session, lambda *_: None, [], CircuitBreaker(), lambda: None
    )

    with reader.open_session(Worker(batch)) as session:
        yield session


def read(of: Settings | ReadingSession, path: str) -> str:
    """Return the beginning of a file's text, or the reason why it is not read."""
    if isinstance(of, Settings):
        with open_session(of) as session:
            return read(session, path)

    try:
        return of.read(parse_path(path), 100).piece.text
    except Refused as error:
        return error.reason


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
    write_files(root, {"a.txt": "inside"})
    (root / "swap").symlink_to(outside / "secret.txt")
    return Race("a.txt", root / "a.txt", root / "swap")


def folder_becomes_link(root: Path, outside: Path) -> Race:
    write_files(root, {"d/secret.txt": "inside"})
    (root / "swap").symlink_to(outside)
    return Race("d/secret.txt", root / "d", root / "swap")


def link_changes_target(root: Path, outside: Path) -> Race:
    write_files(root, {"real/secret.txt": "inside"})
    (root / "link").symlink_to("real")
    (root / "swap").symlink_to("../outside")
    return Race("link/secret.txt", root / "link", root / "swap")


def folder_moves_up(root: Path, outside: Path) -> Race:
    """The folder that a link climbs out of with '..' is moved, so that '..' is now outside."""
    write_files(root, {"d/secret.txt": "inside"})
    for folder in (root / "d", outside):
        (folder / "deep").mkdir()
        (folder / "deep" / "up.txt").symlink_to("../secret.txt")
    return Race("d/deep/up.txt", root / "d" / "deep", outside / "deep")


KINDS = [file_becomes_link, folder_becomes_link, link_changes_target, folder_moves_up]


@pytest.mark.parametrize("kind", KINDS)
def test_no_race_ever_reads_outside_while_the_naive_reader_does(
    kind: Callable[[Path, Path], Race], roots: Settings
) -> None:
    root, outside = roots.workspace_dir, roots.workspace_dir.parent / "outside"
    write_files(outside, {"secret.txt": SECRET})
    race = kind(root, outside)
    outcomes: Counter[str] = Counter()
    reader = build_reader(roots)

    with swap_names(race.name, race.other):
        while outcomes.total() < TRIES or outcomes["inside"] <= TRIES // 100:
            # The first read of a session opens the folders, and the second finds them open.
            with open_session(reader) as session:
                outcomes.update(read(session, race.path) for _ in range(2))
            assert outcomes.total() < MOST_TRIES, outcomes

        escapes, naive_tries = _count_naive_escapes(root, race.path)

    assert outcomes.keys() <= {"inside", "symlink_escape"}, outcomes
    assert outcomes["inside"] > TRIES // 100, outcomes
    assert escapes > 0, "the race is not one: even the naive reader never lost it"

    name = kind.__name__.replace("_", " ")
    tries = f"{outcomes.total():,} tries; the naive reader {escapes:,} in {naive_tries:,}"
    reached(1, f"{name}: 0 escapes in {tries}")


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


def test_a_descriptor_is_never_left_open(world: object, settings: Settings) -> None:
    rows = (
        row.arguments["paths"] for row in FILE_ROWS if isinstance(row.arguments.get("paths"), list)
    )
    before = count_descriptors()

    with open_session(settings) as session:
        for path in (path for paths in rows for path in paths if isinstance(path, str)):
            read(session, path)

    # Others, of tests before, may be closed meanwhile.
    assert count_descriptors() <= before


def test_a_whole_disk_or_home_is_never_a_root(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_ban(Path("/")) == "the whole disk"
    assert find_ban(Path(os.path.expanduser("~"))) == "your home directory"
    assert find_ban(roots.workspace_dir) is None

    shutil.rmtree(roots.workspace_dir)
    roots.workspace_dir.symlink_to("/")

    assert read(roots, "etc/hostname") == "root_unavailable"

    monkeypatch.setenv("HOME", "/no such home")

    assert find_ban(roots.agent_dir) is None
    assert find_ban(Path("/")) is not None


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
    for folders in (63, 64):
        path = "d/" * folders + "file"
        write_files(roots.workspace_dir, {path: "deep"})
        (roots.workspace_dir / f"link{folders}").symlink_to(path)

    assert (read(roots, "link63"), read(roots, "link64")) == ("deep", "path_too_deep")


def test_names_that_sort_before_two_dots_are_names(roots: Settings) -> None:
    for name in ("!", "#", "-", "--", "..."):
        write_files(roots.workspace_dir, {f"d/{name}/file": name})
        (roots.workspace_dir / f"to{name}x").symlink_to(f"d/{name}/../{name}/file")

        assert read(roots, f"to{name}x") == name

    (roots.workspace_dir / "slash").symlink_to("d/!/file/")
    (roots.workspace_dir / "folder").symlink_to("d/!/")

    assert (read(roots, "slash"), read(roots, "folder")) == ("dangling_link", "is_directory")


def test_another_root_is_tried_only_if_truly_nothing_is_there(roots: Settings) -> None:
    outcomes = {
        "file/below": "the workspace's",
        "folder": "the workspace's",
        "dangling": "dangling_link",
        "loop": "symlink_loop",
        "linked/none": "not_found",
        "linked-folder": "is_directory",
    }
    write_files(roots.workspace_dir, dict.fromkeys(outcomes, "the workspace's"))
    write_files(roots.agent_dir, {"file": "a file where the workspace has a folder"})
    (roots.agent_dir / "folder").mkdir()
    for link, target in {
        "dangling": "nothing",
        "loop": "loop",
        "linked": "folder",
        "linked-folder": "folder",
    }.items():
        (roots.agent_dir / link).symlink_to(target)

    assert {name: read(roots, name) for name in outcomes} == outcomes


@pytest.mark.parametrize(
    ("number", "times", "reason"),
    [(errno.EIO, 1, "io_error"), (errno.ENOENT, 1, "found"), (errno.ENOENT, 99, GIVEN_UP)],
)
def test_a_name_that_cannot_be_looked_at_or_is_gone_again_says_so(
    number: int, times: int, reason: str, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(roots.workspace_dir, {"file": "found"})
    (roots.workspace_dir / "link").symlink_to("file")
    stat_really, failures = os.stat, [number] * times

    def fail(name: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> object:
        if name == "link" and not follow_symlinks and failures:
            raise OSError(failures.pop(), "refused")

        return stat_really(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        assert read(roots, "link") == reason

    assert read(roots, "link") == "found"


def test_descriptors_are_closed_whatever_their_numbers(roots: Settings) -> None:
    write_files(roots.workspace_dir, {"a/b/file": "deep"})
    low = os.open(roots.workspace_dir, os.O_RDONLY | os.O_DIRECTORY)
    high = fcntl.fcntl(low, fcntl.F_DUPFD, 500)
    before = count_descriptors()
    for root in (low, high):
        opened = open_file(root, ("a", "b", "file"), roots.policy)
        assert not isinstance(opened, str)
        os.close(opened[0])

    # Others, of tests before, may be closed meanwhile.
    assert count_descriptors() <= before

    os.close(low)
    os.close(high)


def test_a_folder_that_is_replaced_during_a_call_leads_nowhere_else(roots: Settings) -> None:
    folder, outside = roots.workspace_dir / "d", roots.workspace_dir.parent / "outside"
    write_files(folder, {"a.txt": "inside"})
    write_files(outside, {"a.txt": SECRET, "secret.txt": SECRET})

    with open_session(roots) as session:
        assert read(session, "d/a.txt") == "inside"
        folder.rename(roots.workspace_dir / "moved")
        folder.symlink_to(outside)
        assert read(session, "d/a.txt") == "inside"
        assert read(session, "d/secret.txt") == "not_found"

    assert read(roots, "d/secret.txt") == "symlink_escape"


def test_a_call_keeps_few_folders_open(roots: Settings) -> None:
    paths = [f"{number}/deep/a.txt" for number in range(5 * MOST_FOLDERS)]
    write_files(roots.workspace_dir, paths)
    before = count_descriptors()

    with open_session(roots) as session:
        assert [read(session, path) for path in paths] == paths
        assert count_descriptors() <= before + MOST_FOLDERS + len(roots.roots)

    assert count_descriptors() <= before


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_folders_on_the_way_are_opened_once(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "src/core", ["a/f", "b/f", "c/f"])
    opened: list[str] = []
    open_one = os.open

    def note(name: str, flags: int, *, dir_fd: int) -> int:
        opened.append(name)
        return open_one(name, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", note)
    with OpenFolders() as folders:
        for name in "abcab":
            descriptor = folders.open(root, ("src", "core", name))
            assert os.path.samestat(os.fstat(descriptor), (tmp_path / "src/core" / name).stat())
        with pytest.raises(FileNotFoundError):
            folders.open(root, ("src", "core", "none", "deeper"))

    assert opened == ["src", "core", "a", "b", "c", "none"]


def test_a_second_name_of_a_file_is_refused_only_if_configured(roots: Settings) -> None:
    write_files(roots.workspace_dir, ["one", "first"])
    (roots.workspace_dir / "second").hardlink_to(roots.workspace_dir / "first")
    strict = roots.model_copy(update={"deny_hardlinks": True})
    names = ("one", "first", "second")

    assert [read(roots, name) for name in names] == ["one", "first", "first"]
    assert [read(strict, name) for name in names] == ["one", "hard_link", "hard_link"]


def open_root(path: Path, optional: bool | None) -> str:
    """Return whether a root is opened or empty, or the reason why it cannot be opened."""
    root = Root("x", path) if optional is None else Root("x", path, optional=optional)
    try:
        descriptor = root.open()
    except Refused as error:
        return error.reason

    if descriptor is None:
        return "empty"

    os.close(descriptor)
    return "opened"


@pytest.mark.parametrize("optional", [True, False, None])
def test_a_root_is_a_folder_that_is_there(optional: bool | None, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert open_root(tmp_path, optional) == "opened"
    assert open_root(tmp_path / "file", optional) == "root_unavailable"
    assert open_root(tmp_path / "none", optional) == ("empty" if optional else "root_unavailable")


def test_only_a_folder_is_opened_as_one(root: int, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(".")

    for name in ("file", "none", "link"):
        with pytest.raises(Refused, match="io_error"):
            open_directory(name, root)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "access_denied"),
        (errno.EPERM, "access_denied"),
        (errno.EMFILE, "resource_exhausted"),
        (errno.EIO, "root_unavailable"),
    ],
)
@pytest.mark.parametrize("optional", [True, False])
def test_a_root_that_the_system_refuses_says_why(
    optional: bool, number: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = fail_for(str(tmp_path), os.open, OSError(number, "refused"))
    monkeypatch.setattr(os, "open", failing)

    assert open_root(tmp_path, optional) == reason


def test_the_kernel_agrees_with_every_answer(settings: Settings, unprivileged: None) -> None:
    """``openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)``, the oracle, opens the same files."""
    top = settings.workspace_dir
    names = [str(path.relative_to(top)) for path in top.rglob("*") if "closed" not in path.parts]
    root = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    links = compared = 0

    for path in sorted(names):
        request = parse_path(path)
        if settings.policy.deny.denies(request.name) or path == "link-env" or "#" in path:
            continue

        assert _open_here(root, request.parts, settings) == _open_by_kernel(root, path), path

        compared += 1
        links += "link-" in path

    os.close(root)

    assert links > 15
    assert compared - links > 30


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
    how = struct.pack("QQQ", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, 0x08 | 0x02)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(437, root, path.encode(), how, len(how))
    if descriptor < 0:
        assert ctypes.get_errno() != 38, "this kernel has no openat2"
        return None

    status = os.fstat(descriptor)
    os.close(descriptor)
    return status.st_ino if stat.S_ISREG(status.st_mode) else None
