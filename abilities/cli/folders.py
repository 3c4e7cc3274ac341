"""The directories that files are read from, as commands name and check them."""

from pathlib import Path
from typing import Literal, NamedTuple

from abilities.settings import Settings


class SharedFolder(NamedTuple):
    """A directory that files are read from; ``optional`` if it may be missing."""

    name: Literal["agent", "workspace"]
    path: Path
    optional: bool

    @property
    def setting(self) -> str:
        """The setting that names this directory, for example ``agent_dir``."""
        return f"{self.name}_dir"


def list_folders(settings: Settings) -> tuple[SharedFolder, SharedFolder]:
    """Return the agent's directory and the workspace, in the order in which they are searched."""
    return (
        SharedFolder("agent", settings.agent_path, settings.has_default_agent_dir),
        SharedFolder("workspace", settings.workspace_path, optional=False),
    )
