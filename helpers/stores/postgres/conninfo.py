"""Connection strings: a store's URL as the parameters of libpq."""

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

CONNECT_SECONDS = 5

_DEFAULTS: dict[str, str | int | None] = {
    "connect_timeout": CONNECT_SECONDS,
    # A silent server is given up after 5 + 3 * 2 seconds, or 10 if it owes an acknowledgment.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "agent-abilities",
}
"""Parameters that a URL may override: libpq notices within seconds that a server has vanished."""


def build_conninfo(url: str) -> str:
    """Return a URL as libpq's parameters, with our defaults for what the URL leaves open.

    If it names several hosts, connections go to the one that can be written to. Raises ValueError
    for a URL that libpq cannot read.
    """
    try:
        requested = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        message = "is not a PostgreSQL URL, for example 'postgresql://user@host/database'"
        raise ValueError(message) from error

    # A standby accepts connections too, but no changes.
    parameters = dict(_DEFAULTS)
    if _count_hosts(requested) > 1:
        parameters["target_session_attrs"] = "read-write"
    parameters.update(requested)

    return make_conninfo("", **parameters)


def accept_any_host(conninfo: str) -> str | None:
    """Return parameters for connections to any of the hosts, or None if there is only one."""
    if _count_hosts(conninfo_to_dict(conninfo)) == 1:
        return None

    return make_conninfo(conninfo, target_session_attrs="any")


def _count_hosts(parameters: dict[str, str | int | None]) -> int:
    hosts = str(parameters.get("host", ""))
    return hosts.count(",") + 1
