"""The backend for `create_deep_agent`: files, and a folder of memories among them."""

from deepagents.backends import CompositeBackend, StateBackend

from abilities.adapters.deepagents.files import MEMORIES, FileBackend
from abilities.adapters.deepagents.memories import MemoryBackend
from abilities.adapters.host import Source, check_namespace

_SCRATCH = "/scratch/"


def create_backend(
    source: Source = None,
    *,
    namespace: str | int | None = None,
    require_namespace: bool = False,
    memories: str = MEMORIES,
) -> CompositeBackend:
    """Return a backend in which paths beneath ``memories`` are memories, and all others files.

    ``source`` is an open application, or settings (by default those of the environment);
    ``namespace`` is whose files and memories they are, by default that of the settings; with
    ``require_namespace`` a missing one raises ValueError. Files of the agent directory and the
    workspace can be read, listed and searched, and are never written.
    What deepagents itself puts aside, such as a large result of a tool, lies beneath ``/scratch/``
    in the state of the agent's thread.
    """
    if require_namespace:
        check_namespace(namespace, "pass namespace=… to create_backend()")

    return CompositeBackend(
        default=FileBackend(source, namespace=namespace, memories=memories),
        routes={
            memories: MemoryBackend(source, namespace=namespace),
            _SCRATCH: StateBackend(),
        },
        artifacts_root=_SCRATCH,
    )
