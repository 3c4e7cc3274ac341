"""What `abilities doctor` checks of the store: its disk, its software, and whether it answers."""

import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
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

Our own processes never do: they take turns by a lock, which other programs do not know.
"""

MIN_FREE_BYTES = 200 * 1024 * 1024

REMOTE_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)
"""File systems, by the names that Linux gives them, whose locks do not hold between machines."""

_ENCRYPTING_MODES = ("require", "verify-ca", "verify-full")

_LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "[::1]")
"""Hosts in a URL that are this machine; "" is libpq's default, a socket."""


class StoreAnswer(NamedTuple):
    """What the store answers: to a look at it, and whether it remembers that there were tokens.

    ``remembers_tokens`` is None if it does not say. ``memories`` counts those of each namespace
    that was asked for; it is empty if the store does not answer.
    """

    diagnoses: list[Diagnosis]
    remembers_tokens: bool | None = None
    memories: Mapping[str, int] = MappingProxyType({})


def check_store_setup(settings: Settings) -> Iterator[Diagnosis]:
    """Check what a store depends on: its file, disk and SQLite, or a database connection."""
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
        yield Diagnosis(
            "fails",
            "SQLite",
            f"{sqlite3.sqlite_version} is too old",
            "use a Python with SQLite 3.37 or newer",
        )
    elif sqlite3.sqlite_version_info < SOUND_SQLITE:
        yield Diagnosis(
            "note",
            "SQLite",
            f"{sqlite3.sqlite_version}: programs other than agent-abilities that write to the "
            "store while it is in use may damage it",
            "let only agent-abilities open the store, or use SQLite 3.51.3 or newer",
        )


def check_disk(path: Path) -> Iterator[Diagnosis]:
    """Check that a store's disk is a local one with room left."""
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
        yield Diagnosis(
            "note", "store", f"only {free // 1_000_000} MB are free on its disk", "make room"
        )


def check_connection(url: str) -> Iterator[Diagnosis]:
    """Check that the connection to a database is encrypted, and its password kept elsewhere."""
    parts = urlsplit(url)
    mode = parse_qs(parts.query).get("sslmode", ["prefer"])[0]
    remote = [host for host in _list_hosts(parts.netloc) if host not in _LOCAL_HOSTS]

    if remote and mode not in _ENCRYPTING_MODES:
        yield Diagnosis(
            "unsafe",
            "store",
            f"the connection to {', '.join(remote)} may be unencrypted (sslmode={mode})",
            "add ?sslmode=verify-full to store_url",
        )

    if parts.password:
        yield Diagnosis(
            "note",
            "store",
            "store_url holds the password",
            "keep it in ~/.pgpass, which libpq reads",
        )


async def check_store_answers(settings: Settings, namespaces: Iterable[str] = ()) -> StoreAnswer:
    """Check that the store can be opened and read, and ask it about tokens and namespaces.

    A store that does not exist is not created, and one of an older version is not migrated.
    """
    path = settings.store_path
    place = _describe_place(settings)

    # Its log or lock may be left without it: then it was moved, and opening it says so.
    if path is not None and not any(path.parent.glob(f"{path.name}*")):
        words = f"{place} does not exist; it is created when first used"
        empty = dict.fromkeys(namespaces, 0)
        return StoreAnswer([Diagnosis("ok", "store", words)], False, empty)

    if path is not None and _is_migration_due(path):
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
        if diagnosis.state == "fails":
            return StoreAnswer([diagnosis], await _recall_from(store))

        memories = await _count_memories(store, namespaces)
        return StoreAnswer([diagnosis], await _recall_from(store), memories)
    finally:
        await store.close()


async def _count_memories(store: ServableStore, namespaces: Iterable[str]) -> dict[str, int]:
    """Return how many memories each namespace holds; none at all if the store stops answering."""
    counts: dict[str, int] = {}

    try:
        for name in namespaces:
            stats = await store.read_stats(name)
            counts[name] = stats.total
    except Refused:
        return {}

    return counts


async def _diagnose_answer(store: ServableStore, settings: Settings) -> Diagnosis:
    place = _describe_place(settings)

    try:
        stats = await store.read_stats(settings.namespace)
        language = (await store.read_language()).name
    except Exception as error:  # whatever is wrong with a store, the other checks go on
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

    A store that does not exist is not created.
    """
    try:
        store = open_store(settings)
    except ValueError:
        return None

    try:
        return await _recall_from(store)
    finally:
        await store.close()


async def _recall_from(store: ServableStore) -> bool | None:
    try:
        return await store.has_mark("tokens")
    except Refused:
        return None


def find_file_system(path: Path) -> str:
    """Return the kind of file system of a path, for example "ext4"; "" on systems but Linux."""
    if not sys.platform.startswith("linux"):
        return ""

    real = resolve_path(path)
    kind = ""
    longest = 0

    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, found, *_ = line.split()
        mount = Path(target)

        # Mounts lie within one another: the longest path is the innermost mount.
        if (mount == real or mount in real.parents) and len(mount.parts) > longest:
            kind = found
            longest = len(mount.parts)

    return kind


def _is_migration_due(path: Path) -> bool:
    """Return whether opening a store would migrate it; False if it cannot be told."""
    try:
        with closing(connect_to_file(path, "ro")) as connection:
            return is_older(connection)
    except (Refused, sqlite3.Error, UnicodeDecodeError):
        return False  # opening it says why


def _list_hosts(netloc: str) -> list[str]:
    """Return the hosts of a URL without user and ports; libpq takes several, urlsplit does not."""
    hosts: list[str] = []

    for part in netloc.split(","):
        host = part.rpartition("@")[2]

        if host.startswith("["):  # an IPv6 address, which holds colons itself
            hosts.append(host.partition("]")[0] + "]")
        else:
            hosts.append(host.partition(":")[0])

    return hosts


def _describe_place(settings: Settings) -> str:
    """Return where the store is, without user and password."""
    if settings.store_path is not None:
        return str(settings.store_path)

    parts = urlsplit(settings.store_url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
