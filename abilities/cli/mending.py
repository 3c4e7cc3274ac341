"""What to do about a store that cannot be used, by the reason and by what is found at its place."""

from pathlib import Path

from abilities.declarations.faults import Fault
from abilities.helpers.store.opening import is_store_header
from abilities.settings import Settings

_HEADER_BYTES = 100

_MENDING = {
    "storage_moved": "put the file back where it was, with its -wal and -shm files, which hold "
    "memories; if only those are missing, stop all that uses the store, then start it again",
    "corrupted": "stop what uses the store, then: abilities repair, "
    "or abilities restore BACKUP --replace",
    "schema_too_new": "install the version that wrote the store, or a newer one",
    "schema_unpublished": "run `abilities export` of the checkout that made the store, and "
    "`abilities import` of this one",
    "schema_too_old": "let a user who may write to the store open it once",
    "storage_denied": "for a file, let this user read and write it and its folder; for a database, "
    "check the role and password in store_url, and the role's rights",
    "storage_missing": "create the database, or correct its name at the end of store_url",
    "storage_full": "make room on the disk of the store",
    "unavailable": "check that the database runs and that store_url names it",
    "io_error": "check the disk of the store, and what this process may write (ulimit -f)",
    "busy": "end the program that holds the store, or wait for it",
}
"""What to do by the fault's reason."""


def choose_mend(reason: str, settings: Settings) -> str | None:
    """Return what to do about a store that does not answer; None if it is only to wait."""
    mend = None
    if settings.store_path is not None:
        mend = _look_at_place(settings.store_path)

    return mend or _MENDING.get(reason)


def describe_failure(fault: Fault, settings: Settings) -> str | None:
    """Return what is wrong with a store and what to do; None if it is only to wait."""
    mend = choose_mend(fault.reason, settings) if fault.reason in _MENDING else None
    if mend is None:
        return None

    return f"{fault.message} What to do: {mend}."


def _look_at_place(path: Path) -> str | None:
    """Return what to do if there cannot be a store at a path."""
    try:
        if path.is_dir():
            return f"store_url names the folder {path}; name a file in it, as {path / 'memory.db'}"

        nearest = next(parent for parent in path.parents if parent.exists())
        if not nearest.is_dir():
            return f"store_url leads through {nearest}, which is no folder; name another place"

        # Nothing repairs what is no store at all. An empty file becomes one.
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                if not is_store_header(file.read(_HEADER_BYTES)):
                    return (
                        f"{path} does not begin as a store does; let store_url name another file, "
                        "or, if it was one: abilities restore BACKUP --replace"
                    )
    except OSError:
        return None

    return None
