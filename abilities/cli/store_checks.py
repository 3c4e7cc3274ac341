"""The checks of `abilities doctor` on the store: its disk, its software, and its answers."""

import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from abilities.application import open_store
from abilities.cli.checks import Diagnosis, check_privacy, check_separation, resolve_path
from abilities.cli.session import choose_mend
from abilities.cli.terminal import format_count
from abilities.declarations.refusals import Fault, Refused
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.store.sqlite.file import connect_to_file
from abilities.helpers.store.sqlite.schema import is_older
from abilities.settings import Settings

MIN_SQLITE = (3, 37, 0)
"""The first version with STRICT tables (https://sqlite.org/stricttables.html)."""

SOUND_SQLITE = (3, 51, 3)
"""Older versions may lose a commit if two programs reset the log at once (https://sqlite.org/wal.html#walresetbug).

Our own processes take turns with a lock, which other programs do not know.
"""

MIN_FREE_BYTES = 200 * 1024 * 1024

REMOTE_FILE_SYSTEMS = {
    *("9p", "afs", "ceph", "cifs", "fuse.sshfs", "glusterfs"),
    *("lustre", "nfs", "nfs4", "smb3", "smbfs"),
}
"""Linux names of file systems whose locks do not hold between machines."""

_ENCRYPTING_MODES = ("require", "verify-ca", "verify-full")

_LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "[::1]")
"""Names of this machine in a URL; "" is a socket, the default of libpq."""


class StoreAnswer(NamedTuple):
    """Findings about the store, and its answers for other checks.

    ``remembers_tokens`` is None, and ``memories`` is empty, if the store does not answer.
    ``memories`` has the number of memories of each requested namespace. ``is_open`` is False if
    opening the store fails, or would create or migrate it.
    """

    diagnoses: list[Diagnosis]
    remembers_tokens: bool | None = None
    memories: Mapping[str, int] = MappingProxyType({})
    is_open: bool = False


def check_store_setup(settings: Settings) -> Iterator[Diagnosis]:
    """Check the foundations of a store: its file, disk and SQLite, or its connection."""
    path = settings.store_path

    if path is None:
        yield from check_connection(settings.store_url)
        return

    yield from check_sqlite()
    yield from check_separation(path, "store", settings)

    if path.exists():
        yield from check_privacy(path, "store", secret=True)

    yield from check_disk(path)


def check_sqlite() -> Iterator[Diagnosis]:
    """Check that this Python's SQLite is new enough."""
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        words = f"{sqlite3.sqlite_version} is too old"
        yield Diagnosis("fails", "SQLite", words, "use a Python with SQLite 3.37 or newer")
    elif sqlite3.sqlite_version_info < SOUND_SQLITE:
        yield Diagnosis(
            "note",
            "SQLite",
            f"{sqlite3.sqlite_version}: programs other than agent-abilities that write to the "
            "store while it is in use may damage it",
            "let only agent-abilities open the store, or use SQLite 3.51.3 or newer",
        )


def check_disk(path: Path) -> Iterator[Diagnosis]:
    """Check that a store's disk is local and has room."""
    kind = find_file_system(path)

    if kind in REMOTE_FILE_SYSTEMS:
        yield Diagnosis(
            "unsafe",
            "store",
            f"{path} is on a network file system ({kind}), where locks do not protect it",
            "set store_url to a local disk or to a PostgreSQL database",
        )

    # The store's folder is created with the store, so it may be missing.
    nearest = next(parent for parent in path.parents if parent.exists())
    free = shutil.disk_usage(nearest).free

    if free < MIN_FREE_BYTES:
        words = f"only {free // 1_000_000} MB are free on its disk"
        yield Diagnosis("note", "store", words, "make room")


def check_connection(url: str) -> Iterator[Diagnosis]:
    """Check that the connection to a database is encrypted, and its password kept elsewhere."""
    parts = urlsplit(url)
    mode = parse_qs(parts.query).get("sslmode", ["prefer"])[0]
    remote: list[str] = []

    # libpq takes several hosts with commas between them, and urlsplit does not.
    for place in parts.netloc.split(","):
        address = place.rpartition("@")[2]
        host = address.partition(":")[0]
        if address.startswith("["):  # an IPv6 address, which has colons itself
            host = address.partition("]")[0] + "]"
        if host not in _LOCAL_HOSTS:
            remote.append(host)

    if remote and mode not in _ENCRYPTING_MODES:
        words = f"the connection to {', '.join(remote)} may be unencrypted (sslmode={mode})"
        yield Diagnosis("unsafe", "store", words, "add ?sslmode=verify-full to store_url")

    if parts.password:
        mend = "keep it in ~/.pgpass, which libpq reads"
        yield Diagnosis("note", "store", "store_url holds the password", mend)


async def check_store_answers(settings: Settings, namespaces: Iterable[str] = ()) -> StoreAnswer:
    """Check that the store can be opened and read, and ask it about tokens and namespaces.

    A missing store is not created, and one of an older version is not migrated.
    """
    path = settings.store_path
    place = _describe_place(settings)

    if path is not None:
        # A log or lock without the store means that the store was moved, and opening it says so.
        if not any(path.parent.glob(f"{path.name}*")):
            words = f"{place} does not exist; it is created when first used"
            empty = dict.fromkeys(namespaces, 0)
            return StoreAnswer([Diagnosis("ok", "store", words)], False, empty)

        is_due = False
        # If the file cannot be read, opening the store says why.
        with (
            suppress(Refused, sqlite3.Error, UnicodeDecodeError),
            closing(connect_to_file(path, "ro")) as connection,
        ):
            is_due = is_older(connection)
        if is_due:
            words = f"{place} is older; it is migrated when next opened"
            diagnosis = Diagnosis("note", "store", words)
            return StoreAnswer([diagnosis], await has_token_mark(settings))

    try:
        store = open_store(settings)
    except ValueError as error:
        mend = "install it, or set another store_url"
        return StoreAnswer([Diagnosis("fails", "store", str(error), mend)])

    try:
        diagnosis = await _diagnose_answer(store, settings)
        memories: dict[str, int] = {}
        if diagnosis.state != "fails":
            # Without all numbers none is known, if the store stops answering.
            with suppress(Refused):
                memories = {name: (await store.read_stats(name)).total for name in namespaces}

        is_open = diagnosis.state != "fails"
        return StoreAnswer([diagnosis], await _read_token_mark(store), memories, is_open)
    finally:
        await store.close()


async def _diagnose_answer(store: ServableStore, settings: Settings) -> Diagnosis:
    place = _describe_place(settings)

    try:
        stats = await store.read_stats(settings.namespace)
        language = (await store.read_language()).name
    except Exception as error:  # whatever the failure, the other checks go on
        fault = Fault.from_exception(error)
        mend = choose_mend(fault.reason, settings)
        mend = mend or "for more details: abilities call get_memory_stats"
        return Diagnosis("fails", "store", f"{place}: {fault.message}", mend)

    if language != settings.recall_language:
        words = f"{place} answers; recall compares its words as {language}"
        mend = (
            f"set recall_language to {language}, or move the memories to a new store with "
            "abilities export and abilities import"
        )
        return Diagnosis("note", "store", words, mend)

    count = format_count(stats.total, "memory", "memories")
    return Diagnosis(
        "ok",
        "store",
        f"{place} answers: {count} in namespace {settings.namespace}",
        "to check its integrity: abilities check; to mend what it finds: abilities repair",
    )


async def has_token_mark(settings: Settings) -> bool | None:
    """Return whether the store remembers that there were tokens; None if it does not answer.

    A missing store is not created.
    """
    try:
        store = open_store(settings)
    except ValueError:
        return None

    try:
        return await _read_token_mark(store)
    finally:
        await store.close()


async def _read_token_mark(store: ServableStore) -> bool | None:
    try:
        return await store.has_mark("tokens")
    except Refused:
        return None


def find_file_system(path: Path) -> str:
    """Return the kind of file system of a path, such as "ext4"; "" except on Linux."""
    if not sys.platform.startswith("linux"):
        return ""

    real = resolve_path(path)
    kind = ""
    longest = 0

    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, found, *_ = line.split()
        mount = Path(target)

        # Mounts are nested: the longest path is the innermost mount.
        if (mount == real or mount in real.parents) and len(mount.parts) > longest:
            kind = found
            longest = len(mount.parts)

    return kind


def _describe_place(settings: Settings) -> str:
    """Return the place of the store, such as "db.example/memories", without user and password."""
    if settings.store_path is not None:
        return str(settings.store_path)

    parts = urlsplit(settings.store_url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
