"""The mistakes of a first hour: each is told in plain words, with its name and the next step."""

import gzip
import json
import os
import pty
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import httpx
import pytest
from click.testing import CliRunner

from abilities import Abilities, Settings
from abilities.adapters.langchain import load_tools
from abilities.cli.main import main
from abilities.helpers.store.postgres import pool
from abilities.helpers.tokens import TokenFile
from tests.conftest import NOBODY
from tests.support.first_hour import COMMANDS, REQUESTS, Mistake, Request
from tests.support.serving import serving_locally

ROOT = Path(__file__).parent.parent.parent
MAX_LINES = 6

_CLASS_NAME = re.compile(r"\b[A-Z][a-z]+\w*(Error|Exception)\b")


@pytest.fixture(scope="module")
def here() -> Iterator[Path]:
    """A home, and a workspace with files that people take for others."""
    with tempfile.TemporaryDirectory(prefix="abilities-", dir="/tmp") as folder:
        base = Path(folder)
        base.chmod(0o755)
        fill(base)
        yield base


def fill(base: Path) -> None:
    # Whoever owns nothing may not even read this Python, so that all commands are loaded first.
    context = click.Context(main)
    for name in main.list_commands(context):
        main.get_command(context, name)

    for name in ("home", "ws", "ws/folder", "locked", "open"):
        (base / name).mkdir()

    ws = base / "ws"
    (ws / "notes.md").write_text("first\n")
    (ws / "locked.md").write_text("shut\n")
    (ws / "table.csv").write_text("a,b\n1,2\n")
    (ws / "bytes.jsonl").write_bytes(bytes(range(256)))
    (ws / "empty.jsonl").touch()
    (ws / "memory.jsonl.gz").write_bytes(gzip.compress(b'{"type": "entity"}\n'))
    (base / "locked.toml").touch()

    variables = make_variables(base)
    memory = ["call", "store_memory", '{"type": "core", "key": "tea", "content": "hot \u00e9"}']
    for store in (f"{base}/home/.abilities/memory.db", f"{ws}/newer.db", f"{base}/open/memory.db"):
        stored = CliRunner().invoke(
            main, memory, env={**variables, "ABILITIES_STORE_URL": f"sqlite:///{store}"}
        )
        assert stored.exit_code == 0, stored.output

    with closing(sqlite3.connect(ws / "newer.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with closing(sqlite3.connect(ws / "foreign.db")) as connection:
        connection.execute("CREATE TABLE foreigners (name)")

    for path in (ws / "locked.md", base / "locked.toml", base / "locked"):
        path.chmod(0)
    for path in (base / "home" / ".abilities", base / "open"):
        path.chmod(0o755)
    for path in (base / "open").iterdir():
        path.chmod(0o666)
    (base / "open").chmod(0o777)


def make_variables(base: Path) -> dict[str, str]:
    return {
        "HOME": f"{base}/home",
        "ABILITIES_WORKSPACE_DIR": f"{base}/ws",
        "ABILITIES_AGENT_DIR": f"{base}/ws/folder",
    }


@pytest.fixture(scope="module")
def taken_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


@pytest.mark.parametrize("mistake", COMMANDS, ids=lambda mistake: mistake.name)
def test_a_command_says_what_is_wrong_and_what_to_do(
    mistake: Mistake,
    here: Path,
    tmp_path: Path,
    taken_port: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.2)
    monkeypatch.chdir(here / ("open" if mistake.unprivileged else "ws"))
    variables = place_settings(mistake, here, tmp_path)
    if mistake.blocked:
        monkeypatch.setitem(sys.modules, mistake.blocked, None)

    user = os.geteuid()
    if mistake.unprivileged and user == 0:
        os.seteuid(NOBODY)
    try:
        command = [
            word.replace("{port}", taken_port).replace("{here}", str(here))
            for word in mistake.command
        ]
        done = CliRunner().invoke(main, command, mistake.stdin, variables, prog_name="abilities")
    finally:
        os.seteuid(user)

    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == mistake.code, done.output
    output = done.stdout + done.stderr
    for words in (mistake.words, mistake.step):
        assert words.replace("{here}", str(here)) in output, output
    check_words(done.stderr)
    assert (here / "ws" / "notes.md").read_text() == "first\n", "nothing was changed"


def place_settings(mistake: Mistake, here: Path, tmp_path: Path) -> dict[str, str]:
    """Return the variables of a command; what it sets in a file is in none of them."""
    variables = make_variables(here)
    if mistake.config is not None:
        file = tmp_path / "config.toml"
        file.write_bytes(mistake.config.replace(b"{here}", bytes(here)))
        variables = {"HOME": variables["HOME"], "ABILITIES_CONFIG": str(file)}

    own = {name: text.replace("{here}", str(here)) for name, text in mistake.variables.items()}
    return {**variables, **own}


def check_words(text: str) -> None:
    """Check that people can read what a command says on stderr."""
    assert "Traceback" not in text
    assert not _CLASS_NAME.search(text), text
    assert str(ROOT) not in text and sys.prefix not in text, text

    lines = text.splitlines()
    assert len(lines) <= MAX_LINES, text
    if lines:
        assert lines[-1].endswith((".", "?", "!", "'")), text


def run_shell(command: str, here: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `abilities` is the command."""
    script = f'abilities() {{ "{sys.executable}" -m abilities "$@"; }}; {command}'
    # Where files must stay small, Python would leave broken ones of its own code.
    unwritten = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    variables = {**unwritten, **make_variables(here), **more}
    return subprocess.run(
        ["sh", "-c", script],
        cwd=here / "ws",
        env=variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("abilities list > /dev/full", 1, "the output cannot be written: No space left on device"),
        ("abilities list >&-", 1, "stdout is closed"),
        ("abilities call file_list - <&-", 2, "stdin is closed"),
        ("cd folder && mkdir x && cd x && rmdir ../x && unset ABILITIES_WORKSPACE_DIR && "
         "abilities list", 2, "does not exist any more; go to another: cd ~"),
        ("ulimit -f 8; abilities call store_memory '{\"type\": \"core\", \"content\": \"x\"}'",
         1, "check the disk of the store, and what this process may write (ulimit -f)"),
    ],
    ids=["full", "stdout", "stdin", "folder", "limit"],
)  # fmt: skip
def test_a_process_says_what_its_surroundings_lack(
    command: str, code: int, words: str, here: Path
) -> None:
    if "/dev/full" in command and not Path("/dev/full").is_char_device():
        pytest.skip("this system has no /dev/full")

    done = run_shell(command, here)

    assert done.returncode == code, done.stderr
    assert words in done.stderr
    check_words(done.stderr)


@pytest.mark.thorough
def test_a_database_that_lets_nobody_in_is_told_from_one_that_is_not_there(
    server: str, here: Path
) -> None:
    parts = urlsplit(server)
    stranger = parts._replace(netloc=f"stranger@{parts.netloc.rpartition('@')[2]}")
    for url, words in (
        (parts._replace(path="/none").geturl(), "What to do: create the database, or correct"),
        (stranger.geturl(), "check the role and password in store_url"),
    ):
        variables = {**make_variables(here), "ABILITIES_STORE_URL": url}
        done = CliRunner().invoke(main, ["check"], env=variables)

        assert done.exit_code == 1, done.output
        assert words in done.stderr
        check_words(done.stderr)


def test_who_reads_only_the_beginning_is_told_nothing_nor_is_a_terminal_without_utf_8(
    here: Path,
) -> None:
    beginning = run_shell("abilities declarations | head -c 1; abilities list | head -n 1", here)
    get = """abilities call memory_get '{"key": "tea"}'"""
    escaped = run_shell(get, here, LC_ALL="C", PYTHONUTF8="0")

    assert beginning.stdout.startswith("[file_read_bulk ")
    assert escaped.stdout.isascii() and "hot \u00e9" in str(json.loads(escaped.stdout))
    assert beginning.stderr == escaped.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mcp"], "Waiting for an MCP client"),
        (["call", "file_list", "-"], "Type the JSON, and end it with Ctrl-D."),
    ],
    ids=["mcp", "call"],
)
def test_what_reads_a_terminal_says_that_it_waits_and_ends_with_ctrl_c(
    arguments: list[str], words: str, here: Path
) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "abilities", *arguments],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **make_variables(here)},
        cwd=here / "ws",
        text=True,
        # It ends on Ctrl-C also if the tests run in the background of a shell.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        first_line = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)

    os.close(ours)
    os.close(theirs)
    assert words in first_line
    assert process.returncode != 0 or arguments == ["mcp"]
    check_words(rest)


async def test_a_request_is_answered_with_what_is_wrong_and_what_to_do(
    roots: Settings, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    settings = Settings(**{**roots.model_dump(exclude_unset=True), "tokens_file": tokens})
    token = ""
    for needs_token in (False, True):
        if needs_token:
            _, token = TokenFile(tokens).add("default", "read")
        async with (
            serving_locally(settings) as server,
            httpx.AsyncClient(base_url=server.address) as client,
        ):
            for request in REQUESTS:
                if request.needs_token == needs_token:
                    await send_and_check(request, client, token)


async def send_and_check(request: Request, client: httpx.AsyncClient, token: str) -> None:
    headers = {name: text.replace("{token}", token) for name, text in request.headers.items()}
    if request.body is not None:
        headers = {"content-type": "application/json", **headers}

    path = request.path.replace("{token}", token)
    response = await client.request(request.method, path, content=request.body, headers=headers)

    assert response.status_code == request.status, (request.name, response.text)
    message: str = response.json()["error"]["message"]
    assert request.words in message and request.step in message, (request.name, message)
    check_words(message)
    assert not token or token not in response.text


def catch(call: Any, *arguments: Any, **named: Any) -> str:
    """Return what an exception says that a call raises."""
    with pytest.raises((ValueError, KeyError)) as caught:
        call(*arguments, **named)

    return str(caught.value)


def test_python_says_which_argument_is_wrong(roots: Settings, tmp_path: Path) -> None:
    misspelt = catch(Settings, workspce_dir=".")
    assert "workspce_dir is no setting; did you mean workspace_dir?" in misspelt.replace("\n ", "")
    assert "the argument workspce_dir" in misspelt

    secret = catch(Settings, store_url="postgres//ada:secret@host/x")
    assert "postgresql://user@host/database" in secret and "secret" not in secret

    tool = catch(load_tools, roots, only=["recal"])
    assert "recal: No ability has this name; did you mean 'recall'?" in tool

    missing = roots.model_copy(update={"workspace_dir": tmp_path / "none"})
    assert "workspace_dir" in catch(load_tools, missing)
    assert "create it" in catch(load_tools, missing)


async def test_python_says_so_if_async_with_is_missing(roots: Settings) -> None:
    opened: Any = Abilities.open(roots)

    with pytest.raises(AttributeError, match="call"):
        await opened.call("file_list")


def test_doctor_says_the_same_of_settings_and_of_what_they_name(here: Path) -> None:
    """What can be loaded it examines, and each finding that fails has a next step."""
    variables = make_variables(here)
    for name, text, words in (
        ("ABILITIES_STORE_URL", f"sqlite:///{here}/ws", "name a file in it"),
        ("ABILITIES_STORE_URL", f"sqlite:///{here}/ws/notes.md", "let store_url name another"),
        ("ABILITIES_WORKSPACE_DIR", f"{here}/none", "set workspace_dir to a folder"),
        ("ABILITIES_DISABLED", "memory_gett", "did you mean 'memory_get'?"),
        ("ABILITIES_TOOLS", "leen", "did you mean 'lean'?"),
        ("ABILITIES_EMBEDDER", "none", "install the package that declares it"),
        ("ABILITIES_TOKENS_FILE", f"{here}/ws/notes.md", "make new tokens"),
    ):
        done = CliRunner().invoke(main, ["doctor"], env={**variables, name: text})

        assert done.exit_code == 1, done.output
        assert words in done.stdout, done.stdout
        assert "broken" not in done.stdout
        last = done.stdout.splitlines()[-1]
        assert re.search(r"^\d+ findings: .*(1 fails|\d unsafe).*\. Begin with ", last), last

    ignored = CliRunner().invoke(main, ["doctor"], env={**variables, "ABILITIES_WORKSPACE": "x"})
    assert "note    settings             ABILITIES_WORKSPACE is ignored" in ignored.stdout
