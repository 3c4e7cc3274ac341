"""Completion: what a client may suggest while a person types an argument.

Memories' keys and the paths of files are completed by their beginnings; everything else has no
suggestions.
"""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Literal, NamedTuple

from abilities.application import Abilities
from abilities.declarations.faults import Fault, Refused
from abilities.declarations.limits import MAX_KEY_CHARS
from abilities.declarations.suggestions import suggest_value
from abilities.declarations.values import (
    JsonObject,
    has_control_character,
    has_surrogate,
    json_size,
)
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.lister import ListingRequest
from abilities.helpers.store.query import MemoryLine
from abilities.prompts import find_prompt, list_offered
from abilities.registry import Reply, build_failed_reply

COMPLETION = "completion"
"""What the log and the metrics call it."""

MAX_VALUES = 100
"""Values of one completion; the protocol allows no more."""

_SECONDS = 5.0

_KEY_ARGUMENTS = {("resource", "key"), ("prompt", "subject")}
"""The arguments that may be memories' keys."""

_KEY_READERS = frozenset({"memory_list", "query_memories", "read", "recall"})
"""The abilities by which a caller can find out keys."""

_PATH_ARGUMENTS = {("prompt", "path")}
"""The arguments that are paths of files."""

_PATH_READERS = frozenset({"file_list", "read"})
"""The abilities by which a caller can find out paths."""


class Asked(NamedTuple):
    """What to complete: an argument of a prompt, or of a resource by its template."""

    kind: Literal["prompt", "resource"]
    name: str
    argument: str
    value: str


class _Found(NamedTuple):
    """Values, perhaps more than can be shown, and whether there are others."""

    values: list[str]
    has_more: bool


async def complete(abilities: Abilities, asked: Asked) -> Reply:
    """Return the values that begin as the one given, in the shape that MCP has for them.

    ``total`` is left out if it is not known. The reply has failed for a prompt, a resource or an
    argument that is not offered, and if the store does not answer.
    """
    return await abilities.observe(COMPLETION, partial(_complete, abilities, asked))


async def _complete(abilities: Abilities, asked: Asked) -> Reply:
    try:
        _check(abilities, asked)
        async with asyncio.timeout(_SECONDS):
            payload = await _list_values(abilities, asked)
    except TimeoutError:
        return build_failed_reply(Fault.from_reason("timeout"))
    except Exception as error:
        return build_failed_reply(Fault.from_exception(error, COMPLETION))

    return Reply(payload, "", failed=False)


def _check(abilities: Abilities, asked: Asked) -> None:
    """Raise Refused for an argument that is not offered."""
    if asked.kind == "prompt":
        arguments = list(find_prompt(abilities, asked.name).input.model_fields)
    else:
        arguments = [_find_placeholder(abilities, asked.name)]

    if asked.argument not in arguments:
        raise Refused(
            "unknown_argument",
            "argument.name",
            expected={"one_of": arguments},
            did_you_mean=suggest_value(asked.argument, arguments),
        )


def _find_placeholder(abilities: Abilities, template: str) -> str:
    """Return the argument in a template that is offered. Raises Refused."""
    offered = [ability.resource for ability in abilities.offered if ability.resource is not None]
    if template not in offered:
        raise Refused("not_one_of", "ref.uri", expected={"one_of": offered})

    return template.partition("{")[2].removesuffix("}")


async def _list_values(abilities: Abilities, asked: Asked) -> JsonObject:
    argument = (asked.kind, asked.argument)
    offered = list_offered(abilities)
    found = _Found([], has_more=False)

    if argument in _KEY_ARGUMENTS and _may_find_keys(abilities, offered):
        found = await _find_keys(abilities, asked.value)
    elif argument in _PATH_ARGUMENTS and _may_find_paths(abilities, offered):
        found = await _find_paths(abilities, asked.value)

    values: list[str] = []
    room = abilities.settings.max_response_bytes
    for value in found.values[:MAX_VALUES]:
        room -= json_size(value) + 1
        if room < 0:
            break
        values.append(value)

    has_more = found.has_more or len(values) < len(found.values)
    payload: JsonObject = {"values": values, "hasMore": has_more}
    if not has_more:
        payload["total"] = len(values)

    return payload


async def _find_keys(abilities: Abilities, prefix: str) -> _Found:
    # No key holds such characters, and not every store could compare them.
    if len(prefix) > MAX_KEY_CHARS or has_surrogate(prefix) or has_control_character(prefix):
        return _Found([], has_more=False)

    # One more than is shown tells whether more follow.
    versions = abilities.context.memory.versions
    lines = await versions.list_memories(prefix, "", MAX_VALUES + 1, archived=False)

    # Others are damaged and cannot be read.
    keys = [line.key for line in lines if isinstance(line, MemoryLine)]
    return _Found(keys, has_more=len(lines) > MAX_VALUES)


def _may_find_keys(abilities: Abilities, offered: Collection[str]) -> bool:
    """Return whether a caller may list keys: `recall` finds some, but no list of them."""
    disabled = abilities.context.disabled
    return "memory_list" not in disabled and not _KEY_READERS.isdisjoint(offered)


def _may_find_paths(abilities: Abilities, offered: Collection[str]) -> bool:
    """Return whether a caller may; if listing is disabled, `read` takes no patterns either."""
    return "file_list" not in abilities.context.disabled and not _PATH_READERS.isdisjoint(offered)


async def _find_paths(abilities: Abilities, prefix: str) -> _Found:
    try:
        glob = Glob.of_beginning(prefix)
    except Refused:  # no path begins so
        return _Found([], has_more=False)

    listing = await abilities.context.lister.list_files(ListingRequest(glob, "", MAX_VALUES))

    # Both roots may have a file of a name, and the agent's is the one that is read.
    paths = dict.fromkeys(file.path for file in listing.files)
    return _Found(list(paths), has_more=listing.after is not None)
