"""What a client is told to start: a command, its arguments and its variables.

Why a client's configuration is left as it is.

Values of a configuration, of which nothing is known beforehand.

The namespace of a project, which keeps its notes and memories apart from those of others.
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
from abilities.settings import HOME, Settings, find_settings_file


class Unusable(AbilitiesError):
    """A configuration that cannot be read or edited; the message is a sentence for people."""


class Unparsable(Unusable):
    """Text that is not what its name says, with the line on which that shows."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


def as_list(value: object) -> list[object]:
    """Return the elements of an array, none for anything else."""
    if isinstance(value, list):
        return cast("list[object]", value)

    return []


NOTES = HOME / "projects" / "{namespace}"
"""Where the notes of projects are, each in the folder of its namespace."""

_SHARED = "default"
"""The namespace of whatever names none."""

_MAX_CHARS = 100


def name_namespace(project: Path) -> str:
    """Return the namespace for a project's folder: its name.

    A name that cannot be a namespace keeps the characters that may be in one, followed by a part of
    its SHA-256, so that different names stay different.

    >>> name_namespace(Path("/home/ada/compiler")), name_namespace(Path("/home/ada/my notes"))
    ('compiler', 'my-notes-f30ac2b5')
    """
    name = project.name
    if name != _SHARED and re.fullmatch(NAMESPACE, name):
        return name

    plain = re.sub(r"[^A-Za-z0-9_.@:+=-]+", "-", name)[:_MAX_CHARS].strip("-")
    digest = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{plain or 'project'}-{digest}"


_PREFIX = "ABILITIES_"

_PATHS = ("agent_dir", "workspace_dir", "tokens_file")
"""The settings that are paths, of which a client needs the absolute ones."""

_PROGRAMS = {"abilities", "agent-abilities"}
"""The names by which this package is started."""

_STARTERS = re.compile(r"abilities|agent-abilities|uvx?|env|python[\d.]*")
"""What begins a command that starts it on this machine."""

_EXPANDED = ("$", "{env:", "{file:")
"""What clients replace in the texts of their configuration."""


class ServerEntry(NamedTuple):
    """A command that serves the abilities over stdio, as a client starts it."""

    command: str
    arguments: tuple[str, ...]
    variables: dict[str, str]


def find_command() -> tuple[str, ...]:
    """Return the command that runs now, with absolute paths.

    It is the program ``abilities``, or the interpreter that runs the module. With ``-P`` a folder
    of that name in somebody's project is not taken for the package.
    """
    program = Path(sys.argv[0]).absolute()
    if program.name == "abilities" and os.access(program, os.X_OK) and program.is_file():
        return (str(program),)

    return (sys.executable, "-P", "-m", "abilities")


def is_temporary(command: str) -> bool:
    """Return whether a command lies in a cache of uv or pipx, which may be emptied at any time.

    >>> is_temporary("/home/ada/.cache/uv/archive-v0/x/bin/abilities")
    True
    """
    parts = Path(command).parts
    return ".cache" in parts and bool({"uv", "pipx"} & set(parts))


def build_entry(
    settings: Settings, options: Mapping[str, object], tools: str | None
) -> ServerEntry:
    """Return the entry for these settings.

    It has a variable for each setting that an option or a variable of the environment sets; what
    the settings file says stays there alone. Raises Unusable for a setting that must not be
    written: one that holds a password, or that clients would change.
    """
    names = {name for name in options if name != "tools"} | _list_set_names()
    variables: dict[str, str] = {}

    if _PREFIX + "CONFIG" in os.environ:
        variables[_PREFIX + "CONFIG"] = str(find_settings_file())

    for name in Settings.model_fields:
        if name in names:
            value = _describe_setting(settings, name, options)
            if value is not None:
                variables[_PREFIX + name.upper()] = value

    command, *arguments = *find_command(), "mcp"
    if tools is not None:
        arguments += ["--tools", tools]

    entry = ServerEntry(command, tuple(arguments), variables)
    _check_texts(entry)
    return entry


def shape_entry(client: Client, entry: ServerEntry, old: object = None) -> JsonObject:
    """Return the entry in the form of a client, with what else an old one there holds.

    Variables of the old one stay too, also settings that only it has: its owner may have added
    them, for example names that must not be shared.
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
    """Return what a client starts for an entry in its own form."""
    command = value["command"]
    words = as_list(command) or [command, *as_list(value.get("args"))]
    variables = as_object(value.get("environment") or value.get("env")) or {}

    program, *arguments = [str(word) for word in words]
    texts = {name: str(text) for name, text in variables.items()}
    return ServerEntry(program, tuple(arguments), texts)


def is_ours(value: object) -> bool:
    """Return whether an entry of a client starts this package, in whichever form."""
    found = as_object(value) or {}
    command = found.get("command")
    words = as_list(command) or [command]
    names = [str(word).rpartition("/")[2] for word in (*words, *as_list(found.get("args")))]

    # Other programs, such as ssh, may start one that is elsewhere.
    starter = _STARTERS.fullmatch(names[0])
    return starter is not None and "mcp" in names and not _PROGRAMS.isdisjoint(names)


def is_set_here(options: Mapping[str, object], name: str) -> bool:
    """Return whether an option or a variable of the environment sets a setting."""
    return name in options or name in _list_set_names()


def holds_password(url: str) -> bool:
    """Return whether the URL of a store holds a password."""
    parts = urlsplit(url)
    return parts.password is not None or any("password" in key for key in parse_qs(parts.query))


def _list_set_names() -> set[str]:
    """Return the settings that the environment sets, which reads names without their case."""
    names = {name.lower() for name in os.environ}
    prefix = _PREFIX.lower()
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


def _describe_setting(settings: Settings, name: str, options: Mapping[str, object]) -> str | None:
    """Return a setting's value as a variable, None if the settings file has it already."""
    if name in _PATHS:
        return str(getattr(settings, name))
    if name == "store_url":
        return _describe_store(settings)
    if name in options:
        return str(options[name])

    for variable, value in os.environ.items():
        if variable.lower() == (_PREFIX + name).lower():
            return value

    return None


def _describe_store(settings: Settings) -> str | None:
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
        f"put store_url into {file} and unset {_PREFIX}STORE_URL"
    )


def _check_texts(entry: ServerEntry) -> None:
    for text in (entry.command, *entry.arguments, *entry.variables.values()):
        if any(mark in text for mark in _EXPANDED):
            raise Unusable(f"clients replace what begins with '$' or '{{env:' in {text}")
