"""Rows L of file_list: it lists what file_read_bulk reads, whatever stands in the two roots."""

import fnmatch
import os
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from abilities import Settings, render
from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.files import file_walk
from abilities.helpers.files.file_walk import FolderMemory, Kind
from abilities.helpers.files.globs import Glob
from tests.memories.calls import find_reason, open_calls
from tests.support.file_cases import Row, check_refusal, refused
from tests.support.permissions import let_others_enter
from tests.support.reading import count_descriptors, write_files
from tests.support.sample_files import SampleFiles
from tests.support.surfaces import SURFACES, Call, CannotCarry, Through, python
from tests.support.tier import size
from tests.support.waiting import wait_until

REFUSED: dict[str, tuple[Reason, str, Any]] = {
    "L1-empty": ("too_short", "pattern", ""),
    "L1-number": ("wrong_type", "pattern", 5),
    "L1-long": ("too_long", "pattern", "a" * 1025),
    "L1-braces": ("invalid_format", "pattern", "{a,b}" * 6),
    "L2-absolute": ("absolute_path", "pattern", "/etc/*"),
    "L2-up": ("parent_traversal", "pattern", "src/../*"),
    "L2-up-in-braces": ("parent_traversal", "pattern", "{.,x}./y"),
    "L2-backslash": ("backslash", "pattern", "src\\*"),
    "L2-control": ("control_character", "pattern", "a\n*"),
    "L2-bidi": ("control_character", "pattern", "a\u202e*"),
    "L2-surrogate": ("invalid_format", "pattern", "\ud800"),
    "L2-deep": ("path_too_deep", "pattern", "a/" * 33 + "b"),
    "L3-none": ("out_of_range", "limit", 0),
    "L3-many": ("out_of_range", "limit", 501),
    "L3-negative": ("out_of_range", "limit", -1),
    "L3-float": ("wrong_type", "limit", 1.5),
    "L3-boolean": ("wrong_type", "limit", True),
    "L3-text": ("wrong_type", "limit", "x"),
    "L3-wide": ("wrong_type", "limit", "１"),
    "L4-number": ("wrong_type", "after", 5),
    "L4-long": ("too_long", "after", "a" * 1101),
    "L5": ("unknown_argument", "path", "src"),
}
"""The reason, the field, and what was sent in it."""

WRONG: list[Row] = [
    refused(name, reason, field, "file_list", **{field: value})
    for name, (reason, field, value) in REFUSED.items()
]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("row", WRONG, ids=str)
async def test_wrong_calls_are_refused_alike(row: Row, surface: str, settings: Settings) -> None:
    expected = await python(settings, row.name, row.arguments)

    check_refusal(row, expected)
    try:
        assert await SURFACES[surface](settings, row.name, row.arguments) == expected
    except CannotCarry:
        assert row.id == "L2-surrogate"


async def test_l6_nothing_hostile_is_listed_and_all_that_is_can_be_read(
    through: Through, settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    call = through(settings)
    listed = [
        file
        for pattern in ("**/*", "**/.*", "**/.*/**")
        for file in await list_all(call, pattern=pattern)
    ]
    paths = [file["path"] for file in listed]
    links = " ".join(path for path in paths if path.startswith("link-"))
    hostile = "outside absolute environ zero stdin far loop self dangling env git"
    secret = "fifo socket device .env id_rsa x.pem .git/config deep/y.KEY"
    shown = "link-inside.txt link-chain.txt .env.example both.txt memory/2026-01-02.md"

    assert not [word for word in hostile.split() if word in links]
    assert not {*secret.split()} & {*paths}
    assert {*shown.split()} <= {*paths}
    assert "link-dir/a.txt" not in paths, "folders behind links are not entered"
    assert "folder.txt" in paths, "the agent's folder hides no file"
    assert str(world.base) not in render({"listed": listed})

    unreadable = dict.fromkeys(("mode000.txt", "locked.txt"), "access_denied")
    for file, record in zip(listed, await read(call, paths), strict=True):
        if record["success"]:
            data = {name: record["data"][name] for name in ("source", "size_bytes", "modified_at")}
            assert data == {name: file[name] for name in data}
        else:
            reason = record["error"]["reason"]
            assert reason in ("binary_file", unreadable.get(file["path"])), file


@pytest.fixture
async def call(roots: Settings) -> AsyncIterator[Call]:
    """Call abilities from Python; the roots may be filled later."""
    async with open_calls(roots) as call:
        yield call


async def list_all(call: Call, **arguments: Any) -> list[dict[str, Any]]:
    """Return all files that match, page after page."""
    files: list[dict[str, Any]] = []
    request: dict[str, Any] | None = arguments
    while request is not None:
        answer = await call("file_list", **request)
        files += answer["files"]

        after, request = request.get("after", ""), answer.get("next_request")
        assert answer["has_more"] == (request is not None)
        assert request is None or request.get("after", "") > after, "each page goes on"

    return files


async def list_paths(call: Call, **arguments: Any) -> list[str]:
    return [file["path"] for file in await list_all(call, **arguments)]


def get_paths(answer: dict[str, Any]) -> list[str]:
    return [file["path"] for file in answer["files"]]


async def read(call: Call, paths: Sequence[str]) -> list[dict[str, Any]]:
    """Return the records of the beginnings of files."""
    records: list[dict[str, Any]] = []
    for start in range(0, len(paths), 25):
        part = list(paths[start : start + 25])
        records += (await call("file_read_bulk", paths=part, max_chars_per_file=10))["results"]

    return records


PATTERNS = [
    ("**/*", ["a", "a.txt", "a/b.txt", "a/c/d.md", "both.md", "z.py"]),
    ("*", ["a", "a.txt", "both.md", "z.py"]),
    ("a/**", ["a", "a/b.txt", "a/c/d.md"]),
    ("a/", ["a", "a/b.txt", "a/c/d.md"]),
    ("./a/*", ["a/b.txt"]),
    ("**/*.{md,py}", ["a/c/d.md", "both.md", "z.py"]),
    ("{a,x}/{b,y}.t{x,y}t", ["a/b.txt"]),
    ("[ab]*", ["a", "a.txt", "both.md"]),
    ("[!ab]*", ["z.py"]),
    ("?.py", ["z.py"]),
    ("A.txt", []),
    ("**/.h/*", [".h/in.txt"]),
    (".*", [".hidden"]),
    ("z.py", ["z.py"]),
    ("a", ["a", "a/b.txt", "a/c/d.md"]),
    ("**/c", ["a/c/d.md"]),
    ("{x,a/c}", ["a/c/d.md"]),
    ("[a]", ["a"]),
    (".", ["a", "a.txt", "a/b.txt", "a/c/d.md", "both.md", "z.py"]),
    ("%2e%2e/*", []),
    ("~/*", []),
]


async def test_l7_patterns_are_globs(roots: Settings, through: Through) -> None:
    own = ["both.md", "a", ".h/in.txt"]
    shared = ["both.md", "a/b.txt", "a/c/d.md", "a.txt", "z.py", ".hidden", ".git/config"]
    write_files(roots.agent_dir, own)
    write_files(roots.workspace_dir, shared)
    call = through(roots)
    for pattern, expected in PATTERNS:
        answer = await call("file_list", pattern=pattern)
        assert get_paths(answer) == expected, pattern
        assert not answer["has_more"]

    sources = {file["path"]: file["source"] for file in (await call("file_list"))["files"]}

    assert sources["both.md"] == sources["a"] == "agent", "the agent's directory wins"
    assert sources["a/b.txt"] == "workspace", "beneath a plain file of the agent's"


SKIPPING = [
    ("**/*", ["a.js", "build/b.js", "dist", "src/target"]),
    ("*/*.js", ["build/b.js"]),
    ("**/*.js", ["a.js", "build/b.js"]),
    ("node_modules/**", ["node_modules/dist/e.js", "node_modules/x/node_modules/y.js"]),
    ("node_module?/**", []),
    ("**/dist/*", ["web/dist/c.js"]),
    ("{web/dist,build}/*", ["build/b.js", "web/dist/c.js"]),
    ("*/node_modules/*", ["web/node_modules/d.js"]),
]


async def test_folders_of_tools_are_entered_by_name(roots: Settings, call: Call) -> None:
    write_files(roots.agent_dir, ["dist", "__pycache__/f.js"])
    deep = ["node_modules/dist/e.js", "node_modules/x/node_modules/y.js", "web/node_modules/d.js"]
    write_files(roots.workspace_dir, ["a.js", "build/b.js", "src/target", "web/dist/c.js", *deep])

    for pattern, expected in SKIPPING:
        assert await list_paths(call, pattern=pattern, limit=1) == expected, pattern

    (record,) = await read(call, ["node_modules/dist/e.js"])
    assert record["success"]
    async with open_calls(roots.model_copy(update={"skip": ()})) as call_all:
        assert len(await list_all(call_all)) == 9


async def test_l8_pages_follow_each_other(roots: Settings, through: Through) -> None:
    paths = [f"{folder}f{n:02}.txt" for n in range(12) for folder in ("", "a/", "a/b/", "a-/")]
    write_files(roots.agent_dir, paths[::3])
    write_files(roots.workspace_dir, paths)
    call = through(roots)

    first = await call("file_list", limit=7)

    assert first["next_request"] == {"limit": 7, "after": first["files"][-1]["path"]}
    for limit in (9, 48):
        assert await list_paths(call, limit=limit) == sorted(paths)

    behind = [path for path in sorted(paths) if path > "a/b/f05.txt"]
    assert await list_paths(call, after="a/b/f05.txt") == behind


async def test_l9_odd_names_are_listed_as_they_are_read(roots: Settings, call: Call) -> None:
    names = ["name#L2", "n#byte=5", "#L1-", "sp .txt ", "🙂.txt", "a%2eb", "two\nlines", "c:d"]
    write_files(roots.workspace_dir, names)
    Path(os.fsdecode(os.fsencode(roots.workspace_dir) + b"/bad\xff.txt")).write_text("x")
    answer = await call("file_list")
    paths = get_paths(answer)

    assert paths == ["#L1-#L1-", "a%2eb", "n#byte=5#L1-", "name#L2#L1-", "sp .txt ", "🙂.txt"]
    assert answer["skipped"] == 3

    texts = [record["data"]["content"] for record in await read(call, paths)]
    assert texts == ["#L1-", "a%2eb", "n#byte=5", "name#L2", "sp .txt ", "🙂.txt"[:10]]


async def test_l10_the_answer_keeps_its_bound_and_goes_on(roots: Settings) -> None:
    # The longest path by characters takes fewer bytes than those before it.
    paths = [*(f"{n:03}{'世' * 80}/{'世' * 80}" for n in range(120)), "a" * 240]
    write_files(roots.workspace_dir, paths)

    for limit in range(40_000, 40_800, 50):
        async with open_calls(roots.model_copy(update={"max_response_bytes": limit})) as call:
            answer = await call("file_list", limit=500)
            assert answer["has_more"] and len(render(answer).encode()) <= limit

    async with open_calls(roots.model_copy(update={"max_response_bytes": 40_000})) as call:
        assert await list_paths(call, limit=500) == paths


async def test_l11_a_folder_that_may_not_be_read_is_reported(
    roots: Settings, tmp_path: Path, call: Call, request: pytest.FixtureRequest
) -> None:
    write_files(roots.agent_dir, ["closed/in.txt"])
    write_files(roots.workspace_dir, ["closed/other.txt", "open.txt"])
    for folder in (tmp_path, roots.agent_dir, roots.workspace_dir):
        let_others_enter(folder)
    (roots.agent_dir / "closed").chmod(0)
    request.getfixturevalue("unprivileged")

    answer = await call("file_list")

    assert get_paths(answer) == ["open.txt"], "a refusal hides the workspace's, as in reading"
    assert (answer["skipped"], answer["skipped_folders"]) == (1, ["closed/"])


async def test_l12_a_folder_of_too_many_entries_is_reported(
    roots: Settings, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_walk, "MAX_ENTRIES", 10)
    some = [f"some/{n}" for n in range(10)]
    write_files(roots.workspace_dir, ["a.txt", "z.txt", *some, *(f"many/{n}" for n in range(11))])

    answer = await call("file_list")

    assert get_paths(answer) == ["a.txt", *some, "z.txt"]
    assert answer["skipped_folders"] == ["many/"]


async def test_l12b_a_folder_too_deep_is_reported(roots: Settings, call: Call) -> None:
    deepest = "d/" * 31
    reachable, too_deep = f"{deepest}a.txt", f"{deepest}e/too deep.txt"
    write_files(roots.workspace_dir, [reachable, too_deep, "z.txt"])
    write_files(roots.agent_dir, [f"{deepest}e/f/deeper.txt"])

    answer = await call("file_list")
    text_files = await call("file_list", pattern="*.txt")
    second_page = await call("file_list", after=reachable)

    assert get_paths(answer) == [reachable, "z.txt"]
    assert (answer["skipped"], answer["skipped_folders"]) == (1, [f"{deepest}e/"])
    assert "skipped" not in text_files, "none of its files could match"
    assert second_page["skipped_folders"] == [f"{deepest}e/"]

    records = await read(call, [reachable, too_deep])
    assert [record.get("error", {}).get("reason") for record in records] == [None, "path_too_deep"]


async def test_l13_when_time_is_over_the_next_call_goes_on(
    roots: Settings, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_walk, "SECONDS", 0.0)
    paths = ["a.txt", "a/1", "a/b/2", "a/b/c/3", "a/d/4", "b/e/5", "c.txt"]
    write_files(roots.workspace_dir, paths)

    first = await call("file_list", pattern="**/[0-9]")

    following = {"pattern": "**/[0-9]", "after": "a/"}
    assert first == {"files": [], "has_more": True, "next_request": following}
    assert await list_paths(call) == paths


async def test_l14_a_root_that_is_gone_is_unavailable(roots: Settings, call: Call) -> None:
    roots.workspace_dir.rmdir()

    assert await find_reason(call, "file_list") == "root_unavailable"


async def test_listing_leaves_no_descriptor_behind(roots: Settings, call: Call) -> None:
    write_files(roots.workspace_dir, [f"{a}/{b}/f" for a in "abc" for b in "def"])
    before = count_descriptors()

    for limit in (1, 4, 500):
        await call("file_list", limit=limit)

    # The thread closes them after it has answered; others, of tests before, may close too.
    await wait_until(lambda: count_descriptors() <= before)


@pytest.mark.parametrize("settled_after", [0.0, 3600.0])
async def test_pages_of_a_large_folder_read_it_once_until_it_changes(
    settled_after: float, roots: Settings, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [*(f"many/{n:03}" for n in range(60)), "many/040 in/file", "z.txt"]
    write_files(roots.workspace_dir, expected)
    many = roots.workspace_dir / "many"
    reads, read_kinds = 0, file_walk.read_kinds

    def count(descriptor: int) -> dict[str, Kind] | None:
        nonlocal reads
        reads += os.path.samestat(os.fstat(descriptor), many.stat())
        return read_kinds(descriptor)

    monkeypatch.setattr(file_walk, "read_kinds", count)
    monkeypatch.setattr(file_walk, "LARGE", 20)
    monkeypatch.setattr(file_walk, "SETTLED_SECONDS", settled_after)

    assert await list_paths(call, pattern="**/*", limit=7) == sorted(expected)
    assert (reads == 1) == (settled_after == 0), "a folder that has just changed is read again"

    reads_before = reads
    (many / "030").unlink()
    answer = await call("file_list", pattern="many/03*", limit=2)

    assert get_paths(answer) == ["many/031", "many/032"]
    assert reads == reads_before + 1


def test_what_one_root_cannot_read_hides_later_roots_and_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_walk, "LARGE", 0)
    monkeypatch.setattr(file_walk, "SETTLED_SECONDS", 0.0)
    memory = FolderMemory()
    kinds: dict[int, dict[str, Kind] | None] = {0: {"a": "file"}, 1: None, 2: {"c": "file"}}
    opened = dict.fromkeys(kinds, os.open(tmp_path, os.O_RDONLY))

    before = memory.read(opened, lambda root, _: kinds[root])
    kinds[1] = {"b": "folder"}
    after = memory.read(opened, lambda root, _: kinds[root])
    os.close(opened[0])

    assert list(before.keys) == ["a"]
    assert list(after.keys) == ["a", "b/", "c"]


NAMES = ("a", "b", "a.b", ".c")
GLOBS = "**/* * */* a/** **/b {a,b}/* **/a/**/b ** [ab]*/? .c/* **/.c a.b"


def plant(root: Path, chance: random.Random, depth: int = 0) -> None:
    """Make a random tree of files, folders, links inside and outside, and pipes."""
    for name in NAMES:
        path = root / name
        kind = chance.choice(("file", "file", "folder", "folder", "link", "none", "none", "fifo"))
        if kind == "file":
            path.write_text(name)
        elif kind == "folder" and depth < 3:
            path.mkdir()
            plant(path, chance, depth + 1)
        elif kind == "link":
            elsewhere = ("../a", "../b", "../../../outside", "/etc/hostname", "none")
            path.symlink_to(chance.choice((*NAMES, *elsewhere)))
        elif kind == "fifo":
            os.mkfifo(path)


def matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a path matches a pattern without braces, by the definition, name after name."""
    if not pattern:
        return not path

    if pattern[0] == "**":
        return matches(pattern[1:], path) or (
            bool(path) and path[0][0] != "." and matches(pattern, path[1:])
        )

    fits = (
        bool(path)
        and fnmatch.fnmatchcase(path[0], pattern[0])
        and (path[0][0] != "." or pattern[0][0] == ".")
    )
    return fits and matches(pattern[1:], path[1:])


def spell_out(pattern: str) -> list[str]:
    """Return the names of a pattern without braces; one that ends in a name finds a folder too."""
    names = pattern.split("/")
    if set(names[-1]) & set("*?["):
        return names

    return [*names, "**"]


@pytest.mark.parametrize("seed", range(size("ABILITIES_TREES", quick=15, full=60)))
async def test_what_is_listed_is_what_can_be_read(seed: int, roots: Settings, call: Call) -> None:
    chance = random.Random(seed)
    write_files(roots.workspace_dir.parent, {"outside": "SECRET"})
    top = {"agent": roots.agent_dir, "workspace": roots.workspace_dir}
    names: set[str] = set()
    for root in top.values():
        plant(root, chance)
        for folder, folders, files in os.walk(root):
            names |= {str(Path(folder, name).relative_to(root)) for name in (*files, *folders)}

    records = await read(call, sorted(names))
    sources = {r["input"]: r["data"]["source"] for r in records if r["success"]}
    readable = {
        path: source
        for path, source in sources.items()
        if not any((top[source] / folder).is_symlink() for folder in Path(path).parents[:-1])
    }

    for pattern in GLOBS.split():
        plain_patterns = [spell_out(pattern.replace("{a,b}", name)) for name in "ab"]
        expected = {
            path: source
            for path, source in readable.items()
            if any(matches(plain, path.split("/")) for plain in plain_patterns)
        }

        listed = await list_all(call, pattern=pattern, limit=chance.choice((1, 3, 500)))

        assert {file["path"]: file["source"] for file in listed} == expected, pattern
        assert [file["path"] for file in listed] == sorted(expected)


many = settings(max_examples=size("ABILITIES_EXAMPLES", quick=50, full=500))
patterns = strategies.text("ab*?[]!{},./-", max_size=30)


@many
@given(patterns, strategies.text("ab./-", min_size=1, max_size=20))
def test_any_pattern_is_matched_or_refused(pattern: str, path: str) -> None:
    try:
        glob = Glob(pattern)
    except Refused as error:
        reasons = ("absolute_path", "parent_traversal", "invalid_format", "path_too_deep")
        assert error.reason in reasons
        return

    states = glob.start
    for name in path.split("/"):
        states = glob.step(states, name)

    glob.accepts(states)


COMPONENTS = strategies.lists(
    strategies.text("ab*[.", min_size=1, max_size=4), min_size=1, max_size=4
)


@many
@given(COMPONENTS, strategies.integers(0, 20), strategies.text("ab*[./", max_size=2))
def test_a_beginning_matches_what_begins_with_it(names: list[str], length: int, end: str) -> None:
    path = "/".join(names)
    beginning = path[:length] + end
    if beginning.startswith("/") or ".." in beginning.split("/"):
        with pytest.raises(Refused):
            Glob.of_beginning(beginning)
        return

    glob = Glob.of_beginning(beginning)
    states = glob.start
    for name in names:
        states = glob.step(states, name)

    # A hidden name needs its dot in the beginning.
    given_names = beginning.split("/") + [""] * len(names)
    hides = any(
        name.startswith(".") and not typed.startswith(".")
        for name, typed in zip(names, given_names, strict=False)
    )
    assert glob.accepts(states) == (path.startswith(beginning) and not hides)


def test_a_pattern_made_to_be_slow_is_not() -> None:
    glob = Glob("*a" * 120 + "b")

    assert not glob.accepts(glob.step(glob.start, "a" * 255))

    deep = Glob("**/a/" * 15 + "b")
    states = deep.start
    for _ in range(32):
        states = deep.step(states, "a")

    assert len(states) <= 31
