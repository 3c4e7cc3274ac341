"""The registry: the abilities in a fixed order, and how to call them.

A built-in ability runs on the caller's event loop. An ability of a plugin or an application runs
on a loop of its package, where it cannot block other calls.
"""

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast, get_args

import orjson
from pydantic import BaseModel

from abilities.declarations.fields import OutputFormat
from abilities.declarations.refusals import FAULTS, Fault, Reason, Refused
from abilities.declarations.suggestions import suggest_ability
from abilities.declarations.values import JsonObject, as_object, json_bytes, json_size, text_size
from abilities.definition import Ability, Context, LazyAbility, validate_answer, validate_arguments
from abilities.errors import AbilityError
from abilities.helpers.reply.formats import Format, render
from abilities.helpers.threads.loops import IsolatedLoops

MAX_FAULT_BYTES = 16_000
"""A larger fault, for example one with long lists of choices, is answered without its details."""

_OTHER_FORMATS: tuple[Format, ...] = ("text", "toon")

_LEAST_STEP = 1_000
"""Minimum number of bytes by which an answer's room shrinks before it is rendered again."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The payload of a call, and its text in the ``format`` that it is sent in.

    If the call ``failed`` as a whole, the payload is ``{"error": fault}``.
    """

    payload: JsonObject
    text: str
    failed: bool
    format: Format = "json"


def build_failed_reply(fault: Fault) -> Reply:
    """Return the reply to a call that failed as a whole; its text is always JSON."""
    payload = {"error": fault.to_payload()}
    return Reply(payload, render(payload), failed=True)


async def run_ability(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run an ability; the reply is in the format that its arguments or the context name.

    An ability without an argument ``output_format`` answers in JSON. One that is not built in also
    does, unless TOON is requested. Raises AbilityError, and no other exception but one that ends a
    task or a process.
    """
    output_format = _choose_format(ability, arguments, context)
    context = replace(context, output_format=output_format)

    try:
        if output_format == "toon":
            return await _run_for_toon(ability, arguments, context)

        if output_format == "text":
            return await _run_for_text(ability, arguments, context)

        reply = await _run_for_json(ability, arguments, context)
        if output_format != "auto":
            return reply

        replies = [reply]
        for name in _OTHER_FORMATS:
            replies.append(replace(reply, text=render(reply.payload, name), format=name))

        # The first of the smallest, so JSON unless another format is smaller.
        return min(replies, key=lambda candidate: text_size(candidate.text))
    except AbilityError as error:
        if ability.is_built_in:
            raise
        raise AbilityError(_bound_fault(error.fault, ability.name)) from None
    except Exception as error:
        # The fault says nothing of the error itself, which could have paths or contents.
        fault = Fault.from_exception(error, ability.name)
        raise AbilityError(_bound_fault(fault, ability.name)) from None


def _choose_format(ability: Ability, arguments: object, context: Context) -> OutputFormat:
    if "output_format" not in ability.input.model_fields:
        return "json"

    # The arguments are not validated yet: whatever is wrong with them is answered as JSON.
    requested = (as_object(arguments) or {}).get("output_format")

    # Other packages' answers have no records, which the text format needs.
    if not ability.is_built_in:
        return "toon" if requested == "toon" else "json"

    if requested is None:
        return context.output_format
    if requested not in get_args(OutputFormat):
        return "json"

    return cast(OutputFormat, requested)


async def _run_for_text(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run a built-in ability, and return its answer with its text in the text format."""
    answer = await ability.run(context, validate_arguments(ability.input, arguments))
    payload = _to_payload(answer)
    text = render(payload, "text")

    # Contents are longer as JSON, so the bound holds for JSON only if that is sent too.
    _check_size(text_size(text), context)
    if context.structured:
        _check_size(json_size(payload), context)

    # An answer without contents is a single line of JSON.
    format_name: Format = "text" if "\n" in text else "json"
    return Reply(payload, text, failed=False, format=format_name)


async def _run_for_json(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run an ability, and return its answer with its text as JSON.

    For an ability that is not built in, it raises TypeError or ValueError if the answer is not of
    its declared model, and ValueError for NaN and infinities.
    """
    answer = await ability.run(context, validate_arguments(ability.input, arguments))
    if not ability.is_built_in and not isinstance(answer, ability.answer):
        fields = as_object(answer)
        if fields is None:
            raise TypeError(f"the answer is neither a {ability.answer.__name__} nor a dict")
        validate_answer(ability.answer, fields)

    payload = _to_payload(answer)
    encoded = json_bytes(payload)  # needed in any case, to measure the answer
    _check_size(len(encoded), context)

    if not ability.is_built_in:
        # NaN and infinities are encoded as null.
        if b"null" in encoded:
            values = answer
            if isinstance(answer, BaseModel):
                values = answer.model_dump()
            json.dumps(values, allow_nan=False, default=str, skipkeys=True)

        # Python gets exactly the values of other surfaces: lists for tuples, strings for dates.
        payload = orjson.loads(encoded)

    return Reply(payload, encoded.decode(), failed=False)


async def _run_for_toon(ability: Ability, arguments: object, context: Context) -> Reply:
    """Run an ability until its answer as TOON fits into the bound.

    An ability bounds its answer as JSON, and sometimes TOON is longer than that. Then the ability
    runs again with less room, in proportion to the excess. An ability that changes something must
    not run twice, so its answer is sent as JSON.
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

        # The minimum step guarantees an end: with too little room, the ability itself is refused.
        room = min(room * limit // size, room - _LEAST_STEP)


def _check_size(size: int, context: Context) -> None:
    if size > context.max_response_bytes:
        raise Refused("response_too_large")


def _to_payload(answer: BaseModel | JsonObject) -> JsonObject:
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json", exclude_none=True)

    return answer


def _bound_fault(fault: Fault, name: str) -> Fault:
    """Return a fault that can be sent: a known one, representable as JSON, and not too large."""
    reason = cast(Reason, fault.reason)
    if reason not in FAULTS or FAULTS[reason].code != fault.code:
        return Fault.from_exception(ValueError("it raised a fault that is not in FAULTS"), name)

    try:
        is_small = json_size(fault.to_payload()) <= MAX_FAULT_BYTES
    except TypeError:  # a plugin may put any object into ``expected``
        is_small = False

    if is_small:
        return fault

    return Fault.from_reason(reason)


class AbilityRegistry:
    """Abilities by name, iterated in the order in which they were added.

    >>> registry = AbilityRegistry()
    >>> len(registry), "file_read_bulk" in registry
    (0, False)
    """

    def __init__(
        self,
        abilities: Iterable[Ability | LazyAbility] = (),
        *,
        read_only: bool = False,
        loops: IsolatedLoops | None = None,
    ) -> None:
        self._abilities: dict[str, Ability | LazyAbility] = {}
        self._described: dict[str, Ability] = {}
        self._loops = loops or IsolatedLoops()
        self._sealed = False
        for ability in abilities:
            self.add(ability)

        # Sealed last, because a view is filled like any other registry.
        self._sealed = read_only

    def add(self, ability: Ability | LazyAbility) -> None:
        """Add an ability; a lazy one is loaded when it is first needed.

        Raises ValueError if its name is taken, and TypeError if this registry is a read-only view.
        """
        if self._sealed:
            raise TypeError("this view of a registry is read-only")

        if ability.name in self._abilities:
            raise ValueError(f"there is already an ability named {ability.name}")

        self._abilities[ability.name] = ability
        self._described.clear()  # a description may name the new one

    def get(self, name: str) -> Ability | None:
        """Return the ability of a name, or None.

        Its description mentions only other abilities of this registry.
        """
        if name in self._described:
            return self._described[name]

        ability = self._abilities.get(name)
        if isinstance(ability, LazyAbility):
            ability = ability.load()
            self._abilities[name] = ability
        if ability is None:
            return None

        self._described[name] = ability.describe_beside(self._abilities)
        return self._described[name]

    @property
    def names(self) -> list[str]:
        """The names of the abilities, in order. Reading them loads no ability."""
        return list(self._abilities)

    def only(self, *names: str, read_only: bool = False) -> "AbilityRegistry":
        """Return a read-only view of the named abilities, or of all if no name is given.

        With ``read_only`` the view leaves out abilities that change something. Raises KeyError for
        a name that is not in the registry.
        """
        for name in names:
            if name not in self._abilities:
                raise KeyError(f"{name}: {self.explain_unknown(name).message}")

        view = self.select(names or self._abilities)
        if not read_only:
            return view

        return view.select([ability.name for ability in view if ability.read_only])

    def select(self, names: Container[str]) -> "AbilityRegistry":
        """Return a read-only view of the abilities with these names; unknown names are ignored."""
        chosen = [ability for name, ability in self._abilities.items() if name in names]
        return AbilityRegistry(chosen, read_only=True, loops=self._loops)

    async def close(self) -> None:
        """End the threads of abilities that are not built in, and cancel the calls on them.

        An open application does this for its own registry. Elsewhere it may be omitted: the
        threads do not keep the process from exiting.
        """
        await self._loops.close()

    def explain_unknown(self, name: str) -> Refused:
        """Return the refusal of an unknown name, with the name that was probably meant."""
        suggestion = suggest_ability(name, self._abilities)
        expected = None
        if suggestion is None:
            expected = {"one_of": list(self._abilities)}

        return Refused("unknown_ability", expected=expected, did_you_mean=suggestion)

    async def call(self, name: str, arguments: object, context: Context) -> JsonObject:
        """Call an ability and return its answer as a dict that JSON can represent.

        If the arguments request a format, the text by `render` in that format is within the bound.
        Raises AbilityError, and no other exception but a cancellation.
        """
        reply = await self._run(name, arguments, context)
        return reply.payload

    async def reply(self, name: str, arguments: object, context: Context) -> Reply:
        """Call an ability for a surface.

        The reply is in the format that the arguments or the context name. If the call fails as a
        whole, the reply has the fault, as JSON.
        """
        try:
            return await self._run(name, arguments, context)
        except AbilityError as error:
            return build_failed_reply(error.fault)

    async def _run(self, name: str, arguments: object, context: Context) -> Reply:
        ability = self.get(name)
        if ability is None:
            raise AbilityError(Fault.from_refusal(self.explain_unknown(name)))

        if context.read_only and not ability.read_only:
            raise AbilityError(Fault.from_reason("scope"))

        if ability.is_built_in:
            return await run_ability(ability, arguments, context)

        run = partial(run_ability, ability, arguments, context)
        try:
            return await self._loops.run(ability.package, run)
        except AbilityError:
            raise
        except Exception as error:  # an exit, or the refusal of the loops
            raise AbilityError(Fault.from_exception(error, name)) from None

    def __iter__(self) -> Iterator[Ability]:
        for name in self.names:
            ability = self.get(name)
            assert ability is not None  # nothing is ever taken out
            yield ability

    def __len__(self) -> int:
        return len(self._abilities)

    def __contains__(self, name: object) -> bool:
        return name in self._abilities

    def __repr__(self) -> str:
        return f"<AbilityRegistry: {', '.join(self._abilities) or 'empty'}>"
