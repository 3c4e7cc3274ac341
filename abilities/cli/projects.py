"""What `setup` sets up for a project: its folder, its namespace and its notes."""

from pathlib import Path

from abilities.cli.session import Session
from abilities.clients.entry import is_set_here
from abilities.clients.projects import NOTES, name_namespace
from abilities.clients.table import Client, Machine


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
