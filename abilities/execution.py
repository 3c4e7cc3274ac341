"""Running one ability: its arguments are validated, its answer is checked and held to its bound.

The answer of a built-in ability is known to be what it should be. That of any other may be anything
at all, and becomes what every surface can send, or a fault.
"""

import json
from dataclasses import replace
from typing import cast, get_args

import orjson
from pydantic import BaseModel

from abilities.declarations.faults import Fault, Refused
from abilities.declarations.fields import OutputFormat
from abilities.declarations.reasons import FAULTS, Reason
from abilities.declarations.values import JsonObject, as_object
from abilities.definition import Ability, Context
from abilities.errors import AbilityError
from abilities.helpers.reply.encoding import json_bytes, json_size, text_size
from abilities.helpers.reply.render import Format, render
from abilities.replies import Reply
from abilities.validation import validate_answer, validate_arguments

MAX_FAULT_BYTES = 16_000
"""A larger fault, such as one with long lists of choices, is answered without its details."""

_LEAST_STEP = 1_000
"""Bytes by which an answer's room shrinks at least before it is rendered again."""


async def run_ability(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run an ability; the reply is in the format that its arguments or the context name.

    An ability that takes no ``output_format`` answers in JSON; one that is not built in does unless
    TOON is asked for. Raises AbilityError, and nothing else but what ends a task or a process.
    """
    output_format = _find_format(ability, arguments, context)
    context = replace(context, output_format=output_format)

    try:
        if output_format == "toon":
            return await _run_for_toon(ability, arguments, context)

        if output_format == "text":
            return await _run_for_text(ability, arguments, context)

        reply = await _run_for_json(ability, arguments, context)
        if output_format == "auto":
            return _choose_smallest(reply)

        return reply
    except AbilityError as error:
        if ability.is_built_in:
            raise
        raise AbilityError(_bound_fault(error.fault, ability.name)) from None
    except Exception as error:
        # The fault says nothing of the error itself, which could hold paths or contents.
        fault = Fault.from_exception(error, ability.name)
        raise AbilityError(_bound_fault(fault, ability.name)) from None


def _find_format(ability: Ability, arguments: object, context: Context) -> OutputFormat:
    """Return the format to answer in."""
    if "output_format" not in ability.input.model_fields:
        return "json"

    # Read before the arguments are validated: whatever is wrong with them is answered as JSON.
    asked = (as_object(arguments) or {}).get("output_format")

    # The answers of others have no records that text could tell apart.
    if not ability.is_built_in:
        return "toon" if asked == "toon" else "json"

    if asked is None:
        return context.output_format

    return cast(OutputFormat, asked) if asked in get_args(OutputFormat) else "json"


async def _run_for_json(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run an ability, and return its answer with its text as JSON.

    The JSON has to be made anyway, to hold the answer against its bound.
    """
    answer = await ability.run(context, validate_arguments(ability.input, arguments))
    if not ability.is_built_in:
        _check_type(ability, answer)

    payload = _to_payload(answer)
    encoded = json_bytes(payload)
    _check_size(len(encoded), context)

    if not ability.is_built_in:
        _check_numbers(answer, encoded)
        # Python gets exactly what the other surfaces send: lists for tuples, strings for dates.
        payload = orjson.loads(encoded)

    return Reply(payload, encoded.decode(), failed=False)


async def _run_for_text(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run a built-in ability, and return its answer with its text in the text format.

    Contents are longer as JSON, so that the answer keeps its bound as JSON only if that is sent.
    """
    answer = await ability.run(context, validate_arguments(ability.input, arguments))
    payload = _to_payload(answer)
    text = render(payload, "text")

    _check_size(text_size(text), context)
    if context.structured:
        _check_size(json_size(payload), context)

    return Reply(payload, text, failed=False, format=_name_text(text))


def _name_text(text: str) -> Format:
    """Return the format of a text: one without contents, a single line, is JSON."""
    return "text" if "\n" in text else "json"


def _check_size(size: int, context: Context) -> None:
    if size > context.max_response_bytes:
        raise Refused("response_too_large")


def _to_payload(answer: BaseModel | JsonObject) -> JsonObject:
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json", exclude_none=True)

    return answer


def _choose_smallest(reply: Reply) -> Reply:
    """Return a reply in the format in which it takes the fewest bytes; JSON if that is no more."""
    smallest = reply
    smallest_size = text_size(reply.text)

    formats: tuple[Format, ...] = ("text", "toon")
    for name in formats:
        text = render(reply.payload, name)
        size = text_size(text)
        if size < smallest_size:
            smallest_size = size
            smallest = replace(reply, text=text, format=name)

    return smallest


async def _run_for_toon(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run an ability until its answer as TOON fits into the bound.

    An answer keeps its bound as JSON, and now and then TOON is longer than that. Then the ability
    runs again with as much less room as the TOON was too long. One that changes something must not
    run twice, and its answer is sent as JSON.
    """
    limit = room = context.max_response_bytes

    while True:
        reply = await _run_for_json(ability, arguments, replace(context, max_response_bytes=room))
        text = render(reply.payload, "toon")
        size = text_size(text)
        if size <= limit:
            return replace(reply, text=text, format="toon")

        if not ability.read_only:
            return reply

        # The step guarantees an end: with too little room the ability itself is refused.
        room = min(room * limit // size, room - _LEAST_STEP)


def _check_type(ability: Ability, answer: object) -> None:
    """Raise TypeError or ValueError for an answer that is not of its declared model."""
    if isinstance(answer, ability.answer):
        return

    if not isinstance(answer, dict):
        raise TypeError(f"the answer is neither a {ability.answer.__name__} nor a dict")

    validate_answer(ability.answer, answer)


def _check_numbers(answer: BaseModel | JsonObject, encoded: bytes) -> None:
    """Raise ValueError for NaN and infinities, which are encoded as null."""
    if b"null" not in encoded:
        return

    values = answer
    if isinstance(answer, BaseModel):
        values = answer.model_dump()
    json.dumps(values, allow_nan=False, default=str, skipkeys=True)


def _bound_fault(fault: Fault, name: str) -> Fault:
    """Return a fault that can be sent: of the closed set, JSON, and not too large."""
    reason = cast(Reason, fault.reason)
    if reason not in FAULTS or FAULTS[reason].code != fault.code:
        return Fault.from_exception(ValueError("it raised a fault that is not in FAULTS"), name)

    try:
        is_small = json_size(fault.to_payload()) <= MAX_FAULT_BYTES
    except TypeError:  # what a plugin says is expected
        is_small = False

    if is_small:
        return fault

    return Fault.from_reason(reason)
