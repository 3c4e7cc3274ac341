"""The checks of `abilities doctor`: settings, folders, the store, namespaces, abilities."""

import os
import platform
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from abilities.application import build_registry, open_store, use_store
from abilities.builtin.index import ALL, explain_unknown_names, explain_unknown_tools, select_names
from abilities.cli.session import choose_mend
from abilities.cli.terminal import divert_stdout, format_count
from abilities.declarations.refusals import Fault, Refused
from abilities.errors import EXTRAS, USES, Extra, format_install, is_installed
from abilities.helpers.files.deny import DenyList
from abilities.helpers.files.reader import PLACEHOLDER, RootPlace, find_ban
from abilities.helpers.files.secret_names import list_denied
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.store.sqlite.file import connect_to_file, is_older
from abilities.helpers.tokens import TokenFile
from abilities.settings import (
    HOME,
    Settings,
    explain_unknown,
    find_origin,
    find_settings_file,
    list_unknown_variables,
)

MAX_NAMESPACES = 50
"""The number of namespaces that are examined; a server may have thousands."""

_NEARLY_FULL = 0.9
"""The part of max_memories from which on a namespace gets a note."""

CHECK_SECONDS = 60.0
"""The time limit for an embedder, which may load a model first."""

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

_SETTINGS = {"store": "store_url", "tokens": "tokens_file"}
"""The setting for the place of each file of ours."""

_USE_DEFAULT_LIST = "put '...' into 'deny', which adds the default list"

# The names that every deny list should cover.
_SECRETS = (
    ".env", "server.pem", "a.key", "a.p12", "id_rsa", "id_ed25519",
    ".netrc", ".npmrc", ".pypirc", ".pgpass",
    ".ssh/config", ".git/config", ".aws/credentials", ".kube/config", ".gnupg/x",
    ".docker/config.json",
)  # fmt: skip

State = Literal["ok", "note", "unsafe", "fails"]


class Diagnosis(NamedTuple):
    """The result of one check.

    ``about`` names its subject, such as "store"; ``words`` say how it is; ``mend`` is the remedy,
    which is never empty if the state is "unsafe" or "fails". A "note" is worth knowing, but needs
    no action.
    """

    state: State
    about: str
    words: str
    mend: str = ""


def check_folders(settings: Settings) -> Iterator[Diagnosis]:
    """Check that the agent's directory and the workspace can be read and do not overlap."""
    agent, workspace = settings.agent_root, settings.workspace_root
    yield check_folder(agent)

    if workspace is None:
        ban = find_ban(settings.workspace_dir)
        words = f"none: the current directory is {ban}, which is not shared"
        mend = "start in a project folder, or set workspace_dir"
        yield Diagnosis("note", "workspace directory", words, mend)
        return

    yield check_folder(workspace)

    # Two paths may lead to one place through links.
    first, second = resolve_path(agent.path), resolve_path(workspace.path)

    if first == second or second in first.parents or first in second.parents:
        yield Diagnosis(
            "unsafe",
            "directories",
            "the agent directory and the workspace overlap: "
            "files of one can be read through the other",
            "set agent_dir and workspace_dir to two folders, neither of them inside the other",
        )


def check_folder(root: RootPlace) -> Diagnosis:
    """Check that a directory can be read, and not written to by everybody; it need not exist."""
    about = f"{root.name} directory"
    path = root.path

    try:
        root.check()
    except ValueError as error:
        mend = f"set {root.setting} to a folder that an agent may read"
        return Diagnosis("fails", about, str(error), mend)

    if not path.exists():
        mend = "to keep notes there: abilities init"
        if root.name == "workspace":
            mend = f"to share files: mkdir {path}"
        words = f"{path} does not exist, so nothing is read from it"
        return Diagnosis("ok", about, words, mend)
    if not path.is_dir():
        mend = f"set {root.setting} to a directory"
        return Diagnosis("fails", about, f"{path} is not a directory", mend)

    # Only opening it is a sure test: access depends on more than permission bits.
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return Diagnosis("fails", about, f"this user cannot read {path}", f"chmod u+rx {path}")

    if path.stat().st_mode & stat.S_IWOTH:
        return Diagnosis(
            "unsafe",
            about,
            f"every user can write to {path}, and so tell the agent anything",
            f"set {root.setting} to a folder of your own, or: chmod o-w {path}",
        )

    return Diagnosis("ok", about, str(path))


def check_privacy(path: Path, about: str, *, secret: bool) -> Iterator[Diagnosis]:
    """Check that other users cannot change or replace a file, nor read it if it is ``secret``."""
    # One closed folder above the file keeps other users out.
    entering = stat.S_IXGRP | stat.S_IXOTH
    if not all(parent.stat().st_mode & entering for parent in path.parents):
        return

    mode = path.stat().st_mode

    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Diagnosis("unsafe", about, f"other users can change {path}", f"chmod 600 {path}")
    elif secret and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield Diagnosis("unsafe", about, f"other users can read {path}", f"chmod 600 {path}")

    folder = path.parent
    folder_mode = folder.stat().st_mode

    # In a sticky folder, such as /tmp, only the owner of a file can replace it.
    if folder_mode & stat.S_IWOTH and not folder_mode & stat.S_ISVTX:
        yield Diagnosis("unsafe", about, f"other users can replace {path}", f"chmod o-w {folder}")


def check_separation(path: Path, about: str, settings: Settings) -> Iterator[Diagnosis]:
    """Check that a file of ours, the "store" or the "tokens", is in no root."""
    file = resolve_path(path)

    for root in settings.roots:
        base = resolve_path(root.path)

        if base not in file.parents:
            continue

        yield Diagnosis(
            "note",
            about,
            f"{path} lies in the {root.name} directory: the abilities refuse to read it, "
            "but other tools that work there can reach it",
            f"move it out, for example into {HOME}, and set {_SETTINGS[about]}",
        )


def resolve_path(path: Path) -> Path:
    """Return the path without symbolic links; it need not exist."""
    return Path(os.path.realpath(path))


def check_namespaces(settings: Settings, memories: Mapping[str, int]) -> Iterator[Diagnosis]:
    """Check the folders and the number of memories of each namespace that a token opens.

    ``memories`` has these numbers; it is empty if the store does not answer.
    """
    for namespace, count in sorted(memories.items())[:MAX_NAMESPACES]:
        about = f"namespace {namespace}"
        own_settings = settings.for_namespace(namespace)
        missing: list[str] = []
        own = 0
        for root in own_settings.roots:
            # Roots without a placeholder belong to all namespaces, and were checked already.
            if PLACEHOLDER not in str(getattr(own_settings, root.setting)):
                continue

            own += 1
            if not root.path.is_dir():
                missing.append(str(root.path))
                continue

            finding = check_folder(root)
            if finding.state != "ok":
                yield finding._replace(about=about)

        words = format_count(count, "memory", "memories")
        if missing:
            words += f"; no files, because there is no {' and no '.join(missing)}"

        limit = settings.max_memories
        if limit is not None and count >= limit * _NEARLY_FULL:
            words += f"; max_memories is {limit:,}"
            mend = "raise max_memories, or delete memories, before new ones are refused"
            yield Diagnosis("note", about, words, mend)
        elif missing and len(missing) == own and not count:
            mend = f"if its name is right, to share files: mkdir -p {missing[0]}"
            yield Diagnosis("note", about, words, mend)
        else:
            yield Diagnosis("ok", about, words)

    left = len(memories) - MAX_NAMESPACES
    if left > 0:
        words = f"{format_count(left, 'more namespace')} of tokens not examined"
        yield Diagnosis("ok", "namespaces", words)


def check_versions() -> Iterator[Diagnosis]:
    """Report the versions of the package and of Python, and the installed extras."""
    package = version("agent-abilities")
    yield Diagnosis(
        "ok", "version", f"agent-abilities {package} on Python {platform.python_version()}"
    )

    installed = [extra for extra in EXTRAS if is_installed(extra)]
    missing: list[Extra] = [extra for extra in EXTRAS if extra not in installed]
    words = ", ".join(installed) or "none"
    mend = ""

    if missing:
        uses = ", ".join(f"{extra} ({USES[extra]})" for extra in missing)
        words += f"; not installed: {uses}"
        mend = f"if you need them: {format_install(*missing)}"

    yield Diagnosis("ok", "extras", words, mend)


def check_user() -> Iterator[Diagnosis]:
    """Check that the user is not root, who can read every file."""
    if os.geteuid() == 0:
        words = "this is root, which ignores file permissions"
        yield Diagnosis("note", "user", words, "run abilities as an ordinary user")


def check_settings(settings: Settings) -> Iterator[Diagnosis]:
    """Report where settings come from, unknown variables, a readable file, and the time."""
    file = find_settings_file()
    words = str(file) if file.exists() else f"no settings file at {file}"
    places: list[str] = []

    for name in Settings.model_fields:
        place = find_origin(name)
        if place is not None:
            places.append(f"{name} ({place})")

    if places:
        words += f"; set are {', '.join(places)}"
    yield Diagnosis("ok", "settings", words)

    known = Settings.model_fields.keys()
    for variable, name in list_unknown_variables(known):
        words = f"{variable} is ignored: {name} {explain_unknown(name, known)}"
        yield Diagnosis("note", "settings", words, f"correct its name, or: unset {variable}")

    if file.exists():
        # A URL with a user may hold a password too.
        yield from check_privacy(file, "settings", secret="@" in settings.store_url)

    now = datetime.now(settings.zone).strftime("%Y-%m-%d %H:%M")
    zone = settings.timezone or "the system's time zone"
    yield Diagnosis("ok", "time", f"it is {now} in {zone}")


def check_deny_list(settings: Settings) -> Iterator[Diagnosis]:
    """Check that the deny list covers the usual secrets."""
    deny = DenyList(settings.deny)
    uncovered = [name for name in _SECRETS if not deny.denies(name)]
    missing = set(list_denied()).difference(settings.deny)

    if uncovered:
        words = f"the deny list does not cover {', '.join(uncovered)}"
        yield Diagnosis("unsafe", "deny", words, _USE_DEFAULT_LIST)
    elif missing:
        words = f"the deny list lacks {len(missing)} of the {len(list_denied())} default entries"
        yield Diagnosis("note", "deny", words, _USE_DEFAULT_LIST)


def check_abilities(settings: Settings) -> Iterator[Diagnosis]:
    """Count the offered abilities, and report unknown names and plugins that did not load."""
    # Build the registry once, because plugins are discovered only once.
    with divert_stdout():
        registry, problems = build_registry(settings)

    names = registry.names
    offered = select_names(settings.tools, names).difference(settings.disabled)
    words = f"{len(offered)} are offered"
    if settings.tools != (ALL,):
        words += f"; tools: {', '.join(settings.tools)}"
    if settings.disabled:
        words += f"; disabled: {', '.join(settings.disabled)}"
    yield Diagnosis("ok", "abilities", words)

    # Unsafe, because the user believes that these abilities are off.
    for sentence in explain_unknown_names(settings.disabled, names):
        mend = "correct the name; in the environment names have commas between them"
        yield Diagnosis("unsafe", "abilities", sentence, mend)

    mistake = explain_unknown_tools(settings.tools, names)
    if mistake is not None:
        yield Diagnosis("fails", "abilities", f"tools: {mistake}", "correct the names")

    # Only a note: the holder still has the other abilities. A plugin may have been removed.
    for token in TokenFile(settings.tokens_file).load().by_id.values():
        mistake = explain_unknown_tools(token.tools, names)
        if mistake is not None:
            words = f"tools of token {token.id}: {mistake}"
            yield Diagnosis("note", "tokens", words, "revoke it, and make another")

    # Only a note: the other abilities work without the plugin.
    for problem in problems:
        mend = "update or remove that package, or set plugins = false"
        yield Diagnosis("note", "plugins", problem, mend)


async def check_embedder(settings: Settings, *, has_store: bool) -> list[Diagnosis]:
    """Check that the embedder answers, if one is set, and embed all memories if there are any."""
    if not settings.embedder:
        return []

    # Imported here, because few use it.
    from abilities.embedders import open_meaning
    from abilities.helpers.embedder import EmbedderFailed

    try:
        meaning = open_meaning(settings.embedder, CHECK_SECONDS)
    except ValueError as error:
        mend = "install the package that declares it, or correct the setting"
        return [Diagnosis("fails", "embedder", str(error), mend)]

    store = open_store(settings) if has_store else None
    begun = time.monotonic()
    try:
        with divert_stdout():
            _, count = await meaning.measure(store, settings.namespace, ["a question"], ())
    except (EmbedderFailed, Refused) as error:
        mend = "until it answers, recall ranks by words alone"
        return [Diagnosis("fails", "embedder", f"{settings.embedder} fails: {error}", mend)]
    finally:
        meaning.close()
        if store is not None:
            await store.close()

    seconds = time.monotonic() - begun
    words = f"{settings.embedder} answers; {format_count(count, 'memory', 'memories')}"
    return [Diagnosis("ok", "embedder", f"{words} got vectors in {seconds:.1f} seconds")]


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
        async with use_store(settings) as store:
            diagnosis = await _diagnose_answer(store, settings)
            is_open = diagnosis.state != "fails"
            memories: dict[str, int] = {}
            if is_open:
                # Without all numbers none is known, if the store stops answering.
                with suppress(Refused):
                    memories = {name: (await store.read_stats(name)).total for name in namespaces}

            return StoreAnswer([diagnosis], await _read_token_mark(store), memories, is_open)
    except ValueError as error:
        mend = "install it, or set another store_url"
        return StoreAnswer([Diagnosis("fails", "store", str(error), mend)])


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
        async with use_store(settings) as store:
            return await _read_token_mark(store)
    except ValueError:
        return None


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
