"""Errors of PostgreSQL and its driver, as the reasons that callers get."""

import logging
import re

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from abilities.declarations.refusals import Reason, Refused

_log = logging.getLogger("abilities")

SQLSTATES: dict[str, Reason] = {
    "08": "unavailable",
    "25006": "read_only",
    "28": "storage_denied",
    "3D000": "storage_missing",
    "40001": "busy",
    "40P01": "busy",
    "42501": "read_only",
    "53100": "storage_full",
    "53": "resource_exhausted",
    "55P03": "busy",
    "57014": "busy",
    "57P": "unavailable",
    "AB001": "schema_too_new",
    "XX001": "corrupted",
    "XX002": "corrupted",
}
"""The reason for an SQLSTATE, or for every SQLSTATE that begins with a prefix.

The longest match counts; without one the reason is storage_error. AB001 is our own: the function
expect_version in schema.sql raises it. 42501, a missing right, and 57014, a statement that took too
long, are meant for changes; `translate_for_read` has other reasons. The others are listed in
https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""
_REFUSED_CONNECTIONS: dict[str, Reason] = {
    "authentication failed": "storage_denied",
    "no password supplied": "storage_denied",
    "no pg_hba.conf entry": "storage_denied",
    "is not permitted to log in": "storage_denied",
    "permission denied for database": "storage_denied",
    'role ".*" does not exist': "storage_denied",
    'database ".*" does not exist': "storage_missing",
    "too many (clients|connections)": "resource_exhausted",
    "connection slots are reserved": "resource_exhausted",
}
"""The reason for a refused connection, by the server's words, which may be about any of its hosts.

libpq gives no SQLSTATE for these errors. A server that does not speak English is unavailable.
"""
_CONFLICTS = ("40001", "40P01")
"""A serialization failure and a deadlock: the transaction may succeed when it is tried again."""


def translate_postgres_error(error: Exception) -> Refused:
    """Return the Refused that a caller gets for an error of the driver or pool; log the error."""
    words = str(error).partition("\n")[0]  # what follows is advice, or the statement
    _log.warning("the store refused: %s", words)

    if isinstance(error, PoolTimeout | PoolClosed | TimeoutError):
        return Refused("unavailable")

    sqlstate = _get_sqlstate(error)
    if sqlstate is not None:
        return Refused(_find_reason(sqlstate))

    # An operational error without an SQLSTATE is libpq's own: there is no connection.
    if isinstance(error, psycopg.OperationalError):
        return Refused(_explain_refused_connection(str(error)))

    return Refused("storage_error")


def translate_for_read(refused: Refused) -> Refused:
    """Return what a Refused means for a read, which needs no right to change anything."""
    if refused.reason == "read_only":
        return Refused("storage_denied")

    took_too_long = isinstance(refused.__cause__, PoolTimeout | psycopg.errors.QueryCanceled)
    if refused.reason == "busy" and took_too_long:
        return Refused("timeout")

    return refused


def is_conflict(refused: Refused) -> bool:
    """Return whether PostgreSQL gave up a transaction because of another one."""
    return _get_sqlstate(refused.__cause__) in _CONFLICTS


def _get_sqlstate(error: BaseException | None) -> str | None:
    return getattr(error, "sqlstate", None)


def _find_reason(sqlstate: str) -> Reason:
    for length in (5, 3, 2):
        reason = SQLSTATES.get(sqlstate[:length])
        if reason is not None:
            return reason

    return "storage_error"


def _explain_refused_connection(words: str) -> Reason:
    for pattern, reason in _REFUSED_CONNECTIONS.items():
        if re.search(pattern, words):
            return reason

    return "unavailable"
