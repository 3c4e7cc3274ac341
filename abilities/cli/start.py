"""The commands of the first minute: an agent directory of one's own, and the demonstration."""

import asyncio
import json
from datetime import datetime
from pathlib import Path

import click

from abilities.cli.errors import explain_errors
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo
from abilities.extras import format_install, is_installed
from abilities.settings import find_settings_file

_STARTER_NOTES = """\
# Memory

What this agent should always remember. One fact per line.
"""

_INIT_EXAMPLES = """\b
Examples:
  abilities init
  abilities init ~/agents/ada
"""

_DEMO_EXAMPLE = """\b
Example:
  abilities demo --workspace-dir ~/project
"""


@click.command(epilog=_INIT_EXAMPLES)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@pass_session
def init(session: Session, directory: Path | None) -> None:
    """Create an agent directory with a starter MEMORY.md.

    DIRECTORY defaults to the configured agent directory. Existing notes are never changed, nor
    hidden: if the workspace has a MEMORY.md, none is created.
    """
    if directory is not None:
        session = session.override({"agent_dir": directory})

    settings = session.settings
    agent = settings.agent_root.path
    names = settings.memory_files
    notes = agent / names.long_term
    # The name is a pattern, and its folders may hold the date as well.
    todays_notes = agent / names.name_day(datetime.now(settings.zone).date())

    workspace = settings.workspace_root
    with explain_errors():
        todays_notes.parent.mkdir(parents=True, exist_ok=True)
        if notes.exists():
            echo(f"{notes} already exists; nothing was changed.")
        # The agent directory comes first: empty notes there would hide those of the workspace.
        elif workspace is not None and (workspace.path / names.long_term).exists():
            echo(f"{workspace.path / names.long_term} is read as the notes; no others are created.")
        else:
            _create_notes(notes)
            echo(f"Created {notes}")

    echo(f"Daily notes go into one file per day, today's is {todays_notes}")
    if directory is not None:
        _explain_setting(settings.agent_dir)


@click.command(epilog=_DEMO_EXAMPLE)
@pass_session
def demo(session: Session) -> None:
    """Show an agent's first minute on your files, in thirty lines.

    Finds and reads files of the workspace, answers a question from sample memories, follows their
    links, and compares what LangChain and MCP give a model. Your own memories are neither read nor
    changed.
    """
    workspace = session.shareable_settings.workspace_root
    if workspace is None:
        raise click.UsageError(
            "the demonstration reads the files of a workspace; "
            "start in a project folder, or set --workspace-dir"
        )

    # The demonstration also acts as an MCP client, and MCP is an optional dependency.
    if not is_installed("mcp"):
        raise click.UsageError(f"the demonstration needs MCP; run: {format_install('mcp')}")

    # LangChain takes a second to import.
    from abilities.cli.demo import run_demo

    asyncio.run(run_demo(workspace.path))


def _explain_setting(directory: Path) -> None:
    """Say how a directory becomes the agent directory, if the settings do not name it."""
    if Session({}).settings.agent_dir == directory:
        return

    line = f"agent_dir = {json.dumps(str(directory))}"
    echo(f"To use it, put {line} into {find_settings_file()}, or add --agent-dir to commands.")


def _create_notes(path: Path) -> None:
    """Write the starter notes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_STARTER_NOTES, encoding="utf-8")


COMMANDS = (init, demo)
