"""Edit TOML: put one table in or take it out, and touch nothing else.

A new table goes to the end of the file, so nothing that is there moves. Tables that stand in
another form, such as an inline one, are edited by tomlkit. Either way the result must mean what it
should, as Python's own parser reads it, or nothing is returned.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy

import tomlkit
from tomlkit.exceptions import TOMLKitError

from abilities.clients.faults import Unparsable, Unusable
from abilities.clients.values import as_list
from abilities.declarations.values import JsonObject, as_object

Path = Sequence[str]
"""The keys that lead to a table."""

_HEADER = re.compile(r"^[ \t]*\[[^\n]*$", re.MULTILINE)


def get(text: str, path: Path) -> object:
    """Return the value at a path, None if there is none. Raises Unparsable."""
    value: object = _load(text)

    for key in path:
        table = as_object(value)
        if table is None or key not in table:
            return None
        value = table[key]

    return value


def put(text: str, path: Path, value: JsonObject) -> str:
    """Return the text with a table at a path, instead of the one that is there, if any.

    Raises Unusable.
    """
    wanted = _load(text)
    if get(text, path) == value:
        return text

    _set(wanted, path, value)
    return _choose([wanted], _try_to_put(text, path, value))


def remove(text: str, path: Path, prune: int = 0) -> str:
    """Return the text without the table at a path, and without what `put` added beside it.

    Tables around it that become empty go too, up to ``prune`` of them. A path that leads nowhere
    changes nothing. Raises Unusable.
    """
    if get(text, path) is None:
        return text

    # A table around it may stand there only because of its name, and be gone with it.
    wanted = [_load(text), _load(text)]
    _delete(wanted[0], path, prune)
    _delete(wanted[1], path, len(path))

    return _choose(wanted, _try_to_remove(text, path, prune))


def _load(text: str) -> JsonObject:
    # tomllib wants its caller to take a mark of the encoding away.
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = re.search(r"\(at line (\d+), column \d+\)$", message)
        line = int(match[1]) if match else text.count("\n") + 1
        raise Unparsable(line, message.partition(" (at ")[0]) from None


def _try_to_put(text: str, path: Path, value: JsonObject) -> Iterator[str]:
    """Yield texts that may have a table at a path, the one that changes least first."""
    block = tomlkit.dumps(_nest(path, value)).replace("\n", _find_newline(text))
    span = _find_block(text, path)

    if span is None:
        yield _append_block(text, block)
    else:
        yield text[: span[0]] + block.rstrip("\r\n") + text[span[1] :]

    with suppress(TOMLKitError):
        document = tomlkit.parse(text)
        _set(document, path, value)
        yield tomlkit.dumps(document)

    with suppress(TOMLKitError, KeyError):
        yield _append_block(_remove_by_tomlkit(text, path, 0), block)


def _try_to_remove(text: str, path: Path, prune: int) -> Iterator[str]:
    """Yield texts that may lack the table at a path, the one that changes least first."""
    span = _find_block(text, path)

    if span is not None:
        yield _cut_block(text, *span)

    with suppress(TOMLKitError):
        yield _remove_by_tomlkit(text, path, prune)


def _choose(wanted: list[JsonObject], candidates: Iterator[str]) -> str:
    """Return the first text that means one of what is wanted. Raises Unusable."""
    for candidate in candidates:
        if any(_means(candidate, meaning) for meaning in wanted):
            return candidate

    raise Unusable("the file has a form that cannot be edited safely; edit it by hand")


def _means(text: str, wanted: JsonObject) -> bool:
    # As text, because a number that is not a number equals none, not even itself.
    try:
        return repr(_sort(_load(text))) == repr(_sort(wanted))
    except Unparsable:
        return False


def _sort(value: object) -> object:
    table = as_object(value)
    if table is not None:
        return {key: _sort(table[key]) for key in sorted(table)}

    elements = as_list(value)
    if elements:
        return [_sort(element) for element in elements]

    return value


def _append_block(text: str, block: str) -> str:
    newline = _find_newline(text)

    if not text:
        return block
    if text.endswith("\n"):
        return text + newline + block

    # A file without a line end at its end keeps that habit, so that nothing is left if this goes.
    return text + 2 * newline + block.rstrip("\r\n")


def _cut_block(text: str, begin: int, end: int) -> str:
    """Take out what `_append_block` added, or a block elsewhere with the line end after it."""
    rest = text[end:]
    newline = re.compile(r"\r?\n")

    if not rest:
        return re.sub(r"(\r?\n){1,2}\Z", "", text[:begin])

    ending = newline.match(rest)
    assert ending is not None, "a block ends where a line ends"
    rest = rest[ending.end() :]
    before = re.sub(r"(?:(?<=\n)|\A)\r?\n\Z", "", text[:begin])
    return before + rest


def _find_block(text: str, path: Path) -> tuple[int, int] | None:
    """Return where the tables at and beneath a path begin and end, if they are one block.

    The end is that of the last line that says something; comments after it belong to what follows.
    """
    headers = list(_list_headers(text))
    own = [n for n, (_, keys) in enumerate(headers) if keys[: len(path)] == list(path)]

    if not own or own != list(range(own[0], own[-1] + 1)):
        return None

    begin = headers[own[0]][0]
    following = own[-1] + 1
    limit = headers[following][0] if following < len(headers) else len(text)
    block = re.sub(r"(?:[ \t\r\n]|^[ \t]*#[^\n]*)*\Z", "", text[begin:limit], flags=re.MULTILINE)
    return begin, begin + len(block)


def _list_headers(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield where each header of a table begins, and its keys."""
    for match in _HEADER.finditer(text):
        # Within a string or an array a line may look like a header; then what is before it is no
        # whole document.
        try:
            tomllib.loads(text[: match.start()].removeprefix("\ufeff"))
            value: object = tomllib.loads(match[0].rstrip("\r"))
        except tomllib.TOMLDecodeError:
            continue

        yield match.start(), _list_keys(value)


def _list_keys(value: object) -> list[str]:
    """Return the keys that lead to the innermost table of a header alone."""
    keys: list[str] = []

    # The header of an array of tables is an array of one table.
    table = as_object(value)
    while table:
        ((key, value),) = table.items()
        keys.append(key)
        (value,) = as_list(value) or [value]
        table = as_object(value)

    return keys


def _find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _nest(path: Path, value: JsonObject) -> JsonObject:
    for key in reversed(path):
        value = {key: value}

    return value


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


def _remove_by_tomlkit(text: str, path: Path, prune: int) -> str:
    document = tomlkit.parse(text)
    _delete(document, path, prune)
    return tomlkit.dumps(document)
