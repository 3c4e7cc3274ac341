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
"""The reasons by SQLSTATE or prefix of SQLSTATEs; the longest match counts.

Without a match, the reason is storage_error. AB001 is our own: the function expect_version in
schema.sql raises it. The reasons for 42501 (a missing right) and 57014 (a canceled statement) are
those of changes; for reads, `translate_for_read` replaces them. The others are listed in
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
"""The reasons for a refused connection, by a pattern of the message, which may be of any host.

libpq gives no SQLSTATE for these errors. If the server's messages are not in English, the reason is
unavailable.
"""
_CONFLICTS = ("40001", "40P01")
"""A serialization failure and a deadlock: the transaction may succeed in another attempt."""


def translate_postgres_error(error: Exception) -> Refused:
    """Return the Refused that a caller gets for an error of the driver or pool; log the error."""
    words = str(error).partition("\n")[0]  # further lines contain advice, or the statement
    _log.warning("the store refused: %s", words)

    if isinstance(error, PoolTimeout | PoolClosed | TimeoutError):
        return Refused("unavailable")

    sqlstate = _get_sqlstate(error)
    if sqlstate is not None:
        for length in (5, 3, 2):
            prefix = sqlstate[:length]
            if prefix in SQLSTATES:
                return Refused(SQLSTATES[prefix])
        return Refused("storage_error")

    # An operational error without an SQLSTATE comes from libpq: there is no connection.
    if isinstance(error, psycopg.OperationalError):
        for pattern, reason in _REFUSED_CONNECTIONS.items():
            if re.search(pattern, str(error)):
                return Refused(reason)
        return Refused("unavailable")

    return Refused("storage_error")


def translate_for_read(refused: Refused) -> Refused:
    """Return the Refused of a read, which needs no right to change anything."""
    if refused.reason == "read_only":
        return Refused("storage_denied")

    took_too_long = isinstance(refused.__cause__, PoolTimeout | psycopg.errors.QueryCanceled)
    if refused.reason == "busy" and took_too_long:
        return Refused("timeout")

    return refused


def is_conflict(refused: Refused) -> bool:
    """Return whether PostgreSQL aborted a transaction because of another one."""
    return _get_sqlstate(refused.__cause__) in _CONFLICTS


def _get_sqlstate(error: BaseException | None) -> str | None:
    return getattr(error, "sqlstate", None)
