"""The exceptions of this package, and the errors for packages that are not installed.

All exceptions have one root::

    AbilitiesError
    ├── AbilityError    a call failed as a whole; users of `Abilities.call` catch it
    ├── Refused         a request cannot be served, for one of the reasons in
    │                   `declarations.refusals`; callers see a Fault instead
    │   └── RefusedRequest  the server rejects a whole HTTP request, with a status
    ├── SettingsFileError   the settings file cannot be read; also a ValueError
    ├── UnusableLine    a line of an import is not a memory
    ├── NotAStore       a file to restore is not a backup; nothing was replaced
    ├── UnsoundCopy     a backup is damaged; nothing was replaced
    ├── Unusable        the configuration of a client cannot be read or edited
    │   ├── Unparsable  it is not in the format that its name says
    │   ├── UnusableFile    one of its files cannot be edited
    │   └── Changed     another program changed it meanwhile
    ├── TrialFailed     a server does not start as the configuration of a client says
    │
    │   and internal ones, which end work and never reach a caller:
    ├── Abandoned       no caller waits for this work any more
    ├── Converting      a document is being converted
    ├── BatchUndone     one of several changes that belong together cannot be made
    ├── EmbedderFailed  an embedder returned no vectors
    ├── ForeignExit     a plugin raised an exception that would end the process
    ├── InvalidMessage  a line over stdio is not a message of JSON-RPC
    └── MemoriesDue     memories must be archived first
"""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, Literal

from abilities.declarations.refusals import AbilitiesError, Fault, Refused

__all__ = ["AbilitiesError", "AbilityError", "Fault", "Refused"]

Extra = Literal["documents", "http", "mcp", "postgres", "semantic", "fastembed"]
"""An extra of the package, as in ``agent-abilities[http]``."""

EXTRAS: tuple[Extra, ...] = ("http", "mcp", "postgres")
"""The extras of ``agent-abilities[all]``."""

_MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "documents": ("pypdf",),
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
    "semantic": ("model2vec", "numpy"),
    "fastembed": ("fastembed", "numpy"),
}
"""The modules that each extra installs."""

USES: Final[dict[Extra, str]] = {
    "http": "abilities serve and explore",
    "mcp": "abilities mcp and demo, and /mcp of the server",
    "postgres": "memories in PostgreSQL",
}
"""The features that need each extra."""

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
"""The requirement of each adapter besides this package: the oldest version that it works with.

No extra installs them: a framework is the user's own choice, and they cannot all be installed
together.
"""


class AbilityError(AbilitiesError):
    """A call failed as a whole; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code} ({fault.reason}): {fault.message}")
        self.fault = fault


def is_installed(extra: Extra) -> bool:
    """Return whether all modules of an extra are installed, without importing them.

    Importing takes seconds.
    """
    return all(find_spec(module) for module in _MODULES[extra])


def format_install(*extras: Extra) -> str:
    """Return the command that installs extras.

    >>> format_install("http", "mcp")
    "pip install 'agent-abilities[http,mcp]'"
    """
    return f"pip install 'agent-abilities[{','.join(extras)}]'"


@contextmanager
def needs(adapter: str) -> Generator[None]:
    """Around the imports of an adapter: if one fails, the error says how to install it.

    ``adapter`` is a key of `FRAMEWORKS`.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"abilities.adapters.{adapter} needs another package; "
            f"run: pip install '{FRAMEWORKS[adapter]}'"
        ) from error
