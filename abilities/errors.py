"""The exceptions of this package, all beneath one root.

::

    AbilitiesError
    ├── AbilityError    a call failed as a whole; what users of `Abilities.call` catch
    ├── Refused         what was requested cannot be served, for one of the reasons in
    │                   `declarations.faults`; callers see a Fault instead
    │   └── RefusedRequest  the server rejects a whole HTTP request, with a status
    ├── SettingsFileError   the settings file cannot be read; a ValueError too
    ├── UnusableLine    a line of an import is not a memory
    ├── NotAStore       a file to restore is no backup; nothing was put in place
    ├── UnsoundCopy     a backup is damaged; nothing was put in place
    ├── Unusable        the configuration of a client cannot be read or edited
    │   ├── Unparsable  it is not what its name says, from a line on
    │   ├── UnusableFile    one of its files cannot be edited
    │   └── Changed     another program changed it meanwhile
    ├── TrialFailed     a server does not start as the configuration of a client says
    │
    │   and what never reaches a caller, because it ends work inside:
    ├── Abandoned       nobody waits for this work any more
    ├── BatchUndone     one of several changes that belong together cannot be made
    ├── EmbedderFailed  an embedder gave no vectors
    ├── ForeignExit     a plugin raised what would end the process
    ├── InvalidMessage  a line over stdio is no message of JSON-RPC
    └── MemoriesDue     memories are to be archived first

The optional parts of the installation: whether they are there, and how to get them.
"""

from importlib.util import find_spec
from types import TracebackType
from typing import Final, Literal, get_args

from abilities.declarations.refusals import AbilitiesError, Fault, Refused

__all__ = ["AbilitiesError", "AbilityError", "Fault", "Refused"]


class AbilityError(AbilitiesError):
    """A call failed as a whole; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code} ({fault.reason}): {fault.message}")
        self.fault = fault


Extra = Literal["http", "mcp", "postgres"]
"""An extra of the package, as in ``agent-abilities[http]``."""

EXTRAS: tuple[Extra, ...] = get_args(Extra)

_MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "http": (
        "fastapi",
        "httptools",
        "opentelemetry",
        "prometheus_client",
        "pythonjsonlogger",
        "uvicorn",
    ),
    "mcp": ("mcp", "mcp_types", "tomlkit"),  # version 1 has no mcp_types
    "postgres": ("psycopg", "psycopg_pool"),
}
"""The modules that an extra installs."""

USES: Final[dict[Extra, str]] = {
    "http": "abilities serve and explore",
    "mcp": "abilities mcp and demo, and /mcp of the server",
    "postgres": "memories in PostgreSQL",
}
"""What an extra is for."""


def is_installed(extra: Extra) -> bool:
    """Whether all modules of an extra are there. None is imported, which would take seconds."""
    return all(find_spec(module) for module in _MODULES[extra])


def format_install(*extras: Extra) -> str:
    """Return the command that installs extras."""
    return f"pip install 'agent-abilities[{','.join(extras)}]'"


FRAMEWORKS: Final[dict[str, str]] = {
    "agent_framework": "agent-framework-core>=1.23",
    "anthropic_memory": "anthropic>=2.10",
    "crewai": "crewai>=1.15",
    "deepagents": "deepagents>=0.7.1",
    "google_adk": "google-adk>=2.13",
    "langgraph_store": "langgraph>=1.1",
    "llama_index": "llama-index-core>=0.14",
    "openai_agents": "openai-agents>=0.24",
    "pydantic_ai": "pydantic-ai-slim>=2.68",
}
"""The package that an adapter needs beside ours, and the oldest version that it works with.

No extra installs them: a framework is the user's own choice, and they do not resolve together.
"""


class Needs:
    """Imports of a framework: if one fails, the error says which command installs what is missing.

    ``adapter`` is a key of `FRAMEWORKS`.
    """

    def __init__(self, adapter: str) -> None:
        self._adapter = adapter

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, ImportError):
            requirement = FRAMEWORKS[self._adapter]
            raise ImportError(
                f"abilities.adapters.{self._adapter} needs another package; "
                f"run: pip install '{requirement}'"
            ) from error
