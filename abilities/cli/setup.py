"""The command `setup`: put this package into the configuration of an MCP client."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from abilities.adapters.tools import describe_tool
from abilities.application import build_offer
from abilities.builtin.index import ALL, PROFILES
from abilities.cli.completion import complete_tools
from abilities.cli.errors import explain_errors
from abilities.cli.options import take_namespace
from abilities.cli.session import Session, pass_session
from abilities.cli.terminal import echo, echo_line, format_count
from abilities.clients.entry import NOTES, Unusable, is_set_here, name_namespace
from abilities.clients.table import CLIENTS, Client, Machine, find_hooks_file
from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.values import json_size, text_size
from abilities.errors import format_install, is_installed
from abilities.prompts import build_instructions
from abilities.settings import Settings, split_names

if TYPE_CHECKING:
    from abilities.clients.changes import FileChange, HooksChange, ServerChange
    from abilities.clients.edits import Edit

_EXAMPLES = """\b
Examples:
  abilities setup
  abilities setup claude-code --dry-run
  abilities setup cursor --project
  abilities setup claude-desktop --workspace-dir ~/notes --tools lean
  abilities setup codex --remove
"""


class _Target(NamedTuple):
    """A client, and the project that it is set up for: None for all projects of the user."""

    client: Client
    project: Path | None

    @property
    def file(self) -> Path:
        return self.client.find_file(Machine(), self.project)


@click.command(epilog=_EXAMPLES)
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="[CLIENT]", required=False)
@click.option("--project", is_flag=True, help="Set it up for the project in the current folder.")
@click.option("--hooks", is_flag=True, help="Claude Code: run 'abilities catch-up' by hooks too.")
@click.option(
    "--tools",
    metavar="NAMES",
    shell_complete=complete_tools,
    help="The abilities to offer, as for 'abilities mcp'.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the block to paste, do no more.")
@click.option("--dry-run", is_flag=True, help="Show the difference, and change nothing.")
@click.option("--remove", is_flag=True, help="Take out what setup put in.")
@take_namespace("The namespace that is written (default: none; with --project the folder's name).")
@pass_session
def setup(
    session: Session,
    client: str | None,
    project: bool,
    hooks: bool,
    tools: str | None,
    only_print: bool,
    dry_run: bool,
    remove: bool,
) -> None:
    """Set up an MCP client, or list the clients.

    CLIENT is claude-code, claude-desktop, cursor, vscode, codex, gemini or opencode.

    Starts the server as the client will, and makes a call; only if that works, writes the server
    into the client's configuration. What is there stays as it is, and a backup goes into
    ~/.abilities/backups. No token and no password is written.
    """
    folder = Path.cwd() if project else None
    if client is None and (hooks or only_print or dry_run or remove or tools is not None):
        raise click.UsageError("name the client, for example: abilities setup CLIENT --remove")
    if client is None:
        _list_clients(folder)
        return

    if hooks and client != "claude-code":
        raise click.UsageError("--hooks is for claude-code only; leave it out")
    if only_print and (remove or dry_run):
        raise click.UsageError("--print goes with neither --remove nor --dry-run; leave those out")

    target = _Target(CLIENTS[client], folder)
    _check_target(target)

    with _explain_unusable():
        if remove:
            _remove(target, dry_run=dry_run)
            return

        if tools is not None:
            _ = session.override({"tools": split_names(tools)}).registry  # raises for wrong ones

        session = settle_workspace(session, folder)
        if folder is not None:
            session = settle_project(session, target.client, folder)

        server, hooks_change = _build_changes(session, target, tools, with_hooks=hooks)

        if only_print:
            _print_blocks(session, target, server, hooks_change)
        else:
            _set_up(session, target, server, hooks_change, dry_run=dry_run)


def _list_clients(project: Path | None) -> None:
    for client in CLIENTS.values():
        target = _Target(client, project)
        try:
            echo(f"{client.name:<15} {_find_state(target):<10} {target.file}")
        except ValueError:
            continue  # it knows no projects

    echo(f"Set one up: abilities setup CLIENT{' --project' if project else ''}")


def _find_state(target: _Target) -> str:
    """Return whether a client has abilities, or is at least on this machine."""
    from abilities.clients.edits import read_server

    try:
        if read_server(target.client, target.file) is not None:
            return "set up"
    except (Unusable, OSError):
        pass  # setting it up says why

    return "found" if target.client.is_found(Machine()) else "not found"


def _check_target(target: _Target) -> None:
    """Raise click.UsageError if there is nothing to set up in this way."""
    if not is_installed("mcp"):
        raise click.UsageError(f"setup needs MCP; run: {format_install('mcp')}")

    try:
        _ = target.file
    except ValueError as error:
        raise click.UsageError(f"{error}; leave out --project") from None


@contextmanager
def _explain_unusable() -> Generator[None]:
    with explain_errors():
        try:
            yield
        except Unusable as error:
            raise click.ClickException(str(error)) from None


def _build_changes(
    session: Session, target: _Target, tools: str | None, *, with_hooks: bool
) -> "tuple[ServerChange, HooksChange | None]":
    from abilities.clients.changes import ServerChange, build_hooks_change
    from abilities.clients.entry import build_entry

    entry = build_entry(session.settings, session.options, tools)
    server = ServerChange(target.client, entry)
    hooks = build_hooks_change(entry) if with_hooks else None
    return server, hooks


def _print_blocks(
    session: Session, target: _Target, server: "ServerChange", hooks: "HooksChange | None"
) -> None:
    """Print what empty files would get, and on stderr the names of the files."""
    for file, change in _list_changes(target, server, hooks):
        echo(f"To paste into {file}:", err=True)
        click.echo(change.put(""), nl=False)

    folder = find_missing_folder(session)
    if folder is not None:
        echo(f"The server needs a folder for notes, so create it: mkdir -p {folder}", err=True)


def _list_changes(
    target: _Target, server: "ServerChange", hooks: "HooksChange | None"
) -> "list[tuple[Path, FileChange]]":
    changes: list[tuple[Path, FileChange]] = [(target.file, server)]
    if hooks is not None:
        changes.append((find_hooks_file(Machine(), target.project), hooks))

    return changes


def _set_up(
    session: Session,
    target: _Target,
    server: "ServerChange",
    hooks: "HooksChange | None",
    *,
    dry_run: bool,
) -> None:
    from abilities.clients.edits import plan_put, write_put

    client = target.client

    # All are planned before the first is written: either all are fit for it, or nothing changes.
    plans = [
        (plan_put(file, change, reads_comments=client.reads_comments), change)
        for file, change in _list_changes(target, server, hooks)
    ]

    if dry_run:
        for edit, _ in plans:
            _print_differences(edit)
        return

    create_notes_folder(session)
    _try(target, server, plans[0][0].text or "", hooks)

    for edit, change in plans:
        if edit.is_needed:
            backup = write_put(edit, change, reads_comments=client.reads_comments)
            _report(edit, backup)
        else:
            echo(f"{edit.path} is as it should be; nothing was changed.")

    _explain(session, target, server)


def _remove(target: _Target, *, dry_run: bool) -> None:
    from abilities.clients.changes import HooksChange, ServerChange
    from abilities.clients.edits import plan_removal, write_removal
    from abilities.clients.entry import ServerEntry

    server = ServerChange(target.client, ServerEntry("", (), {}))
    changes: list[tuple[Path, FileChange]] = [(target.file, server)]
    if target.client.name == "claude-code":
        changes.append((find_hooks_file(Machine(), target.project), HooksChange("")))

    plans = [(plan_removal(file, change), change) for file, change in changes]
    needed = [(edit, change) for edit, change in plans if edit.is_needed]

    if not needed:
        echo(f"{target.file} does not have abilities; nothing was changed.")

    for edit, change in needed:
        if dry_run:
            _print_differences(edit)
        else:
            _report(edit, write_removal(edit, change))


def _print_differences(edit: "Edit") -> None:
    if not edit.is_needed:
        echo(f"{edit.path} is as it should be; nothing would change.")
        return

    words = "would be created" if edit.snapshot.content is None else "would change"
    echo(f"{edit.path} {words}:")
    for line in edit.list_differences():
        # A tab is no character to escape here; any width will do.
        echo_line(line.expandtabs(4))


def _try(target: _Target, server: "ServerChange", text: str, hooks: "HooksChange | None") -> None:
    """Start what is to be written, and say what answered. Raises click.ClickException."""
    from abilities.clients.trial import TrialFailed, try_entry, try_hook

    entry = server.read_back(text)
    folder = Path("/")
    if target.project is not None or target.client.starts_in_project:
        folder = Path.cwd()

    try:
        answer = asyncio.run(try_entry(entry, folder))
        if hooks is not None:
            asyncio.run(try_hook(hooks.catch_up, folder))
    except TrialFailed as error:
        raise click.ClickException(
            f"{target.client.title} could not use this, so nothing was changed: {error}"
        ) from None

    called = "" if answer.called is None else f", and {answer.called} works"
    tools = format_count(answer.tools, "tool")
    echo(f"Tested: {answer.server} answers with {tools}{called}.")
    if hooks is not None:
        echo("Tested: the hooks' command works.")


def _report(edit: "Edit", backup: Path | None) -> None:
    verb = "Removed" if edit.text is None else "Wrote"
    kept = "" if backup is None else f"; as it was: {backup}"
    echo(f"{verb} {edit.path}{kept}")


def _explain(session: Session, target: _Target, server: "ServerChange") -> None:
    """Say what the server reads, and what to try next."""
    from abilities.cli.setup import explain_tools
    from abilities.clients.entry import is_temporary

    client, settings = target.client, session.settings

    if target.project is not None:
        echo("The file has paths of this machine; keep it out of version control.")
    if is_temporary(server.entry.command):
        echo(
            f"{server.entry.command} lies in a cache, which may be emptied: install "
            "agent-abilities, and run this again."
        )

    if "workspace_dir" in settings.model_fields_set:
        echo(f"Files: {settings.workspace_dir}")
    elif client.starts_in_project:
        echo(f"Files: the folder in which {client.title} is started")
    else:
        ways = "--workspace-dir FOLDER"
        if client.project_file is not None:
            ways += ", or --project in the project's folder"
        echo(
            f"Files: perhaps none: {client.title} does not say in which folder it starts the "
            f"server; to name one: {ways}"
        )

    store = settings.store_path or "a database"
    notes = settings.agent_root.path
    echo(f"Notes: {notes}; memories: {store}, namespace {settings.namespace}")
    if not client.writes_files:
        echo(f"{client.title} reads notes and cannot write them; write them yourself.")
    if target.project is None and client.project_file is not None:
        echo(
            "All projects share these notes and memories; --project in the folder of one keeps "
            "its own apart."
        )
    echo(explain_tools(client, settings))
    echo(f"Next: {client.next_step}")


COMMANDS = (setup,)


def settle_workspace(session: Session, project: Path | None) -> Session:
    """Return a session whose workspace is the project, if there is one and none is asked for."""
    is_named = "workspace_dir" in session.settings.model_fields_set

    # The settings file is for all projects, and says nothing of this one.
    if project is not None and not is_set_here(session.options, "workspace_dir"):
        session = session.override({"workspace_dir": project})
    if project is not None or is_named:
        _ = session.shareable_settings

    return session


def settle_project(session: Session, client: Client, project: Path) -> Session:
    """Return a session with the namespace and the notes of a project.

    What is asked for comes first, then what the project's entry of the client has already.
    """
    # Whoever has not installed MCP is told so before.
    from abilities.clients.edits import read_server

    server = read_server(client, client.find_file(Machine(), project))
    known = {} if server is None else server.variables

    if not is_set_here(session.options, "namespace"):
        namespace = known.get("ABILITIES_NAMESPACE") or name_namespace(project)
        session = session.override({"namespace": namespace})

    # Settings may name a folder for each namespace already.
    is_apart = session.settings.agent_root.path != session.settings.agent_dir
    if not is_set_here(session.options, "agent_dir") and not is_apart:
        session = session.override({"agent_dir": Path(known.get("ABILITIES_AGENT_DIR") or NOTES)})

    return session


def find_missing_folder(session: Session) -> Path | None:
    """Return the folder of the notes of all projects if the server needs it, and it is missing."""
    notes = NOTES.expanduser()
    if session.settings.agent_dir != notes or notes.parent.is_dir():
        return None

    return notes.parent


def create_notes_folder(session: Session) -> None:
    """Create the folder of the notes of all projects, without which no server starts."""
    folder = find_missing_folder(session)
    if folder is not None:
        folder.mkdir(mode=0o700, parents=True)


def explain_tools(client: Client, settings: Settings) -> str:
    """Return what each profile costs, and the one that is recommended for a client."""
    costs = [f"{name} {count_tokens(settings, name):,}" for name in (ALL, *PROFILES)]

    advised, reason = "lean", "its model may read all descriptions in every conversation"
    if client.defers_tools:
        advised, reason = ALL, "its model reads only the descriptions that it looks for"

    return (
        f"Tokens of the tools: {', '.join(costs)}. Recommended for {client.title}: "
        f"--tools {advised}, because {reason}."
    )


def count_tokens(settings: Settings, profile: str) -> int:
    """Return the tokens of a profile's list of tools and instructions, at 4 bytes each."""
    chosen = settings.model_copy(update={"tools": (profile,)})
    registry = build_offer(chosen)[0].registry
    tools = [describe_tool(ability, chosen) for ability in registry]

    size = json_size({"tools": tools}) + text_size(build_instructions(registry.names))
    return -(-size // TOKEN_BYTES)
