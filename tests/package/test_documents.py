"""What the repository shows people works: examples, blocks of code, links."""

import asyncio
import html
import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import ExitStack, chdir, closing
from pathlib import Path
from typing import Any

import pytest

from abilities import Settings
from tests.support.serving import serving
from tests.support.sources import ROOT, list_sources
from tools import adapters, recording, reference

DOCS = ROOT / "docs"
FRAMEWORKS = ROOT / "examples" / "frameworks"
PLUGIN = ROOT / "examples" / "plugin"
LANGCHAIN = DOCS / "frameworks" / "langchain.md"
README = ROOT / "README.md"
IN_SUITE = ("anthropic_memory", "deepagents", "functions", "langgraph_store")
"""The frameworks that are tested with everything else, and not by `make adapters`."""
EXAMPLES = [
    *sorted((ROOT / "examples").glob("*.py")),
    ROOT / "examples" / "store" / "volatile_store.py",
    *(FRAMEWORKS / f"with_{name}.py" for name in (*IN_SUITE, "langchain_retriever")),
]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(DOCS.glob("*.md")),
    LANGCHAIN,
]
FRAMEWORK_PAGES = sorted({*(DOCS / "frameworks").glob("[a-z]*.md")} - {LANGCHAIN})
NOT_RUN = ("make ", "pip ", "git ", "cd ", "abilities serve", "abilities setup claude-code")
SERVED = "http://127.0.0.1:8642"
READ_IN_ORDER = [README, DOCS / "tutorial.md"]
"""What a newcomer pastes from the top down; the blocks of other pages stand alone."""


def find_blocks(path: Path) -> list[tuple[str, str]]:
    """Return the language and the code of each block of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", path.read_text(), re.M | re.S)


def list_blocks(language: str, *left_out: Path) -> list[Any]:
    """Return the blocks of all documents but some; they are named by their places on the pages."""
    blocks = [
        pytest.param(code, id=f"{path.name}-{number}")
        for path in DOCUMENTS
        if path not in left_out
        for number, (kind, code) in enumerate(find_blocks(path))
        if kind == language
    ]
    assert blocks, language
    return blocks


@pytest.mark.parametrize("page", FRAMEWORK_PAGES, ids=lambda page: page.stem)
def test_the_page_of_a_framework_shows_lines_of_its_example(page: Path) -> None:
    """The example itself is run by the suite, or beside the framework by make adapters."""
    name = f"with_{page.stem.replace('-', '_')}.py"
    example = (FRAMEWORKS / name).read_text()
    code = "".join(code for language, code in find_blocks(page) if language == "python")

    lines = {line.strip() for line in example.splitlines()}
    assert {line.strip() for line in code.splitlines()} - lines == set()
    assert "from abilities.adapters." in code and f"examples/frameworks/{name}" in page.read_text()


def test_every_adapter_of_a_framework_has_a_page_an_example_and_tests() -> None:
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests/adapters").glob("test_*")}
    assert tested == {framework.name for framework in adapters.TESTED}

    tested.discard(adapters.EMBEDDERS.name)
    names = tested | set(IN_SUITE)
    examples = {path.stem.removeprefix("with_") for path in FRAMEWORKS.glob("*.py")}
    assert {page.stem.replace("-", "_") for page in FRAMEWORK_PAGES} == names
    assert examples == names | {"langchain_retriever"}
    assert all((ROOT / "abilities" / "adapters" / f"{name}.py").exists() for name in tested)


@pytest.mark.thorough
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_proves_itself(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert asyncio.run(module.main())
    if path.stem == "rounds":
        assert capsys.readouterr().out in (DOCS / "why.md").read_text()


@pytest.mark.thorough
def test_the_example_of_a_plugin_is_a_package_whose_ability_every_surface_offers(
    tmp_path: Path,
) -> None:
    source, installed, work = tmp_path / "source", tmp_path / "installed", tmp_path / "work"
    unwanted = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(PLUGIN, source, ignore=unwanted)
    work.mkdir()
    (work / "notes.md").write_text("# One\n")
    variables = {**os.environ, "PYTHONPATH": str(installed)}

    def run(words: str, *arguments: str, cwd: Path = work) -> str:
        command = [sys.executable, "-m", *words.split(), *arguments]
        done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("pip install -q --no-deps --target", str(installed), str(source))
    assert "file_outline" in run("abilities list")
    paths = '{"paths": ["notes.md", "none.md"]}'
    outline, none = json.loads(run("abilities call file_outline", paths))["results"]
    assert outline["data"]["parts"] == [{"name": "One", "level": 1, "lines": "#L1-L1"}]
    assert not none["success"]
    tested = run("pytest -p no:cacheprovider -c /dev/null --rootdir . tests", cwd=source)
    assert "3 passed" in tested


@pytest.mark.parametrize("code", list_blocks("python"))
def test_a_python_block_runs(code: str, tmp_path: Path, roots: Settings) -> None:
    for folder in (tmp_path, roots.workspace_dir):
        (folder / "README.md").write_text("# A project\n")

    run_python(code, tmp_path, roots)


def run_python(code: str, folder: Path, served: Settings) -> None:
    """Run a block in a folder; a server runs at another port for one that calls it."""
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        if SERVED in code:
            server = stack.enter_context(serving(served, folder))
            code = code.replace(SERVED, server.address)

        exec(compile(code, "<block>", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("code", list_blocks("json"))
def test_a_json_block_is_json_and_a_client_block_starts_a_server(code: str) -> None:
    document = json.loads(code)
    for server in document.get("mcpServers", {}).values():
        if server.get("type") == "http":
            assert server["url"].endswith("/mcp") and server["headers"].keys() == {"Authorization"}
            continue
        assert server["command"] in ("abilities", "uvx")
        assert server["args"][-1] == "mcp"
        assert all(name.startswith("ABILITIES_") for name in server["env"])


@pytest.mark.parametrize("code", list_blocks("toml"))
def test_a_toml_block_is_toml_with_known_settings(code: str) -> None:
    assert tomllib.loads(code).keys() <= Settings.model_fields.keys() | {"project"}


@pytest.mark.thorough
@pytest.mark.parametrize("code", list_blocks("console", *READ_IN_ORDER, reference.PAGE))
def test_a_console_block_prints_what_it_shows(code: str, tmp_path: Path) -> None:
    """Lines after a command are what it prints; '...' stands for anything.

    The test of the written reference runs that page's blocks.
    """
    (tmp_path / "notes.md").write_text(reference.NOTES)
    (tmp_path / "memory.jsonl").write_text(reference.GRAPH)
    store = {
        "ABILITIES_STORE_URL": f"sqlite:///{tmp_path}/memory.db",
        "ABILITIES_TOKENS_FILE": str(tmp_path / "tokens.json"),
    }
    variables = {**os.environ, **store, "COLUMNS": "80"}
    if "memory.jsonl" not in code:  # what other blocks show comes after the import
        import_command = [sys.executable, "-m", "abilities", "import", "memory.jsonl"]
        subprocess.run(import_command, cwd=tmp_path, env=variables, check=True, capture_output=True)
    if "damaged Memories" in code:
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
            connection.execute(
                "UPDATE memories SET score = 80 WHERE key = (SELECT min(key) FROM memories)"
            )

    run_console(code, tmp_path, variables)


def run_console(code: str, folder: Path, variables: dict[str, str]) -> None:
    """Run the commands of a block, and compare what they print."""
    steps = re.split(r"^\$ ", code, flags=re.M)[1:]
    assert steps

    for step in steps:
        command, _, expected = step.partition("\n")
        if command.startswith(NOT_RUN):
            continue

        command = re.sub(r"^abilities\b", f"{sys.executable} -m abilities", command)
        done = subprocess.run(
            command, shell=True, cwd=folder, capture_output=True, timeout=120, env=variables
        )
        printed = "\n".join(line.rstrip() for line in done.stdout.decode().splitlines())
        pattern = re.escape(expected.rstrip()).replace(r"\.\.\.", ".*")
        assert re.fullmatch(pattern, printed.rstrip(), re.S), printed + done.stderr.decode()


@pytest.mark.thorough
@pytest.mark.parametrize("path", READ_IN_ORDER, ids=lambda path: path.stem)
def test_a_newcomer_can_paste_block_after_block(
    path: Path, tmp_path: Path, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder, with an empty home, from the top of the page down."""
    folder = tmp_path / "empty"
    folder.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    monkeypatch.setenv("HOME", str(tmp_path))
    variables = {**kept, "HOME": str(tmp_path), "COLUMNS": "80"}
    (roots.workspace_dir / "README.md").write_text("# A project\n")

    languages: list[str] = []
    for language, code in find_blocks(path):
        languages.append(language)
        if language == "console":
            run_console(code, folder, variables)
        elif language == "python":
            run_python(code, folder, roots)

    assert languages.count("console") > 1 and "python" in languages


@pytest.mark.thorough
def test_the_moving_picture_shows_what_the_commands_print() -> None:
    recorded = [frame.text for scene in recording.record() for frame in scene]
    shown = re.findall(r"<text [^>]*>(.*?)</text>", recording.PICTURE.read_text())

    varying = re.compile(r"[0-9a-f-]{36}|\d{4}-\d\d-\d\d")
    assert [varying.sub("", html.unescape(line)) for line in shown] == [
        varying.sub("", html.unescape(line)) for line in recorded
    ], "python -m tools.recording"


def test_links_between_documents_lead_somewhere() -> None:
    links = [
        (path, target.partition("#"))
        for path in (*DOCUMENTS, *FRAMEWORK_PAGES, PLUGIN / "README.md")
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text())
        if not target.startswith("http")
    ]
    # Package indexes show README too, where only whole addresses lead somewhere.
    label = r"\[[^\]]*\](?:\(|: )"
    assert not re.search(rf"{label}(?!https://|#)", README.read_text())
    whole = rf"(!?){label}https://github.com/agent-abilities/agent-abilities/(\w+)/main/([^)\s]+)"
    for path in DOCUMENTS:
        for mark, kind, name in re.findall(whole, path.read_text()):
            assert (kind == "raw") if mark else (kind in ("blob", "tree")), name
            links.append((README, name.partition("#")))

    assert len(links) > 30
    for path, (name, _, section) in links:
        target = path.parent / name if name else path
        assert target.exists(), f"{path}: {name}"

        if section:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
            anchors = [re.sub(r"[^\w -]", "", name).lower().replace(" ", "-") for name in headings]
            assert section in anchors, f"{path}: #{section}"


def test_every_setting_is_on_its_page() -> None:
    text = (DOCS / "settings.md").read_text()
    assert [name for name in Settings.model_fields if f"`{name}`" not in text] == []


def test_the_repository_names_no_package_registry() -> None:
    files = list_sources()
    assert len(files) > 200

    words = re.compile(
        r"https?://[^\s)\"'>]*(?:pypi|registry|mirror(?!\.md)|artifact)|--index-url|--extra-index"
    )
    for path in (ROOT / name for name in files):
        if path.is_file() and not path.is_symlink() and path != Path(__file__):
            assert not words.search(path.read_text(errors="replace")), path
