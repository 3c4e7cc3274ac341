"""The optional parts of the installation: whether they are there, and how to get them."""

from importlib.util import find_spec
from typing import Final, Literal, get_args

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
