"""Mistakes at a shell, over HTTP and in Python: each is answered with the next step, in words."""

import gzip
import json
import os
import pty
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import click
import httpx
import pytest

from abilities import Settings
from abilities.cli.main import main
from abilities.helpers.store.postgres import pool
from abilities.helpers.tokens import TokenFile
from tests.conftest import NOBODY
from tests.support.serving import serving_locally
from tests.support.sources import ROOT
from tests.support.surfaces import run

Row = tuple[str, str]
"""What is typed after `abilities`, and what the answer has; {here} is the folder of samples."""

# fmt: off
JSON_MISTAKES: list[Row] = [
    ("call file_read_bulk '{paths: [notes.md]}'", "no quotes are left"),
    ("""call file_read_bulk '{"paths":' '["a"]}'""", "they came in pieces"),
    ("""call file_read_bulk "{'paths': ['a.md']}" """, """As JSON it is: '{"paths": ["a.md"]}'"""),
    ("""call file_read_bulk '{"paths": True}'""", """As JSON it is: '{"paths": true}'"""),
    ("call file_read_bulk '{“paths”: [“notes.md”]}'", "Replace them by straight ones"),
    ("""call file_read_bulk '{"paths": ["notes.md"],}'""", "Remove the comma"),
    ("call file_read_bulk 'paths: [notes.md]'", "In JSON it looks like"),
    ("call file_read_bulk notes.md", "Put them in single quotes"),
    ("""call file_read_bulk '{"paths": ['""", "EOF while parsing"),
    ("call file_read_bulk -", "Send an object, for example"),
    ("call read ''", '{"paths": ["README.md"]}'),
    ("""call '{"paths": ["README.md"]}' file_read_bulk""", "abilities call file_read_bulk"),
]
WORDS: list[Row] = [
    ("recal tea", "'abilities recall'"),
    ("Recall tea", "'abilities recall'"),
    ("search tea", "'abilities recall'"),
    ("ls", "'abilities list'"),
    ("start --port 8642", "'abilities serve'"),
    ("remember tea", "'abilities call remember'"),
    ("file_list", "'abilities call file_list'"),
    ("file_read_bulk call", "'abilities call file_read_bulk'"),
    ("forget old/address", "'abilities purge'"),
    ("delete old", "'abilities call delete_memory'"),
    ("cursor setup", "'abilities setup cursor'"),
    ("help", "'abilities --help'"),
    ("version", "'abilities --version'"),
    ("frobnicate", "'abilities --help'"),
    ("add token --scope read", "'abilities token add'"),
    ("token create --scope read", "'abilities token add'"),
    ("call raed", "choose one of: file_read_bulk"),
    ("call file_readbulk", "did you mean file_read_bulk?"),
    ("describe recal", "did you mean recall"),
    ("describe setup", "abilities setup --help"),
]
OPTIONS: list[Row] = [
    ("call file_list --prety", "'--pretty'"),
    ("serve -p 9000", "--port"),
    ("recall tea -n team", "--namespace"),
    ("recall tea --dir .", "--workspace-dir"),
    ("check --db memory.db", "--store-url"),
    ("graph goals --max-depth 3", "--depth"),
    ("export all.jsonl --force", "abilities export --help"),
    ("import array.json --dryrun", "--dry-run"),
    ("mcp --port 8000", "an option of 'abilities explore' and 'abilities serve'"),
    ("serve --port", "--port INTEGER RANGE"),
    ("recall", 'abilities recall "When'),
    ("import", "abilities import memory.jsonl"),
    ("call", "abilities call file_read_bulk"),
    ("list extra", "unexpected extra argument"),
    ("setup cursor vscode", "setup takes CLIENT only"),
    ("export --resume", "name the file"),
    ("token add", "Missing option '--scope'"),
]
VALUES: list[Row] = [
    ("serve --port http", "whole number from 0 to 65535"),
    ("serve --host 0.0.0.0", "without tokens only 127.0.0.1, ::1, localhost can be served"),
    ("serve --host ::", "Create a token first: abilities token add"),
    ("catch-up --max-tokens 10", "whole number from 500 to 16000"),
    ("graph goals --format png", "'tree', 'svg'"),
    ("token add --scope reed", "'read', 'write'"),
    ("token add --scope metrics --namespace team", "leave out --namespace"),
    ("token add --scope read --namespace 'a b'", "1 to 128 letters"),
    ("recall tea --namespace a/b", "'_-.@:+='"),
    ("completion powershell", "'bash'"),
    ("mcp --tools leen", "lean"),
    ("serve --port 0 --tools lean,recal", "did you mean 'recall'?"),
    ("token add --scope read --tools recal", "did you mean 'recall'?"),
    ("restore missing.db", "Paths begin in"),
    ("import none.jsonl", "Try 'abilities import --help'"),
    ("setup vim", "'cursor'"),
    ("setup claude", "Did you mean claude-code or claude-desktop"),
    ("setup cursor --hooks", "--hooks is for claude-code, codex, gemini only; leave it out"),
    ("setup claude-desktop --project", "has no configuration of a project; leave out --project"),
    ("setup cursor --print --remove", "--print goes with neither"),
    ("setup --remove", "abilities setup CLIENT --remove"),
    ("setup cursor --tools leen --print", "lean"),
    ("--workspace-dir / call file_list", "workspace_dir must not be '/'"),
    ("--workspace-dir notes.md call file_list", "It is set by the option --workspace-dir"),
]
ANSWERED: list[Row] = [
    ("""call file_read_bulk '{"paths": ["nots.md"]}'""", "No such file in the agent directory"),
    ("""call file_read_bulk '{"paths": ["folder"]}'""", "Path is a directory"),
    ("""call file_read_bulk '{"paths": ["/etc/hosts"]}'""", "Use a path relative to the work"),
]
FAILED: list[Row] = [
    ("""call file_read_bulk '["notes.md"]'""", '"type":"object"'),
    ("call file_read_bulk", '"field":"paths"'),
    ("""call file_read_bulk '{"path": ["notes.md"]}'""", "did you mean 'paths'?"),
    ("init notes.md", "a part of this path is a file"),
    ("graph none", "abilities call memory_list"),
    ("graph tea -o none/x.svg", "create its folder"),
    ("purge nokey --yes", "memory_list"),
    ("import {here}/locked", "Those of Claude Code are in ~/.claude/projects"),
    ("import table.csv", 'To import other texts, write one {"key": "..."'),
    ("import bytes.jsonl", 'To import other texts, write one {"key": "..."'),
    ("import memory.jsonl.gz", "gunzip -c FILE | abilities import -"),
    ("import empty.jsonl", "Name another one"),
    ("import array.json", "one object per line"),
    ("import foreign.db", "docs/moving.md"),
    ("import torn.db", "from a backup"),
    ("import {here}/home/.abilities/memory.db", "abilities export"),
    ("export notes.md", "Choose another name"),
    ("export /dev/null", "to print an export, name none"),
    ("export none/x.jsonl", "mkdir -p none"),
    ("backup notes.md", "nothing was changed. Choose another name"),
    ("backup none/x.db", "mkdir -p none"),
    ("backup .", "--keep 7"),
    ("restore notes.md --replace", "use 'abilities import'"),
    ("restore newer.db", "add --replace"),
    ("token revoke none", "'abilities token list' shows the IDs"),
    ("serve --port {port}", "--port 0 takes a free one"),
    ("setup gemini", "nothing was changed"),
]
CONFIGURED: list[tuple[bytes, str]] = [
    (b"timezone = Europe/Berlin", "config.toml is not valid TOML: Invalid value (at line 1, col"),
    (b'timezone: "Europe/Berlin"', 'timezone = "Eur'),
    (b'timezone = "\xff"', "config.toml is not text in UTF-8"),
    (b'workspace = "/tmp"', "did you mean workspace_dir?"),
    (b"port = 9000", "abilities serve --port"),
    (b'[abilities]\ntimezone = "UTC"', "at the top of the file"),
    (b'# sizes\nmax_response_bytes = "much"', "config.toml, line 2: max_response_bytes"),
    (b"max_response_bytes = 10", "must be at least 40000"),
    (b"disabled = 3", "must be a list of names"),
    (b"workspace_dir = 5", "must be a path in quotes"),
    (b'\nagent_dir = "{here}/ws/notes.md"', "config.toml, line 2"),
]
STATS = "call get_memory_stats"
SET: list[tuple[int, str, str, str, str]] = [
    (2, "CONFIG", "{here}/none.toml", "list", "correct ABILITIES_CONFIG"),
    (2, "CONFIG", "{here}/ws", "list", "it must be a file"),
    (2, "DETAIL", "short", "list", "must be one of 'full' or 'concise'"),
    (2, "REDACT", "perhaps", "list", "must be true or false"),
    (2, "TIMEZONE", "Mars", "list", "use a name such as 'Europe/Berlin'"),
    (2, "NAMESPACE", "a b", "list", "1 to 128 letters"),
    (2, "TOOLS", "leen", "list", "did you mean 'lean'?"),
    (2, "TOOLS", "", "list", "must name a profile or an ability"),
    (2, "EMBEDDER", "none", STATS, "It is set by ABILITIES_EMBEDDER"),
    (2, "WORKSPACE_DIR", "{here}/home", "call file_list", "this is your home directory"),
    (2, "WORKSPACE_DIR", "{here}/none", "call file_list", "create it, or name another folder"),
    (2, "TOKENS_FILE", "{here}/ws/notes.md", "token list", "remove it and make new tokens"),
    (0, "DISABLED", "memory_gett", "list", "did you mean 'memory_get'?"),
    (0, "WORKSPACE", "/tmp", "list", "did you mean workspace_dir?"),
    (0, "PORT", "9000", "list", "abilities serve --port"),
    (2, "STORE_URL", "mysql://localhost/x", STATS, "must be 'sqlite:///' and a path"),
    (2, "STORE_URL", "sqlite://memory.db", STATS, "sqlite:///"),
    (2, "STORE_URL", "memory.db", STATS, "for example 'sqlite:///~/.abilities/memory.db'"),
    (1, "STORE_URL", "sqlite:///{here}/ws", STATS, "name a file in it"),
    (1, "STORE_URL", "sqlite:///{here}/ws/notes.md/x.db", STATS, "name another place"),
    (1, "STORE_URL", "sqlite:///{here}/ws/notes.md", STATS, "let store_url name another file"),
    (1, "STORE_URL", "sqlite:///{here}/ws/foreign.db", "check", "let store_url name another file"),
    (1, "STORE_URL", "sqlite:///{here}/ws/newer.db", "check", "install the version that wrote"),
    (1, "STORE_URL", "postgresql://u@127.0.0.1:1/none", STATS, "check that the database runs"),
    (1, "STORE_URL", "postgresql://u@host.invalid/none", STATS, "that store_url names it"),
    (1, "STORE_URL", "sqlite:///{here}/none.db", "export", "it is created when it is first used"),
]
UNPRIVILEGED: list[tuple[int, str, str, str, str]] = [
    (0, "DETAIL", "full", """call file_read_bulk '{"paths": ["locked.md"]}'""", "not readable"),
    (2, "CONFIG", "{here}/locked.toml", "list", "a file that this user may read"),
    (1, "STORE_URL", "sqlite:///{here}/locked/m.db", STATS, "let this user read and write it"),
    (1, "STORE_URL", "sqlite:///{here}/open/memory.db", "export {here}/ws/x.jsonl",
     "choose a place where this user has rights"),
    (2, "TOKENS_FILE", "{here}/locked/tokens.json", "token add --scope read", "let this user read"),
]
REQUESTS: list[tuple[int, str, str, dict[str, str], str | None, str]] = [
    (400, "POST", "/api/abilities/file_list", {}, None, "Send a JSON object"),
    (400, "POST", "/api/abilities/file_list",
     {"content-type": "application/x-www-form-urlencoded"}, "a=b", "Send a JSON object"),
    (405, "GET", "/api/abilities/file_list", {}, None, "/docs has the rest"),
    (404, "POST", "/abilities/file_list", {}, "{}", "/docs has the rest"),
    (404, "POST", "/api/abilities/file_lst", {}, "{}", "did you mean 'file_list'?"),
    (405, "POST", "/", {}, '{"jsonrpc":"2.0","id":1,"method":"ping"}', "MCP is at /mcp"),
    (404, "GET", "/sse", {}, None, "MCP is at /mcp"),
    (421, "GET", "/api/abilities", {"host": "example.org"}, None, "allowed_hosts adds names"),
    (403, "GET", "/api/abilities", {"origin": "https://example.org"}, None, "Pages of other sites"),
]
BEARER = "send 'Authorization: Bearer TOKEN'"
REQUESTS_WITH_TOKENS: list[tuple[int, str, str, dict[str, str], str | None, str]] = [
    (401, "GET", "/api/abilities", {}, None, BEARER),
    (401, "GET", "/api/abilities", {"authorization": "{token}"}, None, BEARER),
    (401, "GET", "/api/abilities?token={token}", {}, None, BEARER),
    (403, "POST", "/api/abilities/store_memory", {"authorization": "Bearer {token}"},
     '{"type": "core", "content": "x"}', "'read' changes nothing"),
]
SURROUNDINGS = [
    ("abilities list > /dev/full", 1, "the output cannot be written: No space left on device"),
    ("abilities list >&-", 1, "stdout is closed"),
    ("abilities call file_list - <&-", 2, "stdin is closed"),
    ("cd folder && mkdir x && cd x && rmdir ../x && unset ABILITIES_WORKSPACE_DIR && "
     "abilities list", 2, "does not exist any more; go to another: cd ~"),
    ("ulimit -f 8; abilities call store_memory '{\"type\": \"core\", \"content\": \"x\"}'",
     1, "check the disk of the store, and what this process may write (ulimit -f)"),
]
# fmt: on

SHOWS_AN_EXCEPTION = re.compile(
    r"Traceback|\b\w+(Error|Exception)\b(?!:)|\[Errno|\[type=|pydantic|line \d+, in "
)


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

    for name in ("home/.gemini", "ws/folder", "locked", "open"):
        (base / name).mkdir(parents=True)
    (base / "home" / ".gemini" / "settings.json").write_text("{")
    (base / "locked.toml").touch()

    ws = base / "ws"
    for name, content in {
        "notes.md": b"first\n",
        "locked.md": b"shut\n",
        "table.csv": b"a,b\n1,2\n",
        "bytes.jsonl": bytes(range(256)),
        "empty.jsonl": b"",
        "array.json": b'[{"key": "tea", "content": "Green tea"}]\n',
        "torn.db": b"SQLite format 3\0" + b"x" * 5_000,
        "memory.jsonl.gz": gzip.compress(b'{"type": "entity"}\n'),
    }.items():
        (ws / name).write_bytes(content)

    memory = ["call", "store_memory", '{"type": "core", "key": "tea", "content": "hot \u00e9"}']
    for store in (f"{base}/home/.abilities/memory.db", f"{ws}/newer.db", f"{base}/open/memory.db"):
        variables = make_variables(base, STORE_URL=f"sqlite:///{store}")
        stored = run(None, *memory, **variables)
        assert stored.exit_code == 0, stored.output

    with closing(sqlite3.connect(ws / "newer.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with closing(sqlite3.connect(ws / "foreign.db")) as connection:
        connection.execute("CREATE TABLE foreigners (name)")

    for path in (ws / "locked.md", base / "locked.toml", base / "locked"):
        path.chmod(0)
    (base / "home" / ".abilities").chmod(0o755)
    (base / "open").chmod(0o777)
    for path in (base / "open").iterdir():
        path.chmod(0o666)


def make_variables(base: Path, **settings: str) -> dict[str, str]:
    folders = {"WORKSPACE_DIR": f"{base}/ws", "AGENT_DIR": f"{base}/ws/folder"}
    named = {f"ABILITIES_{name}": text for name, text in {**folders, **settings}.items()}
    return {"HOME": f"{base}/home", **named}


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.2)


def check(
    here: Path,
    typed: str,
    words: str,
    code: int,
    settings: Mapping[str, str] = {},
    config: Path | None = None,
) -> None:
    """Type a line; check what is answered, and that nothing was changed.

    The settings are in variables, or all of them in a file.
    """
    command = shlex.split(typed.replace("{here}", str(here)))
    named = {name: text.replace("{here}", str(here)) for name, text in settings.items()}
    variables = make_variables(here, **named)
    if config:
        variables = {"HOME": variables["HOME"], "ABILITIES_CONFIG": str(config)}
    done = run(None, *command, stdin="", **variables)

    answer = " ".join((done.stdout + done.stderr).split())
    assert words in answer and done.exit_code == code, answer
    check_words(done.stderr)
    assert (here / "ws" / "notes.md").read_text() == "first\n"


def check_words(text: str) -> None:
    assert not SHOWS_AN_EXCEPTION.search(text), text
    assert str(ROOT) not in text and sys.prefix not in text, text
    assert len(text.splitlines()) <= 8, text


@pytest.mark.parametrize(
    ("code", "rows"),
    [(0, ANSWERED), (1, FAILED), (2, JSON_MISTAKES), (2, WORDS), (2, OPTIONS), (2, VALUES)],
)
def test_what_is_typed_wrongly_is_answered_with_the_next_step(
    code: int, rows: list[Row], here: Path, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / "ws")
    for typed, words in rows:
        check(here, typed.replace("{port}", port), words, code)


def test_a_wrong_setting_is_answered_with_its_place_and_the_next_step(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / "ws")
    for code, name, value, typed, words in SET:
        check(here, typed, words, code, {name: value})

    config = tmp_path / "config.toml"
    for content, words in CONFIGURED:
        config.write_bytes(content.replace(b"{here}", bytes(here)))
        typed = "call file_list" if b"agent" in content else "list"
        check(here, typed, words, 2, config=config)


def test_whoever_has_no_rights_is_told_which(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here / "open")
    user = os.geteuid()
    for code, name, value, typed, words in UNPRIVILEGED:
        if user == 0:
            os.seteuid(NOBODY)
        try:
            check(here, typed, words, code, {name: value})
        finally:
            os.seteuid(user)


def run_shell(command: str, here: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `abilities` is the command."""
    script = f'abilities() {{ "{sys.executable}" -m abilities "$@"; }}; {command}'
    # Where files must stay small, Python would leave broken ones of its own code.
    unwritten = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        ["sh", "-c", script],
        cwd=here / "ws",
        env={**unwritten, **make_variables(here), **more},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.parametrize(("command", "code", "words"), SURROUNDINGS)
def test_a_process_says_what_it_lacks(command: str, code: int, words: str, here: Path) -> None:
    if "/dev/full" in command and not Path("/dev/full").is_char_device():
        pytest.skip("this system has no /dev/full")

    done = run_shell(command, here)

    assert done.returncode == code and words in done.stderr, done.stderr
    check_words(done.stderr)


@pytest.mark.thorough
def test_a_database_that_lets_nobody_in_is_told_from_none(server: str, here: Path) -> None:
    parts = urlsplit(server)
    stranger = parts._replace(netloc=f"stranger@{parts.netloc.rpartition('@')[2]}").geturl()
    missing = parts._replace(path="/none").geturl()

    check(here, "check", "What to do: create the database, or correct", 1, {"STORE_URL": missing})
    check(here, "check", "check the role and password in store_url", 1, {"STORE_URL": stranger})


def test_a_reader_of_the_beginning_is_told_nothing_nor_one_without_utf_8(here: Path) -> None:
    beginning = run_shell("abilities declarations | head -c 1; abilities list | head -n 1", here)
    get = """abilities call memory_get '{"key": "tea"}'"""
    escaped = run_shell(get, here, LC_ALL="C", PYTHONUTF8="0")

    assert beginning.stdout.startswith("[file_read_bulk ")
    assert escaped.stdout.isascii() and "hot \u00e9" in str(json.loads(escaped.stdout))
    assert beginning.stderr == escaped.stderr == ""


@pytest.mark.parametrize(
    ("command", "words"),
    [("mcp", "Waiting for an MCP client"), ("call file_list -", "Type the JSON, and end it with")],
)
def test_what_reads_a_terminal_says_that_it_waits_and_ends_with_ctrl_c(
    command: str, words: str, here: Path
) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "abilities", *command.split()],
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
    assert process.returncode != 0 or command == "mcp"
    check_words(rest)


async def test_a_wrong_request_is_told_the_next_step(private: Settings, tokens: TokenFile) -> None:
    for requests in (REQUESTS, REQUESTS_WITH_TOKENS):
        token = ""
        if requests is REQUESTS_WITH_TOKENS:
            token = tokens.add("default", "read")[1]
        async with (
            serving_locally(private) as server,
            httpx.AsyncClient(base_url=server.address) as client,
        ):
            for status, method, path, headers, body, words in requests:
                sent = {"content-type": "application/json"} if body else {}
                sent |= {name: text.replace("{token}", token) for name, text in headers.items()}
                response = await client.request(
                    method, path.replace("{token}", token), content=body, headers=sent
                )

                message: str = response.json()["error"]["message"]
                assert response.status_code == status and words in message, (path, message)
                check_words(message)
                assert not token or token not in response.text
