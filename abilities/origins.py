"""Where settings come from: arguments, environment variables, and lines of the settings file."""

import os
import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from abilities.declarations.faults import AbilitiesError

HOME = Path("~/.abilities")
"""Where everything is by default."""

PREFIX = "ABILITIES_"
"""What the names of all environment variables begin with."""

FILE_VARIABLE = "ABILITIES_CONFIG"
"""The environment variable that names the settings file."""

_LINKED_SERVICE = re.compile(r"ABILITIES_(SERVICE_(HOST|PORT)|PORT_\d+_)|ABILITIES_PORT=\w+://")
"""Variables that container platforms set for a service whose name is ``abilities``."""


class SettingsFileError(AbilitiesError, ValueError):
    """The settings file cannot be read, or is not TOML; the message names the file and the line."""


def find_settings_file() -> Path:
    """Return the path of the settings file, which need not exist."""
    return Path(os.environ.get(FILE_VARIABLE, HOME / "config.toml")).expanduser().absolute()


def read_settings_file() -> dict[str, Any]:
    """Return what the settings file holds; nothing if there is none, unless a variable names it.

    Raises SettingsFileError.
    """
    path = find_settings_file()

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if FILE_VARIABLE not in os.environ:
            return {}

        raise SettingsFileError(
            f"the settings file {path} does not exist; create it, or correct {FILE_VARIABLE}, "
            "which names it"
        ) from None
    except UnicodeDecodeError:
        raise SettingsFileError(
            f"the settings file {path} is not text in UTF-8; save it as such"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsFileError(
            f"the settings file {path} is not valid TOML: {error}; a right line, with text in "
            'quotes, is for example: timezone = "Europe/Berlin"'
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SettingsFileError(
            f"the settings file {path} cannot be read: {reason}; it must be a file that this user "
            "may read"
        ) from None


def find_origin(name: str, arguments: Collection[str] = ()) -> str | None:
    """Return where the value of a setting comes from, as people find it; None for a default.

    For example "the argument timezone", "ABILITIES_TIMEZONE", or "/home/ada/config.toml, line 3".
    ``arguments`` names the settings that were passed as arguments, which come first.
    """
    if name in arguments:
        return f"the argument {name}"

    variable = find_variables().get(name.lower())
    if variable is not None:
        return variable

    path = find_settings_file()
    line = find_line(path.read_text(encoding="utf-8"), name) if path.is_file() else None
    if line is not None:
        return f"{path}, line {line}"

    return None


def find_variables() -> dict[str, str]:
    """Return the variables that could be settings, by the name of the setting in lower case."""
    variables: dict[str, str] = {}
    for variable in os.environ:
        if variable.upper().startswith(PREFIX) and variable.upper() != FILE_VARIABLE:
            variables[variable[len(PREFIX) :].lower()] = variable

    return variables


def read_variables(settings: Collection[str]) -> dict[str, str]:
    """Return what the environment says of settings, by their names."""
    variables = find_variables()
    return {name: os.environ[variables[name]] for name in settings if name in variables}


def list_unknown_variables(settings: Iterable[str]) -> list[tuple[str, str]]:
    """Return the variables that look like settings and are none, each with its setting's name.

    Those of a container platform are left out: nobody set them by mistake.
    """
    known = set(settings)
    unknown: list[tuple[str, str]] = []

    for name, variable in sorted(find_variables().items()):
        assignment = f"{variable}={os.environ[variable]}"
        if name not in known and not _LINKED_SERVICE.match(assignment):
            unknown.append((variable, name))

    return unknown


def find_line(text: str, name: str) -> int | None:
    r"""Return the number of the line of a TOML document on which a key or a table begins.

    >>> find_line('a = 1\n\n"b" = 2\n[c]\n', "b"), find_line("a = 1", "c")
    (3, None)
    """
    key = re.compile(rf"\s*(\[+\s*)?[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    lines = text.splitlines(keepends=True)

    for number, line in enumerate(lines):
        # Within a text of several lines it may stand too; what is before is no document then.
        if key.match(line) and _is_document("".join(lines[:number])):
            return number + 1

    return None


def _is_document(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False

    return True
