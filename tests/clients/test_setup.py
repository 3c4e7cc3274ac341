"""`abilities setup` in a made-up home: every client, and what must never happen to a file."""

import asyncio
import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from mcp import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client

from abilities import Abilities, Settings
from abilities.adapters.mcp import create_server
from abilities.application import build_registry
from abilities.builtin.index import PROFILES
from abilities.cli.main import main
from abilities.clients import edits, entry, trial
from abilities.clients.edits import FileSnapshot, replace_file
from abilities.clients.entry import ServerEntry, name_namespace
from abilities.clients.jsonc import parse
from abilities.clients.table import CLIENTS, Machine
from abilities.clients.trial import ServerAnswer, try_entry, try_hook
from abilities.declarations.memory import parse_namespace
from tests.support.surfaces import with_changes

NAMES = list(CLIENTS)
every_client = pytest.mark.parametrize("name", NAMES)

PLAIN = """\
{
  "theme": "dark",
  "KEY": {
    "other": {"command": "x", "env": {"API_KEY": "s3cret"}}
  },
  "last": [1, 2]
}
"""
WITH_COMMENTS = """\
{
    // how it looks
    "theme": "dark",
    "KEY": {
        /* the first */ "other": {"command": "x"}, // why
    },
}
"""
TOML = """\
# mine
theme = "dark" # the best

[mcp_servers.other]
command = 'x'

[projects."/home/ada"] # trusted
trust_level = "trusted"
"""
VARIABLES = (
    "XDG_CONFIG_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, with the current folder beside it."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for name in ("home", "project"):
        (tmp_path / name).mkdir()

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ServerEntry, Path]]:
    """Replace the trial, which takes half a second, and return what it is given."""
    calls: list[tuple[ServerEntry, Path]] = []

    async def answer(entry: ServerEntry, folder: Path) -> ServerAnswer:
        calls.append((entry, folder))
        return ServerAnswer("agent-abilities 0", 17, "file_list")

    async def succeed(command: str, folder: Path) -> None:
        pass

    monkeypatch.setattr(trial, "try_entry", answer)
    monkeypatch.setattr(trial, "try_hook", succeed)
    return calls


@pytest.fixture
def really_tried(tried: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start what was written, as the command does."""
    monkeypatch.setattr(trial, "try_entry", try_entry)
    monkeypatch.setattr(trial, "try_hook", try_hook)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments, prog_name="abilities")

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def setup(*arguments: str) -> str:
    done = run("setup", *arguments)

    assert done.exit_code == 0, done.output
    return done.output


def refuse(*arguments: str) -> str:
    refused = run(*arguments)

    assert refused.exit_code in (1, 2), refused.output
    return " ".join(refused.output.split())


def find_hooks_file(name: str = "claude-code") -> Path:
    hooks = CLIENTS[name].hooks
    assert hooks is not None
    return hooks.find_file(Machine(), None)


def find_file(name: str) -> Path:
    return CLIENTS[name].find_file(Machine(), None)


def write_file(name: str, text: str) -> Path:
    file = find_file(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.replace("KEY", CLIENTS[name].keys[0], 1).encode())
    return file


def write_sample(name: str) -> Path:
    if CLIENTS[name].format == "toml":
        return write_file(name, TOML)

    return write_file(name, WITH_COMMENTS if CLIENTS[name].reads_comments else PLAIN)


def load(name: str, file: Path | None = None) -> dict[str, Any]:
    text = (file or find_file(name)).read_text()
    data = tomllib.loads(text) if CLIENTS[name].format == "toml" else parse(text).data

    assert isinstance(data, dict)
    return data


def get_server(name: str, file: Path | None = None) -> dict[str, Any]:
    """Return what a client starts, as its documentation says: command, args and env."""
    server = load(name, file)[CLIENTS[name].keys[0]]["abilities"]

    if name == "opencode":
        assert server["type"] == "local"
        command, *arguments = server["command"]
        return {"command": command, "args": arguments, "env": server.get("environment", {})}

    assert server.get("type") == ("stdio" if name in ("claude-code", "cursor", "vscode") else None)
    return {key: server.get(key, {}) for key in ("command", "args", "env")}


def list_files(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@every_client
def test_a_new_file_is_the_block_to_paste_is_written_once_and_goes_again(
    name: str, home: Path, tried: list[object]
) -> None:
    printed = run("setup", name, "--print")
    assert list_files(home) == {} and tried == []

    first = setup(name)
    written = list_files(home)
    second = setup(name)

    assert printed.stdout == find_file(name).read_text()
    assert printed.stderr == f"To paste into {find_file(name)}:\n"
    assert f"Wrote {find_file(name)}" in first and "Next: " in first
    assert "nothing was changed" in second and list_files(home) == written
    is_desktop = name == "claude-desktop"  # it alone has no tools for files, and no projects
    said = " ".join(first.split())
    assert (f"{CLIENTS[name].title} reads notes and cannot write them" in said) is is_desktop
    assert ("All projects share these notes and memories" in said) is not is_desktop
    assert "Removed" in setup(name, "--remove")
    assert not find_file(name).exists()
    assert "nothing was changed" in setup(name, "--remove")


@every_client
def test_what_is_there_stays_and_so_does_what_somebody_adds_later(name: str) -> None:
    file = write_sample(name)
    before, data = file.read_bytes(), load(name)

    first = setup(name)

    (backup,) = re.findall(r"as it was: (\S+)", first)
    assert Path(backup).parent == Path.home() / ".abilities" / "backups"
    assert Path(backup).read_bytes() == before
    assert get_server(name)["args"][-1] == "mcp"
    changed = load(name)
    del changed[CLIENTS[name].keys[0]]["abilities"]
    assert changed == data

    setup(name, "--tools", "lean")
    assert get_server(name)["args"][-2:] == ["--tools", "lean"]
    file.write_bytes(file.read_bytes().replace(b"dark", b"light"))
    setup(name, "--remove")
    assert file.read_bytes() == before.replace(b"dark", b"light")


@pytest.mark.parametrize(
    "text", ['{\n\t"KEY": {},\n\t"n": 1}', "{}", "", '{"KEY":{ \n }}', "\ufeff{}\r\n"]
)
def test_space_in_empty_objects_comes_back_too(text: str) -> None:
    file = write_file("cursor", text)
    before = file.read_bytes()

    setup("cursor")
    assert get_server("cursor")["args"][-1] == "mcp"
    setup("cursor", "--remove")

    assert file.read_bytes() == before


@every_client
def test_a_dry_run_shows_what_would_change_and_changes_nothing(name: str, home: Path) -> None:
    write_sample(name)
    before = list_files(home)

    shown = setup(name, "--dry-run")

    assert "abilities" in shown and "s3cret" not in shown
    first, *lines = shown.splitlines()
    assert first == f"{find_file(name)} would change:"
    assert {line[0] for line in lines} == {"@", "+"}
    assert list_files(home) == before
    setup(name)
    after = list_files(home)
    assert "-" in setup(name, "--remove", "--dry-run")
    assert "nothing would change" in setup(name, "--dry-run")
    assert list_files(home) == after


OWN_AND_ANOTHER = {
    "github": {"command": "gh", "env": {"TOKEN": "s3cret"}},
    "abilities": {"command": "abilities", "args": ["mcp"], "env": {"API_TOKEN": "s3cret"}},
}


@pytest.mark.parametrize(
    "text",
    [
        '{"KEY":{"other":{"env":{"API_KEY":"s3cret"}}},"token":"s3cret"}',
        '{\n"KEY": ' + json.dumps(OWN_AND_ANOTHER) + "}\n",
        '{\n"KEY": ' + json.dumps(OWN_AND_ANOTHER, indent=2) + "}\n",
    ],
    ids=["a file of one line", "servers in one line", "servers in many lines"],
)
def test_a_dry_run_shows_no_text_of_others(text: str) -> None:
    write_file("cursor", text)

    shown = setup("cursor", "--tools", "lean", "--dry-run")

    assert "lean" in shown and "s3cret" not in shown


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_new_files_with_hooks_are_shown_before_and_leave_nothing(name: str, home: Path) -> None:
    shown = setup(name, "--hooks", "--dry-run")
    setup(name, "--hooks")

    assert shown.count(" would be created:\n") == 2
    for file in (find_file(name), find_hooks_file(name)):
        if name == "gemini":
            continue  # it has both in one file

        assert "".join(f"+{line}\n" for line in file.read_text().splitlines()) in shown

    setup(name, "--remove")
    assert [path for path in list_files(home) if "backups" not in path] == []


@every_client
def test_an_invalid_file_is_refused_with_its_line(name: str, home: Path) -> None:
    file = write_file(name, '{\n"a": 1\n"b": 2\n}')
    before = list_files(home)

    for option in ("--tools=lean", "--remove", "--dry-run"):
        words = refuse("setup", name, option)
        assert f"{file}, line {1 if name == 'codex' else 3}: " in words
        assert "nothing was changed" in words
        assert list_files(home) == before


def test_a_file_that_the_client_cannot_read_is_refused_with_its_line() -> None:
    for name in ("claude-code", "claude-desktop"):
        file = write_file(name, '{\n  "a": 1,\n  // what\n  "b": 2\n}')
        assert f"{file}, line 3: this client reads neither comments" in refuse("setup", name)

    file = write_file("cursor", "")
    file.write_bytes(b'{\n"a": "\xff"}')
    assert f"{file}, line 2: the text is not UTF-8" in refuse("setup", "cursor")

    file.unlink()
    file.mkdir()
    assert f"{file}: Is a directory" in refuse("setup", "cursor")


def disturb(
    file: Path, edit: Callable[[str], str], times: int, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Let another program edit a file so many times, just before it is replaced."""
    done: list[str] = []

    def replace(snapshot: FileSnapshot, content: bytes | None) -> Path | None:
        if len(done) < times:
            done.append("edited")
            file.write_text(edit(file.read_text()))

        return replace_file(snapshot, content)

    monkeypatch.setattr(edits, "replace_file", replace)
    return done


@pytest.mark.parametrize("option", ["--tools=lean", "--remove"])
def test_what_another_program_writes_meanwhile_is_kept(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_file("vscode", PLAIN)
    setup("vscode")
    done = disturb(file, lambda text: text.replace("dark", "light"), 1, monkeypatch)

    setup("vscode", option)

    assert done == ["edited"]
    assert load("vscode")["theme"] == "light"
    assert ("abilities" in load("vscode")["servers"]) == (option != "--remove")


def test_a_file_that_never_rests_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_file("vscode", PLAIN)
    disturb(file, lambda text: text + "\n", 1_000, monkeypatch)

    assert "another program keeps changing the file" in refuse("setup", "vscode")
    assert "abilities" not in file.read_text()


def test_settings_are_written_with_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    for name in ("notes", "agent"):
        (project / name).mkdir()
    (project / "my.toml").write_text("max_response_bytes = 50000\n")
    for name, value in (
        ("CONFIG", "my.toml"),
        ("STORE_URL", "sqlite:///mine.db"),
        ("TOKENS_FILE", "tokens.json"),
        ("NAMESPACE", "ada"),
        ("TESTS", "all"),
    ):
        monkeypatch.setenv(f"ABILITIES_{name}", value)

    done = run("--workspace-dir", "notes", "--agent-dir", "agent", "setup", "claude-desktop")

    assert done.exit_code == 0, done.output
    assert f"Files: {project}/notes" in done.output
    assert get_server("claude-desktop")["env"] == {
        "ABILITIES_CONFIG": str(project / "my.toml"),
        "ABILITIES_AGENT_DIR": str(project / "agent"),
        "ABILITIES_WORKSPACE_DIR": str(project / "notes"),
        "ABILITIES_NAMESPACE": "ada",
        "ABILITIES_STORE_URL": f"sqlite:///{project}/mine.db",
        "ABILITIES_TOKENS_FILE": str(project / "tokens.json"),
    }
    shown = setup("cursor", "--store-url", "sqlite:///other.db", "--print")
    assert f'"ABILITIES_STORE_URL": "sqlite:///{project}/other.db"' in shown


def test_the_command_that_runs_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "abilities"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)

    monkeypatch.setattr("sys.argv", ["./abilities"])
    assert entry.find_command() == (str(program),)

    monkeypatch.setattr("sys.argv", ["/lib/abilities/__main__.py"])
    command, *arguments = entry.find_command()
    assert Path(command).is_absolute()
    assert arguments == ["-P", "-m", "abilities"]


def test_a_command_in_a_cache_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "find_command", lambda: ("/h/.cache/uv/archive-v0/x/bin/abilities",))

    assert "lies in a cache, which may be emptied" in setup("codex")


@pytest.mark.parametrize(
    "url", ["postgresql://ada:s3cret@db/x", "postgresql://db/x?user=ada&password=s3cret"]
)
def test_a_password_is_written_nowhere(
    url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABILITIES_STORE_URL", url)

    words = refuse("setup", "codex")

    assert f"put store_url into {home}/.abilities/config.toml" in words
    assert "s3cret" not in words
    assert list_files(home) == {}

    (home / ".abilities").mkdir()
    (home / ".abilities" / "config.toml").write_text(f'store_url = "{url}"\n')
    assert "s3cret" not in setup("codex")
    assert "s3cret" not in find_file("codex").read_text()


def test_a_token_is_written_nowhere(home: Path) -> None:
    token = run("token", "add", "--namespace", "default", "--scope", "read").output.split()[-1]

    for name in NAMES:
        setup(name)

    files = [content for name, content in list_files(home).items() if "abilities/" not in name]
    assert len(files) == len(NAMES)
    assert not any(token.encode() in content for content in files)


@pytest.mark.parametrize("folder", ["$HOME", "{env:X}"])
def test_a_path_that_clients_would_expand_is_refused(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()

    words = refuse("--workspace-dir", str(tmp_path / folder), "setup", "gemini")

    assert "clients replace what begins with" in words


@every_client
def test_what_the_owner_added_to_the_entry_stays(name: str) -> None:
    setup(name)
    file, key = find_file(name), CLIENTS[name].keys[0]
    variables = "environment" if name == "opencode" else "env"
    own = {"PGPASSFILE": "/p", "ABILITIES_DENY": "x"}
    if name == "codex":
        added = '\ntimeout = 5\nenv = {PGPASSFILE = "/p", ABILITIES_DENY = "x"}'
        file.write_text(file.read_text().rstrip() + added)
    else:
        server = load(name)[key]["abilities"] | {"timeout": 5, variables: own}
        file.write_text(json.dumps({key: {"abilities": server}}))

    setup(name, "--tools", "lean")

    server = load(name)[key]["abilities"]
    assert (server["timeout"], server[variables]) == (5, own)
    assert get_server(name)["args"][-1] == "lean"


@pytest.mark.parametrize(
    "another",
    [
        '{"url": "https://example.com/mcp"}',
        '{"command": "ssh", "args": ["host", "abilities", "mcp"]}',
    ],
)
def test_another_server_of_that_name_is_left_alone(another: str) -> None:
    file = write_file("cursor", f'{{"KEY": {{"abilities": {another}}}}}')
    before = file.read_bytes()

    for option in ("--tools=lean", "--remove", "--dry-run"):
        words = refuse("setup", "cursor", option)
        assert f"{file}: mcpServers.abilities is another server" in words
        assert file.read_bytes() == before


def read_hooks(file: Path | None = None) -> dict[str, Any]:
    hooks: dict[str, Any] = json.loads((file or find_hooks_file()).read_text())
    return hooks["hooks"]  # type: ignore[no-any-return]


HOOKS: dict[str, dict[str, str | None]] = {
    "claude-code": {
        "SessionStart": None,
        "PreCompact": None,
        "UserPromptSubmit": None,
        "PreToolUse": "Edit|Write|MultiEdit|NotebookEdit",
    },
    "codex": {"SessionStart": None, "UserPromptSubmit": None, "PreToolUse": "apply_patch"},
    "gemini": {"SessionStart": None, "BeforeAgent": None},
}
"""The events of the clients that have hooks, and the tools that each is for."""


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_are_written_only_when_asked_for(name: str, home: Path) -> None:
    setup(name)
    file = find_hooks_file(name)
    assert name == "gemini" or not file.exists()
    setup(name, "--remove")
    file.parent.mkdir(exist_ok=True)
    own = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}]}}
    file.write_text(json.dumps(own, indent=4))
    before = list_files(home)

    shown = setup(name, "--hooks", "--dry-run") + setup(name, "--hooks", "--print")
    assert list_files(home) == before
    assert all(f"hook {event} || exit 1" in shown for event in HOOKS[name])
    setup(name, "--hooks")

    hooks = read_hooks(file)
    assert hooks["SessionStart"].pop(0) == own["hooks"]["SessionStart"][0]
    assert {event: group.get("matcher") for event, (group,) in hooks.items()} == HOOKS[name]
    for event, (group,) in hooks.items():
        (hook,) = group["hooks"]
        assert re.fullmatch(rf"/\S+.* -m abilities hook {event} \|\| exit 1", hook["command"])

    after = list_files(home)
    setup(name, "--hooks")
    assert list_files(home) == after
    setup(name, "--remove")
    kept = {path: content for path, content in list_files(home).items() if path in before}
    assert kept == before
    assert name == "gemini" or not find_file(name).exists()


OLD_HOOKS = {
    "SessionStart": "{} catch-up || exit 1",
    "PreCompact": "echo 'The data below is stored.'; {} catch-up --max-tokens 1900 || exit 1",
}
"""The hooks of versions before `abilities hook`, of the program that the braces stand for."""


@pytest.mark.parametrize("program", ["/opt/abilities", "env 'A=b c' '/my opt/abilities'"])
def test_hooks_of_an_older_version_are_replaced_and_removed(program: str, home: Path) -> None:
    def write_old() -> Path:
        hooks: dict[str, Any] = {"Stop": [{"hooks": [{"type": "command", "command": "date"}]}]}
        for event, command in OLD_HOOKS.items():
            text = command.format(program)
            hooks[event] = [{"hooks": [{"type": "command", "command": text}]}]
        file = find_hooks_file()
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"hooks": hooks}))
        return file

    file = write_old()
    setup("claude-code", "--hooks")
    assert read_hooks().keys() == {"Stop", *HOOKS["claude-code"]}
    assert [len(groups) for groups in read_hooks().values()] == [1] * 5
    assert "catch-up" not in file.read_text()

    for _ in range(2):
        setup("claude-code", "--remove")
        assert [event for event, groups in read_hooks().items() if groups] == ["Stop"]
        write_old()


def test_a_hook_that_its_owner_edited_is_still_ours() -> None:
    setup("claude-code", "--hooks")
    file = find_hooks_file()
    hooks = read_hooks()
    hooks["SessionStart"][0]["hooks"][0]["timeout"] = 30
    hooks["SessionStart"][0]["matcher"] = "startup"
    file.write_text(json.dumps({"hooks": hooks}))
    before = file.read_bytes()

    setup("claude-code", "--hooks")
    assert file.read_bytes() == before
    setup("claude-code", "--remove")
    assert not file.exists()


def test_hooks_have_the_same_variables_quoted_for_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it's here").mkdir()
    monkeypatch.setenv("ABILITIES_WORKSPACE_DIR", str(tmp_path / "it's here"))
    setup("claude-code", "--hooks")
    (first,) = read_hooks()["SessionStart"]
    monkeypatch.delenv("ABILITIES_WORKSPACE_DIR")
    setup("claude-code", "--hooks")
    (second,) = read_hooks()["SessionStart"]
    setup("claude-code", "--hooks", "--tools", "lean, file_list")
    (third,) = read_hooks()["PreToolUse"]

    assert first["hooks"][0]["command"].startswith("env 'ABILITIES_WORKSPACE_DIR=")
    assert "env " not in second["hooks"][0]["command"]
    assert third["hooks"][0]["command"].startswith("env ABILITIES_TOOLS=lean,file_list /")
    setup("claude-code", "--remove")
    assert not find_hooks_file().exists()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "claude-desktop"])
def test_a_project_has_a_file_of_its_own(
    name: str, home: Path, tmp_path: Path, tried: list[tuple[ServerEntry, Path]]
) -> None:
    project = tmp_path / "project"

    shown = setup(name, "--project")

    (file,) = list_files(project)
    assert get_server(name, project / file)["env"] == {
        "ABILITIES_WORKSPACE_DIR": str(project),
        "ABILITIES_NAMESPACE": "project",
        "ABILITIES_AGENT_DIR": f"{home}/.abilities/projects/{{namespace}}",
    }
    assert f"Notes: {home}/.abilities/projects/project; memories:" in shown
    assert "keep it out of version control" in shown
    assert "namespace project\n" in shown
    assert "All projects share" not in shown
    assert [folder for _, folder in tried] == [project]
    assert list_files(home) == {}
    setup(name, "--project", "--remove")
    assert list(project.iterdir()) == []


def find_variables() -> dict[str, str]:
    """Return the variables in the entry of a project."""
    variables: dict[str, str] = get_server("cursor", Path(".cursor/mcp.json"))["env"]
    return variables


def test_a_home_is_no_project(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)

    assert "this is your home directory" in refuse("setup", "cursor", "--project")


def test_the_project_wins_over_the_settings_file(home: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "other", home / ".abilities"):
        folder.mkdir()
    (home / ".abilities" / "config.toml").write_text(f'workspace_dir = "{tmp_path}/other"\n')

    setup("cursor", "--project")

    assert find_variables()["ABILITIES_WORKSPACE_DIR"] == f"{tmp_path}/project"


def test_a_namespace_is_written_if_it_is_named_and_that_of_a_project_stays() -> None:
    setup("codex", "--namespace", "team")
    assert get_server("codex")["env"] == {"ABILITIES_NAMESPACE": "team"}

    for more in (["--namespace", "team"], []):
        setup("cursor", "--project", *more)
        assert find_variables()["ABILITIES_NAMESPACE"] == "team"


@pytest.mark.parametrize("name", ["default", "ä", "my notes", "notes" * 30, "a%2e"])
def test_every_folder_gives_its_project_a_namespace_of_its_own(name: str) -> None:
    namespace = name_namespace(Path("/home", name))

    assert parse_namespace(namespace) == namespace
    assert namespace not in ("default", name)
    assert namespace != name_namespace(Path("/home", name + "?"))


def test_the_notes_of_a_project_are_those_that_are_asked_for_or_that_it_has(
    home: Path, tmp_path: Path
) -> None:
    shown = setup("cursor", "--project", "--print")
    assert f"create it: mkdir -p {home}/.abilities/projects" in shown
    assert not (home / ".abilities").exists()

    notes = tmp_path / "notes"
    notes.mkdir()
    for more in (["--agent-dir", str(notes)], []):
        setup("cursor", "--project", *more)
        assert find_variables()["ABILITIES_AGENT_DIR"] == str(notes)
    setup("cursor", "--project", "--remove")

    apart = home / "{namespace}"
    (home / ".abilities").mkdir(exist_ok=True)
    (home / ".abilities" / "config.toml").write_text(f'agent_dir = "{apart}"\n')
    assert f"Notes: {home}/project;" in setup("cursor", "--project")
    assert "ABILITIES_AGENT_DIR" not in find_variables()


def test_earlier_sessions_are_offered_and_not_imported(home: Path) -> None:
    assert "Earlier sessions" not in setup("claude-code")
    project = re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd()))
    folders = {
        "claude-code": home / ".claude" / "projects" / "-other",
        "--project": home / ".claude" / "projects" / project,
        "codex": home / ".codex" / "sessions" / "2026" / "01" / "18",
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "rollout-1.jsonl").write_text("{}\n" * 40_000)

    offers = {
        words: [line for line in setup(*words.split()).splitlines() if "Earlier" in line]
        for words in ("claude-code", "claude-code --project", "codex", "cursor")
    }

    command = "To remember what you asked in them and how it ended: abilities import"
    root = home / ".claude" / "projects"
    own = f"{root / project} --namespace {name_namespace(Path.cwd())}.sessions"
    assert offers == {
        "claude-code": [f"Earlier sessions: 2 with 0.2 MB. {command} {root}"],
        "claude-code --project": [f"Earlier sessions: 1 with 0.1 MB. {command} {own}"],
        "codex": [f"Earlier sessions: 1 with 0.1 MB. {command} {home / '.codex' / 'sessions'}"],
        "cursor": [],
    }
    assert not (home / ".abilities" / "memory.db").exists()


LIBRARY = "/h/Library/Application Support"
"""Where applications keep their files on macOS."""


@pytest.mark.parametrize(
    ("name", "variable", "value", "file"),
    [
        ("claude-desktop", "OTHER", "", f"{LIBRARY}/Claude/claude_desktop_config.json"),
        ("vscode", "OTHER", "", f"{LIBRARY}/Code/User/mcp.json"),
        ("claude-code", "CLAUDE_CONFIG_DIR", "/c", "/c/.claude.json"),
        ("claude-code", "OTHER", "/c", "/h/.claude.json"),
        ("claude-desktop", "XDG_CONFIG_HOME", "/x", "/x/Claude/claude_desktop_config.json"),
        ("vscode", "XDG_CONFIG_HOME", "/x", "/x/Code/User/mcp.json"),
        ("codex", "CODEX_HOME", "/c", "/c/config.toml"),
        ("gemini", "GEMINI_CLI_HOME", "/g", "/g/.gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "/x", "/x/opencode/opencode.json"),
        ("opencode", "OPENCODE_CONFIG_DIR", "/o", "/o/opencode.json"),
        ("opencode", "OPENCODE_CONFIG", "/o/mine.jsonc", "/o/mine.jsonc"),
        ("opencode", "OTHER", "", "/h/.config/opencode/opencode.json"),
        ("cursor", "XDG_CONFIG_HOME", "/x", "/h/.cursor/mcp.json"),
    ],
)
def test_a_client_reads_the_file_that_its_variables_and_its_system_name(
    name: str, variable: str, value: str, file: str
) -> None:
    system = "darwin" if file.startswith(LIBRARY) else "linux"
    machine = Machine(Path("/h"), {variable: value}, system)

    assert CLIENTS[name].find_file(machine, None) == Path(file)


def test_opencode_reads_its_file_with_comments_last(home: Path) -> None:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{\n  // mine\n}\n")

    setup("opencode")

    assert list(list_files(folder)) == ["opencode.jsonc"]
    assert "// mine" in (folder / "opencode.jsonc").read_text()


def test_the_list_of_clients_tells_where_the_server_is_set_up_already() -> None:
    write_file("cursor", '{"KEY": {"abilities": {"command": "other"}}}')
    setup("codex")
    setup("gemini", "--project")

    def list_states(*options: str) -> dict[str, str]:
        lines = [re.split(" {2,}", line) for line in setup(*options).splitlines()[:-1]]
        assert all(Path(file).is_absolute() for _, _, file in lines)
        return {name: state for name, state, _ in lines}

    everywhere, here = list_states(), list_states("--project")
    assert list(everywhere) == NAMES
    assert list(here) == [name for name in NAMES if name != "claude-desktop"]
    assert everywhere["codex"] == here["gemini"] == "set up"
    assert everywhere["gemini"] != "set up"
    assert here["codex"] == everywhere["cursor"] == "found"


async def setup_in_thread(*arguments: str) -> str:
    return await asyncio.to_thread(setup, *arguments)


@pytest.mark.usefixtures("really_tried")
@pytest.mark.sampled(1)
@every_client
async def test_the_official_client_starts_what_was_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "project" / "a.txt").write_text("read")
    write_sample(name)
    hooks = ["--hooks"] if name in HOOKS else []

    shown = await setup_in_thread(name, "--workspace-dir", ".", *hooks)

    tested = r"^Tested: agent-abilities \S+ answers with \d+ tools, and file_list works"
    assert re.search(tested, shown)
    server = StdioServerParameters(**get_server(name), cwd="/")
    async with McpClient(stdio_client(server)) as client:
        result = await client.call_tool("file_read_bulk", {"paths": ["a.txt"]})
    assert not result.is_error
    assert "read" in result.content[0].text  # type: ignore[union-attr]


@pytest.mark.usefixtures("really_tried")
@pytest.mark.parametrize("options", [[], ["--hooks"]])
def test_a_command_that_fails_is_not_written(
    options: list[str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "abilities"
    program.write_text(f"#!/bin/sh\nenv > '{seen}'\necho 'no such store' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(entry, "find_command", lambda: (str(program),))
    monkeypatch.setenv("ABILITIES_NAMESPACE", "ada")
    monkeypatch.setenv("ABILITIES_TESTS", "all")
    monkeypatch.setenv("SECRET", "s3cret")
    write_file("claude-code", PLAIN)
    before = list_files(home)

    words = refuse("setup", "claude-code", *options)

    assert "Claude Code could not use this, so nothing was changed: no such store" in words
    assert list_files(home) == before
    lines = [line.partition("=") for line in seen.read_text().splitlines()]
    variables = {variable: value for variable, _, value in lines}
    assert [name for name in variables if name.startswith("ABILITIES_")] == ["ABILITIES_NAMESPACE"]
    assert variables["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert "SECRET" not in variables


async def test_a_hook_that_fails_says_why(tmp_path: Path) -> None:
    for command, words in (
        ("echo 'no notes' >&2; exit 1", "no notes"),
        ("exit 1", "printed nothing"),
        ("true", "printed nothing"),
    ):
        with pytest.raises(trial.TrialFailed, match=words):
            await try_hook(command, tmp_path)

    home = os.environ["HOME"]
    await try_hook(
        f'test -z "$ABILITIES_CONFIG" && test "$HOME" = {home} && grep session_id', tmp_path
    )


async def test_a_hook_of_a_project_has_no_notes_of_another(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for notes, words in (("agent", "Of everybody."), ("projects/mine", "Of this project.")):
        folder = home / ".abilities" / notes
        folder.mkdir(parents=True)
        (folder / "MEMORY.md").write_text(words)

    for name, expected in (("mine", ["Of this project."]), ("other", [])):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        await setup_in_thread("claude-code", "--project", "--hooks")
        hooks = read_hooks(Path(".claude", "settings.json"))
        command = hooks["SessionStart"][0]["hooks"][0]["command"]
        process = await asyncio.create_subprocess_shell(
            command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=folder
        )
        printed = (await process.communicate(b"{}"))[0].decode()
        assert re.findall(r"Of \w+ ?\w*\.", printed) == expected


async def test_it_says_what_each_profile_costs_and_recommends_one(roots: Settings) -> None:
    said = await setup_in_thread("codex")
    costs: list[str] = []

    for profile in ("all", *PROFILES):
        settings = with_changes(roots, tools=(profile,))
        async with (
            Abilities.open(settings) as abilities,
            McpClient(create_server(abilities)) as client,
        ):
            listed = await client.list_tools()
            tools = listed.model_dump_json(by_alias=True, exclude_unset=True, include={"tools"})
            size = len(tools.encode()) + len((client.instructions or "").encode())
        costs.append(f"{profile} {-(-size // 4):,}")

    assert f"Tokens of the tools: {', '.join(costs)}." in said
    assert "Recommended for Codex: --tools lean" in said
    assert "--tools all" in await setup_in_thread("claude-code")


def test_the_page_allows_reading_tools_alone() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    names = re.findall(r'"mcp__abilities__(\w+)"', page)
    registry, _ = build_registry(Settings())

    reading = {ability.name for ability in registry if ability.read_only}

    assert names and set(names) <= reading
