"""Many changes of an SQLite store in one transaction of the caller."""

import sqlite3
from collections.abc import Sequence
from functools import partial

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.entries import StoreRules
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.requests import check_change
from abilities.helpers.stores.sqlite.changing import apply_change
from abilities.helpers.stores.sqlite.errors import translate_sqlite_error
from abilities.helpers.stores.sqlite.savepoints import OWN_ERRORS, run_in_savepoint
from abilities.helpers.stores.sqlite.search import postpone_texts


class BatchUndone(Exception):
    """One of several changes that belong together cannot be made, so that none may be."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(place, error)
        self._place = place
        self._error = error

    def list_outcomes(self, number: int) -> list[WriteResult | Exception]:
        """Return the outcomes of that many changes: the error in its place."""
        outcomes: list[WriteResult | Exception] = []
        for place in range(number):
            outcomes.append(self._error if place == self._place else Refused("rolled_back"))

        return outcomes


def apply_changes(
    connection: sqlite3.Connection,
    namespace: str,
    changes: Sequence[Change],
    rules: StoreRules,
    *,
    atomic: bool,
) -> list[WriteResult | Exception]:
    """Make changes one after another; return one outcome each.

    Raises BatchUndone if they are ``atomic`` and one cannot be made; the caller undoes the others.
    """
    with postpone_texts(connection) as postponed:
        if atomic:
            return _apply_all(connection, namespace, changes, rules)

        outcomes: list[WriteResult | Exception] = []
        for change in changes:
            waiting = list(postponed)
            work = partial(_apply_one, namespace=namespace, change=change, rules=rules)
            outcome = run_in_savepoint(connection, work)
            if isinstance(outcome, Exception):
                postponed[:] = waiting
            outcomes.append(outcome)

        return outcomes


def _apply_all(
    connection: sqlite3.Connection, namespace: str, changes: Sequence[Change], rules: StoreRules
) -> list[WriteResult | Exception]:
    """Make all changes without savepoints of their own, or raise BatchUndone."""
    results: list[WriteResult | Exception] = []
    for place, change in enumerate(changes):
        try:
            results.append(_apply_one(connection, namespace, change, rules))
        except OWN_ERRORS as error:
            raise BatchUndone(place, translate_sqlite_error(error)) from error
        except (sqlite3.Error, UnicodeDecodeError):
            raise
        except Exception as error:
            raise BatchUndone(place, error) from error

    return results


def _apply_one(
    connection: sqlite3.Connection, namespace: str, change: Change, rules: StoreRules
) -> WriteResult:
    check_change(namespace, change)
    return apply_change(connection, namespace, change, rules)
