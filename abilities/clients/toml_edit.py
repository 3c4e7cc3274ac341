"""Editing TOML: one table is added or removed, and nothing else in the text changes.

A new table is added at the end of the file, so that nothing moves. Several ways of editing, by
patterns and by tomlkit, are tried. A result is used only if Python's own parser reads exactly the
expected data in it.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from abilities.clients.entry import Unparsable, Unusable
from abilities.declarations.values import JsonObject, as_object

Path = Sequence[str]
"""The keys that lead to a table."""


def get(text: str, path: Path) -> object:
    """Return the value at a path, or None if there is none. Raises Unparsable."""
    value: object = _load(text)

    for key in path:
        table = as_object(value)
        if table is None or key not in table:
            return None
        value = table[key]

    return value


def put(text: str, path: Path, value: JsonObject) -> str:
    """Return the text with a table at a path, in place of any present one. Raises Unusable."""
    wanted = _load(text)
    present = get(text, path)
    if present == value:
        return text

    _set(wanted, path, value)
    return _choose([wanted], _try_to_put(text, path, present, value))


def remove(text: str, path: Path, prune: int = 0) -> str:
    """Return the text without the table at a path, and without the space that `put` added.

    Up to ``prune`` tables around it that become empty are removed too. If there is nothing at the
    path, the text is unchanged. Raises Unusable.
    """
    present = get(text, path)
    if present is None:
        return text

    # A table around it may exist only because of its name, and then vanishes with it.
    wanted = [_load(text), _load(text)]
    _delete(wanted[0], path, prune)
    _delete(wanted[1], path, len(path))

    return _choose(wanted, _try_to_remove(text, path, present, prune))


def _load(text: str) -> JsonObject:
    # tomllib does not accept a byte order mark.
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = re.search(r"\(at line (\d+), column \d+\)$", message)
        line = int(match[1]) if match else text.count("\n") + 1
        raise Unparsable(line, message.partition(" (at ")[0]) from None


def _try_to_put(text: str, path: Path, present: object, value: JsonObject) -> Iterator[str]:
    """Yield texts that may have a table at a path, the one with the fewest changes first."""
    block = _find_newline(text).join(_list_lines(path, value))

    if present is None:
        yield _append(text, block)
    else:
        yield re.sub(_match(path, present), lambda _: block, text)

    with suppress(TOMLKitError):
        document = tomlkit.parse(text)
        _set(document, path, value)
        yield tomlkit.dumps(document)

    with suppress(TOMLKitError, KeyError):
        yield _append(_remove(text, path, 0), block)


def _try_to_remove(text: str, path: Path, present: object, prune: int) -> Iterator[str]:
    """Yield texts that may lack the table at a path, the one with the fewest changes first."""
    block = _match(path, present)
    end = r"(?:\r?\n)"

    # The reverse of `_append`: at the end of a file, which had a line end at its end or not, or
    # before text that others have appended since.
    yield re.sub(rf"(?:(?<=\n){end}{block}{end}|{end}{{2}}{block}|\A{block}{end})\Z", "", text)
    yield re.sub(rf"(?:(?<=\n){end})?^{block}{end}", "", text, flags=re.MULTILINE)

    with suppress(TOMLKitError):
        yield _remove(text, path, prune)


def _choose(wanted: list[JsonObject], candidates: Iterator[str]) -> str:
    """Return the first text that is read as one of the wanted documents. Raises Unusable."""
    # Compared as strings, because NaN does not equal itself.
    meanings = {_describe(document) for document in wanted}

    for candidate in candidates:
        with suppress(Unparsable):
            if _describe(_load(candidate)) in meanings:
                return candidate

    raise Unusable("the file has a form that cannot be edited safely; edit it by hand")


def _describe(value: object) -> str:
    """Return a string that is the same for all values with the same meaning."""
    fields = as_object(value)
    if fields is not None:
        return repr({key: _describe(fields[key]) for key in sorted(fields)})
    if isinstance(value, list):
        return repr([*map(_describe, cast(list[object], value))])

    return repr(value)


def _match(path: Path, value: object) -> str:
    """Return a pattern for a table as `put` writes it."""
    return r"\r?\n".join(map(re.escape, _list_lines(path, value)))


def _list_lines(path: Path, value: object) -> list[str]:
    for key in reversed(path):
        value = {key: value}

    document: Any = value
    return tomlkit.dumps(document).rstrip().split("\n")


def _append(text: str, block: str) -> str:
    newline = _find_newline(text)

    # A file without a line end at its end stays so, so that `remove` can restore it exactly.
    if text and not text.endswith("\n"):
        return text + 2 * newline + block
    return (text and text + newline) + block + newline


def _find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _set(document: JsonObject, path: Path, value: JsonObject) -> None:
    for key in path[:-1]:
        table = as_object(document.setdefault(key, {}))
        if table is None:
            raise Unusable(f"{key} must be a table")
        document = table

    document[path[-1]] = deepcopy(value)


def _delete(document: JsonObject, path: Path, prune: int) -> None:
    parents = [document]
    for key in path[:-1]:
        parents.append(parents[-1][key])

    del parents[-1][path[-1]]
    for depth in range(len(path) - 1, 0, -1):
        if prune and not parents[depth]:
            del parents[depth - 1][path[depth - 1]]
            prune -= 1


def _remove(text: str, path: Path, prune: int) -> str:
    document = tomlkit.parse(text)
    _delete(document, path, prune)
    return tomlkit.dumps(document)
