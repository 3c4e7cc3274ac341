"""The entry of the server in a client's configuration: a command, its arguments and variables.

Settings become variables of the entry. Each client has its own form for an entry, which is read and
written here; the files themselves are edited elsewhere.
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

from abilities.clients.table import Client
from abilities.declarations.memory import NAMESPACE
from abilities.declarations.refusals import AbilitiesError
from abilities.declarations.values import JsonObject, as_object
from abilities.settings import (
    FILE_VARIABLE,
    HOME,
    PREFIX,
    Settings,
    find_settings_file,
    find_variables,
    read_variables,
)

NOTES = HOME / "projects" / "{namespace}"
"""The folder for the notes of a project, which depends on its namespace."""

_PATHS = ("agent_dir", "workspace_dir", "tokens_file")
"""Settings that are paths. A client needs them as absolute paths."""

_PROGRAMS = {"abilities", "agent-abilities"}
"""Names of this package's program."""

_STARTERS = re.compile(r"abilities|agent-abilities|uvx?|env|python[\d.]*")
"""Programs that can start this package on this machine."""

_EXPANDED = ("$", "{env:", "{file:")
"""The beginnings of placeholders that clients expand in their configuration."""


class Unusable(AbilitiesError):
    """A configuration cannot be read or edited. The message is a sentence for people."""


class Unparsable(Unusable):
    """A text is not valid JSON or TOML. ``line`` is the number of the wrong line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


class ServerEntry(NamedTuple):
    """A command that serves the abilities over stdio, as a client starts it."""

    command: str
    arguments: tuple[str, ...]
    variables: dict[str, str]


def find_command() -> tuple[str, ...]:
    """Return the command of the running program, with absolute paths.

    It is the program ``abilities``, or the interpreter with the module. The option ``-P`` prevents
    that Python imports a folder of the same name in a project.
    """
    program = Path(sys.argv[0]).absolute()
    if program.name == "abilities" and os.access(program, os.X_OK) and program.is_file():
        return (str(program),)

    return (sys.executable, "-P", "-m", "abilities")


def is_temporary(command: str) -> bool:
    """Return whether a command is in a cache of uv or pipx, which may be emptied at any time.

    >>> is_temporary("/home/ada/.cache/uv/archive-v0/x/bin/abilities")
    True
    """
    parts = Path(command).parts
    return ".cache" in parts and bool({"uv", "pipx"} & set(parts))


def build_entry(
    settings: Settings, options: Mapping[str, object], tools: str | None
) -> ServerEntry:
    """Return the entry for these settings.

    It has a variable for each setting that comes from an option or the environment. Settings from
    the settings file stay only there. Raises Unusable if a setting must not be written because it
    contains a password, or because clients would change its value.
    """
    variables: dict[str, str] = {}

    if FILE_VARIABLE in os.environ:
        variables[FILE_VARIABLE] = str(find_settings_file())

    given: dict[str, object] = {**read_variables(Settings.model_fields), **options}
    for name in Settings.model_fields:
        if name in given:
            value = _describe_setting(settings, name, str(given[name]))
            if value is not None:
                variables[PREFIX + name.upper()] = value

    command, *arguments = *find_command(), "mcp"
    if tools is not None:
        arguments += ["--tools", tools]

    for text in (command, *arguments, *variables.values()):
        if any(mark in text for mark in _EXPANDED):
            raise Unusable(f"clients replace what begins with '$' or '{{env:' in {text}")

    return ServerEntry(command, tuple(arguments), variables)


def shape_entry(client: Client, entry: ServerEntry, old: object = None) -> JsonObject:
    """Return the entry in the form of a client, with all other fields of the client's old entry.

    The old entry's other variables stay, too. Its owner may have added them, for example a setting
    of names that must not be shared.
    """
    previous = dict(as_object(old) or {})
    variables_key = "environment" if client.shape == "opencode" else "env"
    variables = (as_object(previous.pop(variables_key, None)) or {}) | entry.variables
    shaped: JsonObject

    if client.shape == "opencode":
        shaped = {"type": "local", "command": [entry.command, *entry.arguments]}
    else:
        shaped = {"command": entry.command, "args": list(entry.arguments)}

    if client.shape == "stdio":
        shaped = {"type": "stdio", **shaped}
    if variables:
        shaped[variables_key] = variables

    return {**shaped, **previous, **shaped}


def read_entry(value: JsonObject) -> ServerEntry:
    """Return an entry from a client's own form."""
    # OpenCode has one list, and calls the variables "environment".
    command = value["command"]
    words = as_list(command) or [command, *as_list(value.get("args"))]
    variables = as_object(value.get("environment") or value.get("env")) or {}

    program, *arguments = map(str, words)
    texts = {name: str(text) for name, text in variables.items()}
    return ServerEntry(program, tuple(arguments), texts)


def is_ours(value: object) -> bool:
    """Return whether an entry in any client's form starts this package."""
    found = as_object(value) or {}
    command = found.get("command")
    words = as_list(command) or [command]
    words = [*words, *as_list(found.get("args"))]
    names = [str(word).rpartition("/")[2] for word in words]

    # Other programs, such as ssh, may start it on another machine.
    starter = _STARTERS.fullmatch(names[0])
    return starter is not None and "mcp" in names and not _PROGRAMS.isdisjoint(names)


def is_set_here(options: Mapping[str, object], name: str) -> bool:
    """Return whether an option or a variable of the environment has a setting."""
    return name in options or name in find_variables()


def holds_password(url: str) -> bool:
    """Return whether the URL of a store contains a password."""
    parts = urlsplit(url)
    return parts.password is not None or any("password" in key for key in parse_qs(parts.query))


def _describe_setting(settings: Settings, name: str, text: str) -> str | None:
    """Return the value of a setting's variable, or None if the settings file has it.

    ``text`` is the value as it was given. Raises Unusable if it contains a password and is not in
    the settings file.
    """
    if name in _PATHS:
        return str(getattr(settings, name))

    if name == "store_url":
        if settings.store_path is not None:
            return f"sqlite:///{settings.store_path}"
        if not holds_password(settings.store_url):
            return settings.store_url

        file = find_settings_file()
        if file.exists():
            known = tomllib.loads(file.read_text(encoding="utf-8"))
            if known.get("store_url") == settings.store_url:
                return None

        raise Unusable(
            "the store's URL holds a password, which is not written into files of clients; "
            f"put store_url into {file} and unset {PREFIX}STORE_URL"
        )

    return text


def name_namespace(project: Path) -> str:
    """Return the namespace for a project: the name of its folder.

    A name that is not a valid namespace keeps its valid characters, followed by a part of its
    SHA-256, so that different names stay different.

    >>> name_namespace(Path("/home/ada/compiler")), name_namespace(Path("/home/ada/my notes"))
    ('compiler', 'my-notes-f30ac2b5')
    """
    name = project.name
    is_shared = name == "default"  # the namespace of all calls that name none
    if not is_shared and re.fullmatch(NAMESPACE, name):
        return name

    plain = re.sub(r"[^A-Za-z0-9_.@:+=-]+", "-", name)[:100].strip("-")
    digest = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{plain or 'project'}-{digest}"


def as_list(value: object) -> list[object]:
    """Return a value if it is a list, or else an empty list."""
    if isinstance(value, list):
        return cast("list[object]", value)

    return []
