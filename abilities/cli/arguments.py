"""The JSON of a call as it is typed, and what probably happened to it if it is none."""

import ast
import json
import os
import re
import shlex
import sys
from typing import NoReturn, cast

from abilities.cli.errors import UsageErrorInLines
from abilities.cli.text import echo
from abilities.declarations.values import parse_json

_CURLY_QUOTES = "“”„\u2018\u2019«»"

_MAX_SHOWN_CHARS = 200

_EXAMPLE = """'{"paths": ["README.md"]}'"""

_GENERAL_HINT = f"Put them in single quotes, for example {_EXAMPLE}."

_YAML = re.compile(r"\s*[\w-]+:(\s|$)")


def read_arguments(text: str, name: str) -> object:
    """Return the JSON of an argument, or of stdin for '-', for an ability.

    Raises UsageErrorInLines.
    """
    raw = _read_stdin() if text == "-" else os.fsencode(text)

    try:
        return parse_json(raw)
    except ValueError as error:
        _refuse(raw, name, error)


def refuse_pieces(pieces: list[str]) -> None:
    """Raise UsageErrorInLines if the shell has cut the JSON into several arguments."""
    if not pieces:
        return

    raise UsageErrorInLines(
        f"the arguments are not valid JSON: they came in pieces, of which {pieces[0]!r} is one.",
        _GENERAL_HINT,
    )


def _read_stdin() -> bytes:
    # Python has no such stream if the shell has closed it.
    if sys.stdin is None:
        raise UsageErrorInLines(
            "the arguments are not valid JSON: stdin is closed.",
            f"Send them to it, for example: echo {_EXAMPLE} | abilities call file_read_bulk -.",
        )
    if sys.stdin.isatty():
        echo("Type the JSON, and end it with Ctrl-D.", err=True)

    # Bytes, because JSON is UTF-8 whatever the terminal's encoding is.
    return sys.stdin.buffer.read()


def _refuse(raw: bytes, name: str, error: ValueError) -> NoReturn:
    text = raw.decode(errors="replace")
    cause, hint = _explain(text, str(error))

    raise UsageErrorInLines(
        f"the arguments are not valid JSON: {cause}.",
        hint,
        f"'abilities describe {name}' shows the arguments.",
    )


def _explain(text: str, error: str) -> tuple[str, str]:
    """Return what is wrong with a text that is no JSON, and what to do."""
    if not text.strip():
        return "there are none", f"Send an object, for example {_EXAMPLE}."
    if any(quote in text for quote in _CURLY_QUOTES):
        return "the quotes are typographic ones", 'Replace them by straight ones: ".'

    value = _read_python(text)
    if "trailing comma" in error:
        return error, "Remove the comma before the bracket."
    if isinstance(value, dict):
        argument = _format_argument(cast(dict[object, object], value))
        return "this is Python", f"As JSON it is: {argument}"
    if text.lstrip()[0] in "{[" and '"' not in text:
        return f"no quotes are left in it, {error}", f"Put single quotes around it: {_EXAMPLE}."
    if _YAML.match(text):
        return "this looks like YAML", f"The same as JSON is for example {_EXAMPLE}."

    return error, _GENERAL_HINT


def _read_python(text: str) -> object:
    """Return the value of a Python literal; None for any other text."""
    try:
        value: object = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None

    return value


def _format_argument(value: dict[object, object]) -> str:
    """Return a value as JSON for a shell, or an example if it is long or no JSON."""
    try:
        argument = shlex.quote(json.dumps(value))
    except (TypeError, ValueError):
        return _EXAMPLE

    return argument if len(argument) <= _MAX_SHOWN_CHARS else _EXAMPLE
