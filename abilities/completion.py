"""Completion: what a client may suggest while a person types an argument.

Memories' keys are completed by their beginnings; everything else has no suggestions. Paths would
have, but no argument of a prompt or of a resource takes one.
"""

import asyncio
from functools import partial
from typing import Literal, NamedTuple

from abilities.application import Abilities
from abilities.declarations.faults import Fault, Refused
from abilities.declarations.limits import MAX_KEY_CHARS
from abilities.declarations.suggestions import suggest_value
from abilities.declarations.values import JsonObject, has_control_character, has_surrogate
from abilities.helpers.reply.render import json_size
from abilities.helpers.stores.query import MemoryLine
from abilities.prompts import find_prompt, list_offered
from abilities.replies import Reply, build_failed_reply

COMPLETION = "completion"
"""What the log and the metrics call it."""

MAX_VALUES = 100
"""Values of one completion; the protocol allows no more."""

_SECONDS = 5.0

_KEY_ARGUMENTS = {"resource": "key", "prompt": "subject"}
"""The arguments that may be memories' keys."""

_KEY_READERS = frozenset({"memory_list", "query_memories", "read", "recall"})
"""The abilities by which a caller can find out keys."""


class Asked(NamedTuple):
    """What to complete: an argument of a prompt, or of a resource by its template."""

    kind: Literal["prompt", "resource"]
    name: str
    argument: str
    value: str


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
    is_key = asked.argument == _KEY_ARGUMENTS[asked.kind]
    if not is_key or _KEY_READERS.isdisjoint(list_offered(abilities)):
        return _build_payload([], has_more=False)

    # No key holds such characters, and not every store could compare them.
    prefix = asked.value
    if len(prefix) > MAX_KEY_CHARS or has_surrogate(prefix) or has_control_character(prefix):
        return _build_payload([], has_more=False)

    # One more than is shown tells whether more follow.
    versions = abilities.context.memory.versions
    lines = await versions.list_memories(prefix, "", MAX_VALUES + 1, archived=False)

    keys: list[str] = []
    room = abilities.settings.max_response_bytes
    for line in lines[:MAX_VALUES]:
        room -= json_size(line.key) + 1
        if room < 0:
            break
        if isinstance(line, MemoryLine):  # others are damaged and cannot be read
            keys.append(line.key)

    return _build_payload(keys, has_more=room < 0 or len(lines) > MAX_VALUES)


def _build_payload(values: list[str], *, has_more: bool) -> JsonObject:
    payload: JsonObject = {"values": values, "hasMore": has_more}
    if not has_more:
        payload["total"] = len(values)

    return payload
