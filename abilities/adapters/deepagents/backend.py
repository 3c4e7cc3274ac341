"""The backend for `create_deep_agent`: files, and a folder of memories among them."""

from deepagents.backends import CompositeBackend

from abilities.adapters.deepagents.files import FileBackend
from abilities.adapters.deepagents.memories import MemoryBackend
from abilities.application import Abilities
from abilities.settings import Settings


def create_backend(
    source: Abilities | Settings | None = None,
    *,
    namespace: str | int | None = None,
    memories: str = "/memories/",
) -> CompositeBackend:
    """Return a backend in which paths beneath ``memories`` are memories, and all others files.

    ``source`` is an open application, or settings (by default those of the environment);
    ``namespace`` is whose files and memories they are, by default that of the settings. Files of
    the agent directory and the workspace can be read, listed and searched, and are never written.
    """
    return CompositeBackend(
        default=FileBackend(source, namespace=namespace),
        routes={memories: MemoryBackend(source, namespace=namespace)},
    )
