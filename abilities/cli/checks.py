"""The checks of `abilities doctor` besides the store: settings, folders, namespaces, abilities."""

import os
import platform
import stat
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

from abilities.application import build_registry, open_store
from abilities.builtin.index import (
    ALL,
    explain_unknown_names,
    explain_unknown_tools,
    select_names,
)
from abilities.cli.terminal import divert_stdout, format_count
from abilities.declarations.refusals import Refused
from abilities.errors import EXTRAS, USES, Extra, format_install, is_installed
from abilities.helpers.files.deny import DenyList
from abilities.helpers.files.roots import PLACEHOLDER, RootPlace, find_ban
from abilities.helpers.files.secret_names import list_denied
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
