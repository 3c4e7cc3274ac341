"""Errors of PostgreSQL and its driver, as the reasons that callers get."""

import logging

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from abilities.declarations.faults import Reason, Refused

_log = logging.getLogger("abilities")

SQLSTATES: dict[str, Reason] = {
    "08": "unavailable",
    "25006": "read_only",
    "28": "unavailable",
    "3D000": "unavailable",
    "40001": "busy",
    "40P01": "busy",
    "42501": "read_only",
    "53100": "storage_full",
    "53": "resource_exhausted",
    "55P03": "busy",
    "57014": "busy",
    "57P": "unavailable",
    "XX001": "corrupted",
    "XX002": "corrupted",
}
"""The reason for an SQLSTATE, or for every SQLSTATE that begins with a prefix.

The longest match counts; without one the reason is storage_error. The codes are listed in
https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""
_CONFLICTS = ("40001", "40P01")
"""A serialization failure and a deadlock: the transaction may succeed when it is tried again."""


def translate_postgres_error(error: Exception) -> Refused:
    """Return the Refused that a caller gets for an error of the driver or pool; log the error."""
    _log.warning("the store refused: %s", error)

    if isinstance(error, PoolTimeout | PoolClosed | TimeoutError):
        return Refused("unavailable")

    sqlstate = _get_sqlstate(error)
    if sqlstate is not None:
        return Refused(_find_reason(sqlstate))

    # An operational error without an SQLSTATE is libpq's own: the server did not answer.
    if isinstance(error, psycopg.OperationalError):
        return Refused("unavailable")

    return Refused("storage_error")


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
