"""What `abilities doctor` looks at: what is configured, what answers, what is unsafe, and how to mend it."""

import os
import platform
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from abilities.application import Abilities, build_registry
from abilities.errors import AbilityError
from abilities.helpers.files.confinement import Root
from abilities.helpers.files.deny import DenyList
from abilities.helpers.tokens import Token, TokenFile
from abilities.settings import HOME, Settings

State = Literal["ok", "note", "unsafe", "broken"]

_SQLITE_NEEDED = (3, 37, 0)
"""STRICT tables (https://sqlite.org/stricttables.html)."""
_SQLITE_SOUND = (3, 51, 3)
"""Older ones may lose a commit when two programs reset the log at once (https://sqlite.org/wal.html#walresetbug).

Our own processes cannot: they take turns by a lock that other programs do not know.
"""
_REMOTE = {
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
_SECRETS = (
    ".env", "server.pem", "a.key", "a.p12", "id_rsa", "id_ed25519", ".netrc", ".npmrc", ".pypirc", ".pgpass",
    ".ssh/config", ".git/config", ".aws/credentials", ".kube/config", ".gnupg/x", ".docker/config.json",
)  # fmt: skip
_FREE = 200 * 1024 * 1024
_EXTRAS = {"mcp": "mcp", "http": "fastapi", "postgres": "psycopg", "graph": "networkx"}
_MENDING = {
    "storage_moved": "put the file back where it was, or remove what is left of it beside its place: -wal and -lock",
    "corrupted": "stop what uses it and put a copy in place: abilities restore COPY",
    "schema_too_new": "install the version that wrote it, or a newer one",
    "unavailable": "see that the database runs, and that store_url names it",
}


class Diagnosis(NamedTuple):
    """One thing that was looked at; ``mend`` says what to do where it is not well."""

    state: State
    about: str
    words: str
    mend: str = ""


async def diagnose(settings: Settings) -> list[Diagnosis]:
    """Everything that is worth saying, in the order in which one would look. Changes nothing."""
    return [
        *_system(),
        *_settings(settings),
        *_roots(settings),
        *_store_place(settings),
        *await _store(settings),
        *_tokens(settings),
        *_abilities(settings),
    ]


def _system() -> Iterator[Diagnosis]:
    yield Diagnosis(
        "ok",
        "version",
        f"agent-abilities {version('agent-abilities')} on Python {platform.python_version()}",
    )
    there = [extra for extra, module in _EXTRAS.items() if find_spec(module)]
    missing = [extra for extra in _EXTRAS if extra not in there]
    mend = (
        f"where you want them: pip install 'agent-abilities[{','.join(missing)}]'"
        if missing
        else ""
    )
    yield Diagnosis(
        "ok",
        "extras",
        f"{', '.join(there) or 'none'}" + (f"; without {', '.join(missing)}" if missing else ""),
        mend,
    )
    if os.geteuid() == 0:
        yield Diagnosis(
            "note",
            "user",
            "this is root, whom file permissions do not hold back",
            "run it as a user of its own",
        )


def _settings(settings: Settings) -> Iterator[Diagnosis]:
    file = Path(os.environ.get("ABILITIES_CONFIG", HOME / "config.toml")).expanduser()
    given = sorted(
        name for name in os.environ if name.startswith("ABILITIES_") and name != "ABILITIES_CONFIG"
    )
    words = f"{file}" if file.exists() else f"no file at {file}"
    yield Diagnosis(
        "ok", "settings", words + (f"; from the environment: {', '.join(given)}" if given else "")
    )
    if file.exists():
        yield from _private(file, "settings", secret="@" in settings.store_url)
    today = datetime.now(settings.zone).strftime("%Y-%m-%d %H:%M")
    yield Diagnosis(
        "ok", "time", f"it is {today} in {settings.timezone or 'the time zone of the system'}"
    )
    open_names = [name for name in _SECRETS if not DenyList(settings.deny).denies(name)]
    if open_names:
        words = f"the deny list does not cover {', '.join(open_names)}"
        yield Diagnosis(
            "unsafe", "deny", words, "add them to 'deny', which replaces the default list"
        )


def _roots(settings: Settings) -> Iterator[Diagnosis]:
    try:
        settings.check_roots()
    except ValueError as error:
        yield Diagnosis("broken", "directories", str(error), "name folders that an agent may read")
        return
    agent, workspace = _build_roots(settings)
    for root in (agent, workspace):
        yield _root(root)
    inner, outer = _real(agent.path), _real(workspace.path)
    if inner == outer or outer in inner.parents or inner in outer.parents:
        words = "the agent's directory and the workspace overlap: files of one are read by the other's paths too"
        yield Diagnosis(
            "unsafe",
            "directories",
            words,
            "set agent_dir and workspace_dir to folders apart from each other",
        )


def _build_roots(settings: Settings) -> tuple[Root, Root]:
    agent = Root("agent", settings.agent_path, optional=settings.has_default_agent_dir)
    return agent, Root("workspace", settings.workspace_path)


def _root(root: Root) -> Diagnosis:
    about = f"{root.name} directory"
    if not root.path.is_dir():
        if root.path.exists():
            return Diagnosis(
                "broken", about, f"{root.path} is no directory", f"set {root.name}_dir to one"
            )
        if root.optional:
            return Diagnosis(
                "ok",
                about,
                f"{root.path} is not there; nothing is read from it",
                "to have notes: abilities init",
            )
        return Diagnosis(
            "broken",
            about,
            f"{root.path} is not there",
            f"make it, or set {root.name}_dir to another",
        )
    try:
        os.close(os.open(root.path, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return Diagnosis(
            "broken", about, f"{root.path} may not be read by this user", f"chmod u+rx {root.path}"
        )
    if root.path.stat().st_mode & stat.S_IWOTH:
        words = f"everybody may write into {root.path}, and so tell the agent what they like"
        return Diagnosis(
            "unsafe",
            about,
            words,
            f"set {root.name}_dir to a folder of yours, or: chmod o-w {root.path}",
        )
    return Diagnosis("ok", about, str(root.path))


def _store_place(settings: Settings) -> Iterator[Diagnosis]:
    path = settings.store_path
    if path is None:
        yield from _database(settings.store_url)
        return
    found = sqlite3.sqlite_version_info
    if found < _SQLITE_NEEDED:
        yield Diagnosis(
            "broken",
            "SQLite",
            f"{sqlite3.sqlite_version} is too old",
            "use a Python with SQLite 3.37 or newer",
        )
    elif found < _SQLITE_SOUND:
        words = f"{sqlite3.sqlite_version}: other programs that write to the store while it is in use may damage it"
        yield Diagnosis(
            "note", "SQLite", words, "open it with abilities alone, or use SQLite 3.51.3 or newer"
        )
    yield from _apart(path, "store", settings)
    if path.exists():
        yield from _private(path, "store", secret=True)
    kind = _file_system(path)
    if kind in _REMOTE:
        words = f"{path} is on a network file system ({kind}), where locks and the log cannot be trusted"
        yield Diagnosis(
            "unsafe", "store", words, "set store_url to a local disk, or to a PostgreSQL database"
        )
    nearest = next(parent for parent in path.parents if parent.exists())
    if (free := shutil.disk_usage(nearest).free) < _FREE:
        yield Diagnosis(
            "note", "store", f"only {free // 1_000_000} MB are free on its disk", "make room"
        )


def _database(url: str) -> Iterator[Diagnosis]:
    parts = urlsplit(url)
    hosts = [host.rpartition("@")[2].partition(":")[0] for host in parts.netloc.split(",")]
    mode = parse_qs(parts.query).get("sslmode", ["prefer"])[0]
    away = [host for host in hosts if host not in ("", "localhost", "127.0.0.1", "[")]
    if away and mode not in ("require", "verify-ca", "verify-full"):
        words = f"the way to {', '.join(away)} need not be encrypted (sslmode={mode})"
        yield Diagnosis("unsafe", "store", words, "add ?sslmode=verify-full to store_url")
    if parts.password:
        yield Diagnosis(
            "note",
            "store",
            "its password stands in store_url",
            "keep it in ~/.pgpass, which libpq reads",
        )


async def _store(settings: Settings) -> list[Diagnosis]:
    parts = urlsplit(settings.store_url)
    path = settings.store_path
    where = f"{parts.netloc.rpartition('@')[2]}{parts.path}" if path is None else str(path)
    if path is not None and not any(path.parent.glob(f"{path.name}*")):
        return [Diagnosis("ok", "store", f"{where} is made when first needed")]
    try:
        async with Abilities.open(settings.model_copy(update=_ROOTLESS)) as abilities:
            figures = await abilities.call("get_memory_stats")
    except AbilityError as error:
        mend = _MENDING.get(
            error.fault.reason, "the log says more: abilities call get_memory_stats"
        )
        return [Diagnosis("broken", "store", f"{where}: {error.fault.message}", mend)]
    words = (
        f"{where} answers: {figures['total_memories']:,} memories in namespace {settings.namespace}"
    )
    return [Diagnosis("ok", "store", words, "whether it is whole, says: abilities check")]


_ROOTLESS = {
    "agent_dir": Path("/nonexistent"),
    "workspace_dir": Path("/nonexistent"),
    "plugins": False,
    "disabled": (),
}
"""Settings that open whatever the directories are, with the abilities there are."""


def _tokens(settings: Settings) -> Iterator[Diagnosis]:
    path = settings.tokens_file
    try:
        tokens = TokenFile(path).tokens()
    except ValueError as error:
        yield Diagnosis(
            "broken",
            "tokens",
            f"{path}: {error}; everybody is refused",
            "restore it, or remove it and make new ones",
        )
        return
    if path.exists():
        yield from _private(path, "tokens", secret=True)
        yield from _apart(path, "tokens", settings)
    yield from _served(settings, tokens)


def _served(settings: Settings, tokens: list[Token]) -> Iterator[Diagnosis]:
    if not tokens:
        yield Diagnosis("ok", "tokens", "none: 'abilities serve' answers this machine alone")
        if settings.allowed_hosts:
            words = f"allowed_hosts ({', '.join(settings.allowed_hosts)}) needs tokens, and there are none"
            yield Diagnosis("broken", "tokens", words, "abilities token add --scope read")
        return
    writing = sum(token.scope == "write" for token in tokens)
    spaces = sorted({token.namespace for token in tokens})
    yield Diagnosis(
        "ok", "tokens", f"{len(tokens)}, of which {writing} may write, for {', '.join(spaces)}"
    )
    try:
        settings.check_namespaces(spaces)
    except ValueError as error:
        yield Diagnosis(
            "broken", "tokens", str(error), "'abilities serve' does not start like that"
        )


def _abilities(settings: Settings) -> Iterator[Diagnosis]:
    registry, problems = build_registry(settings)
    off = f"; switched off: {', '.join(settings.disabled)}" if settings.disabled else ""
    yield Diagnosis("ok", "abilities", f"{len(registry)} are offered{off}")
    for problem in problems:
        yield Diagnosis(
            "note", "plugins", problem, "update or remove that package, or set plugins = false"
        )


def _private(path: Path, about: str, *, secret: bool) -> Iterator[Diagnosis]:
    """Whether others may read or change a file, or put another in its place; a folder may keep them out."""
    if not all(parent.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for parent in path.parents):
        return
    mode = path.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Diagnosis("unsafe", about, f"other users may change {path}", f"chmod 600 {path}")
    elif secret and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield Diagnosis("unsafe", about, f"other users may read {path}", f"chmod 600 {path}")
    folder = path.parent.stat().st_mode
    if folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
        yield Diagnosis(
            "unsafe", about, f"other users may replace {path}", f"chmod o-w {path.parent}"
        )


def _apart(path: Path, about: str, settings: Settings) -> Iterator[Diagnosis]:
    """Whether a file lies in a directory that agents read from."""
    for root in _build_roots(settings):
        place = _real(root.path)
        if place in _real(path).parents and not settings.policy.deny.denies(
            str(_real(path).relative_to(place))
        ):
            words = f"{path} lies in the {root.name} directory, where agents and their tools may reach it"
            option = {"store": "store_url", "tokens": "tokens_file"}[about]
            yield Diagnosis(
                "unsafe", about, words, f"move it out, as into {HOME}, and set {option}"
            )


def _file_system(path: Path) -> str:
    """The kind of file system that a path is on; empty where the system does not tell."""
    if not sys.platform.startswith("linux"):
        return ""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    real = _real(path)
    holding = [
        (Path(at), kind)
        for _, at, kind, *_ in mounts
        if Path(at) == real or Path(at) in real.parents
    ]
    return max(holding, key=lambda mount: len(mount[0].parts), default=(Path(), ""))[1]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
