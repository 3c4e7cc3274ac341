"""The command `setup`: add this server to the configuration of an MCP client, or remove it."""

import asyncio
import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from abilities.application import build_offer
from abilities.builtin.index import ALL, PROFILES
from abilities.cli.completion import complete_tools
from abilities.cli.options import Options, format_options, take_namespace
from abilities.cli.session import Session, define_command
from abilities.cli.terminal import echo, echo_line, format_count
from abilities.clients.changes import (
    FileChange,
    HooksChange,
    ServerChange,
    build_hooks_change,
    format_hook,
)
from abilities.clients.edits import Edit, plan_put, plan_removal, read_server, write_edit
from abilities.clients.entry import (
    NOTES,
    ServerEntry,
    Unusable,
    build_entry,
    is_set_here,
    is_temporary,
    name_namespace,
)
from abilities.clients.table import CLIENTS, Client, Machine
from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.values import json_size, text_size
from abilities.definition import describe_tool
from abilities.errors import format_install, is_installed
from abilities.prompts import build_instructions
from abilities.settings import Settings, split_names


class _Target(NamedTuple):
    """A client and the project to set it up for, or None for all projects of the user."""

    client: Client
    project: Path | None

    @property
    def file(self) -> Path:
        """The configuration file. Raises ValueError if the client has no projects."""
        return self.client.find_file(Machine(), self.project)


@define_command(
    "abilities setup",
    "abilities setup claude-code --dry-run",
    "abilities setup cursor --project",
    "abilities setup claude-desktop --workspace-dir ~/notes --tools lean",
    "abilities setup codex --remove",
)
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="[CLIENT]", required=False)
@click.option("--project", is_flag=True, help="Set it up for the project in the current folder.")
@click.option(
    "--hooks",
    is_flag=True,
    help="Give memories to the model unasked (claude-code, codex and gemini only).",
)
@click.option(
    "--tools",
    metavar="NAMES",
    shell_complete=complete_tools,
    help="The abilities to offer, as for 'abilities mcp'.",
)
@click.option("--print", "only_print", is_flag=True, help="Only print the block to paste.")
@click.option("--dry-run", is_flag=True, help="Show the difference, and change nothing.")
@click.option("--remove", is_flag=True, help="Remove the server from the configuration.")
@take_namespace("The namespace to write (default: none; with --project the folder's name).")
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

    Starts the server as the client will, and makes a call. Only if that works, the server is added
    to the client's configuration. The rest of the file stays as it is, and a backup goes into
    ~/.abilities/backups. No token and no password is written.
    """
    if client is None and (hooks or only_print or dry_run or remove or tools is not None):
        raise click.UsageError("name the client, for example: abilities setup CLIENT --remove")
    if not is_installed("mcp"):
        raise click.UsageError(f"setup needs MCP; run: {format_install('mcp')}")

    folder = Path.cwd() if project else None
    if client is None:
        _list_clients(folder)
        return

    if hooks and CLIENTS[client].hooks is None:
        names = ", ".join(name for name, one in CLIENTS.items() if one.hooks is not None)
        raise click.UsageError(f"--hooks is for {names} only; leave it out")
    if only_print and (remove or dry_run):
        raise click.UsageError("--print goes with neither --remove nor --dry-run; leave those out")

    target = _Target(CLIENTS[client], folder)
    try:
        _ = target.file
    except ValueError as error:
        raise click.UsageError(f"{error}; leave out --project") from None

    if remove:
        _remove(target, dry_run=dry_run)
    else:
        _set_up(session, target, tools, hooks=hooks, only_print=only_print, dry_run=dry_run)


def _list_clients(project: Path | None) -> None:
    """Print a line for each client: whether it is set up, or at least on this machine."""
    for client in CLIENTS.values():
        try:
            file = client.find_file(Machine(), project)
        except ValueError:
            continue  # it has no projects

        state = "found" if client.is_found(Machine()) else "not found"
        with suppress(Unusable, OSError):  # setting it up explains these
            if read_server(client, file) is not None:
                state = "set up"
        echo(f"{client.name:<15} {state:<10} {file}")

    echo(f"Set one up: abilities setup CLIENT{' --project' if project else ''}")


def _set_up(
    session: Session,
    target: _Target,
    tools: str | None,
    *,
    hooks: bool,
    only_print: bool,
    dry_run: bool,
) -> None:
    """Add the server to a client, or show what would be added. Raises Unusable."""
    if tools is not None:
        _ = session.override({"tools": split_names(tools)}).registry  # raises for unknown names
    session = _settle(session, target)

    entry = build_entry(session.settings, session.options, tools)
    server = ServerChange(target.client, entry)
    changes: list[tuple[Path, FileChange]] = [(target.file, server)]
    hooks_change: HooksChange | None = None
    if hooks and target.client.hooks is not None:
        hooks_change = build_hooks_change(target.client, entry, tools)
        changes.append((target.client.hooks.find_file(Machine(), target.project), hooks_change))

    # No server starts without the folder of the notes of all projects.
    notes = NOTES.expanduser()
    is_folder_missing = session.settings.agent_dir == notes and not notes.parent.is_dir()

    if only_print:
        for file, change in changes:
            echo(f"To paste into {file}:", err=True)
            click.echo(change.put(""), nl=False)

        if is_folder_missing:
            words = "The server needs a folder for notes, so create it: mkdir -p"
            echo(f"{words} {notes.parent}", err=True)
        return

    # All files are planned before the first is written: either all can be changed, or none is.
    plans = [plan_put(file, change) for file, change in changes]
    if dry_run:
        for edit in plans:
            _print_differences(edit)
        return

    if is_folder_missing:
        notes.parent.mkdir(mode=0o700, parents=True)

    _try(target, server.read_back(plans[0].text or ""), hooks_change)

    for edit in plans:
        if edit.is_needed:
            _report(edit, write_edit(edit))
        else:
            echo(f"{edit.path} is as it should be; nothing was changed.")

    _explain(session, target, entry.command)


def _settle(session: Session, target: _Target) -> Session:
    """Return a session with the workspace, the namespace and the notes of a project.

    Options and the environment come first, then the values that the client has for the project
    already. The settings file is for all projects, so a project's values replace it. Without a
    project, only check that a workspace in the settings may be shared.
    """
    project = target.project
    if project is None:
        if "workspace_dir" in session.settings.model_fields_set:
            _ = session.shareable_settings
        return session

    if not is_set_here(session.options, "workspace_dir"):
        session = session.override({"workspace_dir": project})
    _ = session.shareable_settings

    server = read_server(target.client, target.file)
    known = {} if server is None else server.variables

    if not is_set_here(session.options, "namespace"):
        namespace = known.get("ABILITIES_NAMESPACE") or name_namespace(project)
        session = session.override({"namespace": namespace})

    # The settings may name a folder for each namespace already.
    is_apart = session.settings.agent_root.path != session.settings.agent_dir
    if not is_set_here(session.options, "agent_dir") and not is_apart:
        session = session.override({"agent_dir": Path(known.get("ABILITIES_AGENT_DIR") or NOTES)})

    return session


def _try(target: _Target, entry: ServerEntry, hooks: HooksChange | None) -> None:
    """Start the server as the client will, and report its answer. Raises click.ClickException."""
    # MCP is an optional dependency.
    from abilities.clients.trial import TrialFailed, try_entry, try_hook

    folder = Path("/")
    if target.project is not None or target.client.starts_in_project:
        folder = Path.cwd()

    try:
        answer = asyncio.run(try_entry(entry, folder))
        if hooks is not None:
            asyncio.run(try_hook(format_hook(hooks.program, "SessionStart"), folder))
    except TrialFailed as error:
        raise click.ClickException(
            f"{target.client.title} could not use this, so nothing was changed: {error}"
        ) from None

    called = "" if answer.called is None else f", and {answer.called} works"
    tools = format_count(answer.tools, "tool")
    echo(f"Tested: {answer.server} answers with {tools}{called}.")
    if hooks is not None:
        echo("Tested: the hooks' command works.")


def _remove(target: _Target, *, dry_run: bool) -> None:
    """Remove the server and its hooks from a client. Raises Unusable."""
    client, hooks = target.client, target.client.hooks
    plans = [plan_removal(target.file, ServerChange(client, ServerEntry("", (), {})))]
    if hooks is not None:  # first, as they were added last: one file may have both
        file = hooks.find_file(Machine(), target.project)
        plans.insert(0, plan_removal(file, HooksChange(client)))

    needed = [edit for edit in plans if edit.is_needed]
    if not needed:
        echo(f"{target.file} does not have abilities; nothing was changed.")

    for edit in needed:
        if dry_run:
            _print_differences(edit)
        else:
            _report(edit, write_edit(edit))


def _print_differences(edit: Edit) -> None:
    """Print the lines of a file that would change."""
    if not edit.is_needed:
        echo(f"{edit.path} is as it should be; nothing would change.")
        return

    words = "would be created" if edit.snapshot.content is None else "would change"
    echo(f"{edit.path} {words}:")
    for line in edit.list_differences():
        # A tab would be printed as an escape; any width will do.
        echo_line(line.expandtabs(4))


def _report(edit: Edit, backup: Path | None) -> None:
    """Print which file was written or removed, and where its backup is."""
    verb = "Removed" if edit.text is None else "Wrote"
    kept = ""
    if backup is not None:
        kept = f"; as it was: {backup}"

    echo(f"{verb} {edit.path}{kept}")


def _explain(session: Session, target: _Target, command: str) -> None:
    """Print which files and memories the server uses, and what to try next."""
    client, settings = target.client, session.settings

    if target.project is not None:
        echo("The file has paths of this machine; keep it out of version control.")
    if is_temporary(command):
        echo(
            f"{command} lies in a cache, which may be emptied: install agent-abilities, and run "
            "this again."
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

    costs = ", ".join(f"{name} {count_tokens(settings, name):,}" for name in (ALL, *PROFILES))
    advised, reason = "lean", "its model may read all descriptions in every conversation"
    if client.defers_tools:
        advised, reason = ALL, "its model reads only the descriptions that it looks for"
    echo(
        f"Tokens of the tools: {costs}. Recommended for {client.title}: --tools {advised}, "
        f"because {reason}."
    )
    _offer_sessions(session, target)
    echo(f"Next: {client.next_step}")


def _offer_sessions(session: Session, target: _Target) -> None:
    """Print how many sessions of the client an import would read, and its command."""
    from abilities.helpers.transfer.importing import SUFFIX
    from abilities.helpers.transfer.sessions import SessionFile, list_sessions

    find_folder = target.client.find_sessions_folder
    if find_folder is None:
        return

    folder = find_folder(Machine(), target.project)
    files: list[SessionFile] = []
    with suppress(OSError):  # there may be none yet; an import explains other errors
        files = list_sessions(folder)
    if not files:
        return

    options = Options()
    if "store_url" in session.options:
        options["store_url"] = session.options["store_url"]
    if session.settings.namespace != Settings.model_fields["namespace"].default:
        options["namespace"] = f"{session.settings.namespace}{SUFFIX}"

    size = sum(file.size for file in files) / 1_000_000
    command = shlex.join(["abilities", "import", str(folder), *format_options(options)])
    echo(
        f"Earlier sessions: {len(files):,} with {size:,.1f} MB. To remember what you asked in them "
        f"and how it ended: {command}"
    )


def count_tokens(settings: Settings, profile: str) -> int:
    """Return the tokens of a profile's list of tools and instructions, at 4 bytes each."""
    chosen = settings.model_copy(update={"tools": (profile,)})
    registry = build_offer(chosen)[0].registry
    bound, structured = chosen.max_response_bytes, chosen.structured
    tools = [
        describe_tool(ability, max_response_bytes=bound, structured=structured)
        for ability in registry
    ]

    size = json_size({"tools": tools}) + text_size(build_instructions(registry.names))
    return -(-size // TOKEN_BYTES)
