"""Backends of deepagents: its rules for patterns and windows, confinement, and a real agent."""

from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.protocol import BackendProtocol
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from abilities import Abilities, Settings
from abilities.adapters.deepagents import FileBackend, MemoryBackend, create_backend
from abilities.adapters.memory_files import MemoryFile
from tests.support.scripted import find_answers, script_model
from tests.support.tier import size

TREE = {
    "/a.py": "one\n",
    "/sub/b.py": "two\n",
    "/sub/nested/c.py": "three\n",
    "/readme.md": "docs of one\n",
    "/.hidden.py": "h",
    "/.github/workflows/ci.yml": "name: ci",
}

PYTHON = {"/a.py", "/sub/b.py", "/sub/nested/c.py"}
PATTERNS: list[tuple[str, str, set[str]]] = [
    ("*.py", "/", PYTHON),
    ("**/*.py", "/", PYTHON),
    ("sub/*.py", "/", {"/sub/b.py"}),
    ("sub/**/*.py", "/", {"/sub/b.py", "/sub/nested/c.py"}),
    ("/*.py", "/", {"/a.py"}),
    ("a.py/**", "/", set()),
    ("*.py", "/sub", {"/sub/b.py", "/sub/nested/c.py"}),
    ("**/*.yml", "/", set()),
    (".github/**/*.yml", "/", {"/.github/workflows/ci.yml"}),
    (".*.py", "/", {"/.hidden.py"}),
    ("*.{py,md}", "/", PYTHON | {"/readme.md"}),
    ("[ab].py", "/", {"/a.py", "/sub/b.py"}),
    ("[^a].py", "/", {"/sub/b.py", "/sub/nested/c.py"}),
]


@pytest.fixture
def files(roots: Settings) -> FileBackend:
    for name, text in TREE.items():
        path = roots.workspace_dir / name[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return FileBackend(roots)


@pytest.fixture
def memories(roots: Settings) -> MemoryBackend:
    backend = MemoryBackend(roots)
    for name, text in TREE.items():
        assert backend.write(name, text).error is None

    return backend


@pytest.fixture(params=["files", "memories"])
def backend(request: pytest.FixtureRequest) -> BackendProtocol:
    found: BackendProtocol = request.getfixturevalue(request.param)
    return found


def test_patterns_match_as_in_other_backends(backend: BackendProtocol) -> None:
    for pattern, path, expected in PATTERNS:
        found = backend.glob(pattern, path)
        assert {file["path"] for file in found.matches or []} == expected, pattern
        assert not found.truncated
    assert backend.glob("../*").error


def test_a_folder_lists_what_lies_directly_in_it(backend: BackendProtocol) -> None:
    for path in ("/sub", "/sub/"):
        entries = backend.ls(path).entries
        assert entries is not None
        shown = [(entry["path"], entry.get("is_dir")) for entry in entries]
        assert shown == [("/sub/b.py", False), ("/sub/nested/", True)]
    assert backend.ls("/none").entries == []


@pytest.mark.parametrize("root", ["/", "/top"])
@pytest.mark.parametrize("has_workspace", [True, False])
def test_a_large_folder_hides_none_beside_it(
    root: str, has_workspace: bool, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = roots
    if not has_workspace:
        monkeypatch.chdir("/")
        settings = Settings(agent_dir=roots.agent_dir, store_url=roots.store_url)
    assert (settings.workspace_root is not None) == has_workspace

    base = settings.agent_dir / root[1:]
    for folder in ("a", "a/deep", "a#L2", "a-b", "b"):
        (base / folder).mkdir(parents=True)
        for number in range(7):
            (base / folder / f"{number}.py").touch()
    for name in ("0.py", "z.py"):
        (base / name).touch()

    monkeypatch.setattr("abilities.adapters.deepagents.MAX_FILES", 3)
    monkeypatch.setattr("abilities.adapters.deepagents.MAX_LISTED_FILES", 2)
    backend = FileBackend(settings)
    entries = backend.ls(root).entries or []
    names = [entry["path"].removeprefix(root).strip("/") for entry in entries]
    assert sorted(names) == ["0.py", "a", "a#L2", "a-b", "b", "z.py"]

    monkeypatch.setattr("abilities.adapters.deepagents.MAX_PAGES", 2)
    assert "narrower" in (backend.ls(root).error or "")


def test_the_name_of_a_folder_is_no_pattern(roots: Settings) -> None:
    folders = ("app/[id]", "{a,b}", "a*", "why?", "x]y")
    for name in (*folders, "app/i", "a", "b", "ab", "whys", "xzy"):
        (roots.workspace_dir / name).mkdir(parents=True, exist_ok=True)
        (roots.workspace_dir / name / "c.py").write_text("one\n")

    backend = FileBackend(roots)
    for folder in folders:
        path = f"/{folder}/c.py"
        for root in (f"/{folder}", f"/{folder}/"):
            assert [entry["path"] for entry in backend.ls(root).entries or []] == [path]
            assert [file["path"] for file in backend.glob("*.py", root).matches or []] == [path]
            assert [match["path"] for match in backend.grep("one", root).matches or []] == [path]


def test_a_search_names_lines(backend: BackendProtocol) -> None:
    cases: list[tuple[str, str | None, str | None, set[tuple[str, str]]]] = [
        ("one", None, None, {("/a.py", "one"), ("/readme.md", "docs of one")}),
        ("one", None, "*.md", {("/readme.md", "docs of one")}),
        ("one", "/sub", None, set()),
        ("two", "/sub", None, {("/sub/b.py", "two")}),
        ("two", "/sub/b.py", None, {("/sub/b.py", "two")}),
        ("two", "/sub/b.py", "*.py", {("/sub/b.py", "two")}),
        ("two", "/sub/b.py", "*.md", set()),
        ("h", "/.hidden.py", None, {("/.hidden.py", "h")}),
    ]
    for pattern, path, glob, expected in cases:
        found = backend.grep(pattern, path, glob)
        matches = found.matches or []
        assert {(match["path"], match["text"]) for match in matches} == expected
        assert len(matches) == len(expected) and {match["line"] for match in matches} <= {1}
        assert not found.truncated
    capped = backend.grep("one", max_count=1)
    assert len(capped.matches or []) == 1 and capped.truncated


def test_a_window_says_where_to_go_on(roots: Settings) -> None:
    text = "".join(f"line {number}\n" for number in range(9))
    (roots.workspace_dir / "nine.txt").write_text(text)
    memories = MemoryBackend(roots)
    memories.write("/nine.txt", text)
    windows = [(0, 2_000, 9, None), (0, 3, 3, 3), (3, 3, 3, 6), (6, 3, 3, None), (-5, 2, 2, 2)]

    for backend in (FileBackend(roots), memories):
        for offset, limit, shown, following in windows:
            begin = max(offset, 0)
            read = backend.read("/nine.txt", offset, limit)
            assert read.file_data is not None
            lines = read.file_data["content"].splitlines()
            assert lines == [f"line {number}" for number in range(begin, begin + shown)]
            assert (read.start_line, read.end_line) == (begin + 1, begin + shown)
            assert read.next_offset == following

        assert backend.read("/nine.txt", 0, 0).no_lines_requested
        assert "exceeds" in (backend.read("/nine.txt", 99).error or "")
        assert "none.txt" in (backend.read("/none.txt").error or "")


def test_windows_of_a_large_file_are_the_file(roots: Settings) -> None:
    lines = [f"{number} " + "é" * (number % 300) + "\n" for number in range(2_500)]
    (roots.workspace_dir / "large.txt").write_text("".join(lines))
    backend = FileBackend(roots)

    pieces: list[str] = []
    offset: int | None = 0
    while offset is not None:
        read = backend.read("/large.txt", offset)
        assert read.file_data is not None, read.error
        pieces.append(read.file_data["content"])
        offset = read.next_offset

    assert "".join(pieces) == "".join(lines)
    assert len(pieces) > 2
    (whole,) = backend.download_files(["/large.txt"])
    assert whole.content == "".join(lines).encode()


def test_only_line_feeds_end_lines_and_a_long_one_says_that_it_was_cut(roots: Settings) -> None:
    text = "one\ftwo\x85three\u2028four\rfive\nsix\nseven\n"
    (roots.workspace_dir / "breaks.txt").write_bytes(text.encode())
    (roots.workspace_dir / "long.txt").write_text("x" * 500_000 + "\nshort\n")

    def read(path: str, *window: int) -> tuple[str, int | None, int | None]:
        result = FileBackend(roots).read(path, *window)
        assert result.file_data is not None
        return result.file_data["content"], result.end_line, result.next_offset

    assert read("/breaks.txt", 0, 2) == (text.removesuffix("seven\n"), 2, 2)
    content, *place = read("/long.txt")
    assert content.endswith("x … [line cut]\n") and place == [1, 1]
    assert read("/long.txt", 1)[0] == "short\n"


def test_only_utf_8_is_downloaded(roots: Settings) -> None:
    contents = {
        "latin.txt": "café\n".encode("latin-1"),
        "late.txt": b"x" * 1_500_000 + b"\xff" + b"y" * 200_000,
        "wide.txt": "café\n".encode("utf-16"),
        "plain.txt": "café � \r\n".encode(),
        "large.txt": "é\n".encode() * 300_000,
    }
    for name, content in contents.items():
        (roots.workspace_dir / name).write_bytes(content)

    for answer in FileBackend(roots).download_files([f"/{name}" for name in contents]):
        if answer.path in ("/plain.txt", "/large.txt"):
            assert (answer.content, answer.error) == (contents[answer.path[1:]], None)
        else:
            assert (answer.content, answer.error) == (None, "File is not UTF-8 text.")


async def test_files_are_confined_redacted_unwritten(files: FileBackend, roots: Settings) -> None:
    (roots.workspace_dir / ".env").write_text("PASSWORD=1")
    (roots.workspace_dir / "out.txt").symlink_to("/etc/passwd")
    (roots.workspace_dir / "key.txt").write_text("ghp_" + "aB3dE5fG7hJ9" * 3)
    before = {path: path.read_bytes() for path in roots.workspace_dir.rglob("*") if path.is_file()}

    for path in ("/.env", "/out.txt", "/../etc/passwd", "/sub/../../x"):
        assert (await files.aread(path)).error
    answers = await files.adownload_files(["/.env", "/out.txt", "/none", "/a.py"])
    codes = ["permission_denied", "permission_denied", "file_not_found", None]
    assert [answer.error for answer in answers] == codes
    read = await files.aread("/key.txt")
    assert read.file_data is not None and "[secret: GitHub token]" in read.file_data["content"]

    assert (await files.awrite("/new.txt", "x")).error
    assert (await files.aedit("/a.py", "one", "x")).error
    assert (await files.adelete("/a.py")).error
    (uploaded,) = await files.aupload_files([("/new.txt", b"x")])
    assert uploaded.error == "permission_denied"
    after = {path: path.read_bytes() for path in roots.workspace_dir.rglob("*") if path.is_file()}
    assert after == before


async def test_a_memory_that_is_written_again_keeps_its_type(abilities: Abilities) -> None:
    await abilities.call("store_memory", {"type": "task", "key": "plan.md", "content": "Ship."})
    backend = MemoryBackend(abilities)
    for text in ("Ship now.", "Ship later. " * 1_000):
        assert (await backend.awrite("/plan.md", text)).error is None
        assert (await backend.aedit("/plan.md", text[-9:], "Done.", True)).error is None

    memory = (await abilities.call("memory_get", {"key": "plan.md"}))["data"]
    assert memory["type"] == "task"
    (read,) = await backend.adownload_files(["/plan.md"])
    assert read.content == text.replace(text[-9:], "Done.").encode()


async def test_what_cannot_be_a_memory_is_refused_in_words(roots: Settings) -> None:
    backend = MemoryBackend(roots)
    for path in ("/", "//a", "/a/../b", "/a/", "/x" * 150, "/tab\t"):
        assert (await backend.awrite(path, "x")).error, path
    assert "cannot be deleted" in ((await backend.adelete("/")).error or "")
    assert (await backend.awrite("/known", "text")).error is None
    assert "not found" in ((await backend.aedit("/known", "none", "x")).error or "").lower()
    assert "at least one" in ((await backend.awrite("/empty", "")).error or "")
    results = await backend.aupload_files([("/ok.txt", b"ok"), ("/bin", b"\xff"), ("/../x", b"x")])
    assert [result.error is None for result in results] == [True, False, False]
    answers = await backend.adownload_files(["/ok.txt", "/none", "/../x"])
    assert [answer.content for answer in answers] == [b"ok", None, None]
    assert [answer.error for answer in answers] == [None, "file_not_found", "invalid_path"]


async def test_long_files_and_neighboring_names_are_kept_apart(roots: Settings) -> None:
    backend = MemoryBackend(roots)
    long = "".join(f"{number:05}\n" for number in range(3_000))
    for path in ("/notes", "/notes.md#2", "/notes.md.bak"):
        await backend.awrite(path, f"beside {path}")
    await backend.awrite("/notes.md", long)
    (match,) = (await backend.agrep("beside /notes.md#2")).matches or []
    assert match["path"] == "/notes.md#2"
    entries = (await backend.als("/")).entries or []
    assert len(entries) == 4

    (read,) = await backend.adownload_files(["/notes.md"])
    assert read.content == long.encode()
    (match,) = (await backend.agrep("02999")).matches or []
    assert (match["path"], match["line"]) == ("/notes.md", 3_000)

    await backend.adelete("/notes.md")
    entries = (await backend.als("/")).entries or []
    assert [entry["path"] for entry in entries] == ["/notes", "/notes.md#2", "/notes.md.bak"]


async def test_a_search_reads_whole_contents(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MemoryBackend(roots)
    await backend.awrite("/bugs/issue#42", "crash at start")
    await backend.awrite("/long", "x" * 4_990 + " likes green tea")
    for pattern, path in (("crash at", "/bugs/issue#42"), ("likes green tea", "/long")):
        (match,) = (await backend.agrep(pattern)).matches or []
        assert match["path"] == path

    find = type(backend._files).find_holding

    async def find_and_be_late(files: Any, text: str) -> Any:
        listing = await find(files, text)
        return listing._replace(files=[*listing.files, MemoryFile("/gone", 0)])

    monkeypatch.setattr(type(backend._files), "find_holding", find_and_be_late)
    assert len((await backend.agrep("crash")).matches or []) == 1


NAMES = st.lists(st.sampled_from(["a", "b", "c.md"]), min_size=1, max_size=3).map("/".join)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "edit", "delete"]), NAMES, st.text("xy\n", min_size=1)),
    max_size=12,
)


@given(steps=STEPS)
@hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=5, full=60))
def test_memories_hold_what_a_plain_dictionary_would(
    steps: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files")
    backend = MemoryBackend(Settings(agent_dir=folder, store_url=f"sqlite:///{folder}/m.db"))
    model: dict[str, str] = {}

    for kind, name, text in steps:
        path = f"/{name}"
        if kind == "write":
            assert backend.write(path, text).error is None
            model[path] = text
        elif kind == "edit":
            expected = model.get(path, "").count("x")
            edited = backend.edit(path, "x", text, replace_all=True)
            assert (edited.occurrences or 0) == expected
            if expected:
                model[path] = model[path].replace("x", text)
        else:
            gone = [known for known in model if f"{known}/".startswith(f"{path}/")]
            assert (backend.delete(path).error is None) == bool(gone)
            for known in gone:
                del model[known]

    names = sorted(model)
    assert [file["path"] for file in backend.glob("**/*").matches or []] == names
    contents = [answer.content for answer in backend.download_files(names)]
    assert contents == [model[name].encode() for name in names]


async def test_a_deep_agent_reads_files_and_writes_memories(roots: Settings) -> None:
    (roots.workspace_dir / "plan.md").write_text("Ship on 4 May.\n")
    model = script_model(
        [("read_file", {"file_path": "/plan.md"})],
        [("write_file", {"file_path": "/memories/ship.md", "content": "Ships on 4 May."})],
        [("write_file", {"file_path": "/plan.md", "content": "x"})],
        [("read_file", {"file_path": "/memories/ship.md"})],
    )

    agent = create_deep_agent(model, backend=create_backend(roots))
    state = await agent.ainvoke({"messages": [HumanMessage("Remember when we ship.")]})

    read, _, refused, back = (answer.text for answer in find_answers(state))
    assert "Ship on 4 May." in read and "Ships on 4 May." in back
    assert refused == "Error: files are read-only here; write beneath /memories/"
    async with Abilities.open(roots) as abilities:
        memory = await abilities.call("memory_get", {"key": "ship.md"})
    assert memory["data"]["content"] == "Ships on 4 May."
    assert (roots.workspace_dir / "plan.md").read_text() == "Ship on 4 May.\n"
