"""Refusals, and the faults that callers see of them."""

import logging
import secrets
from collections.abc import Sequence
from typing import Any, Self, cast

from pydantic import Field

from abilities.declarations.mistakes import Mistake, describe_mistake
from abilities.declarations.model import Model
from abilities.declarations.reasons import FAULTS, SHOWN_REASONS, Code, Reason
from abilities.declarations.values import JsonObject

_log = logging.getLogger("abilities")


class AbilitiesError(Exception):
    """The root of every exception that this package raises; `abilities.errors` draws the tree."""


class Refused(AbilitiesError):
    """What was requested cannot be served.

    ``reason`` is a key of `FAULTS`. If an argument is at fault, ``field`` names it, ``expected`` is
    the rule that it breaks (see `rules`), and ``did_you_mean`` the name or value to send instead;
    if several are, ``fields`` lists them all. None of this may hold what a caller sent, except that
    ``field`` may be the plain name of an unknown argument.
    """

    def __init__(
        self,
        reason: Reason,
        field: str | None = None,
        *,
        expected: JsonObject | None = None,
        did_you_mean: str | None = None,
        fields: Sequence[Mistake] = (),
    ) -> None:
        # A plugin may run without a type checker; a made-up reason must not reach a caller.
        # Plugins raise this too, and not all of them are type-checked.
        if reason not in FAULTS:
            raise ValueError(f"{reason!r} is not a reason in FAULTS")

        super().__init__(reason)
        self.reason: Reason = reason
        self.field = field
        self.expected = expected
        self.did_you_mean = did_you_mean
        self.fields = fields

    @classmethod
    def from_mistakes(cls, mistakes: Sequence[Mistake]) -> "Refused":
        """Return the refusal of wrong arguments, of which the first names the reason."""
        first = mistakes[0]
        several = mistakes if len(mistakes) > 1 else ()

        return Refused(
            cast(Reason, first.reason),
            first.field,
            expected=first.expected,
            did_you_mean=first.did_you_mean,
            fields=several,
        )

    @property
    def message(self) -> str:
        """The sentence that callers see: that of the broken rule if it is known."""
        general = FAULTS[self.reason].message
        # Most refusals are about things that are not there, and have no rule.
        if self.field is None and self.expected is None and self.did_you_mean is None:
            return general

        mistake = Mistake(
            field=self.field,
            reason=self.reason,
            expected=self.expected,
            did_you_mean=self.did_you_mean,
        )
        return describe_mistake(mistake) or general


class Fault(Model):
    """Why something could not be answered."""

    code: Code = Field(description="The kind of failure, one of seven.")
    reason: str = Field(description="The exact cause, from a closed set.")
    message: str = Field(description="One sentence that says the rule.")
    retryable: bool = Field(
        default=False,
        description="True if the same request may succeed later; default false.",
    )
    field: str | None = Field(
        default=None,
        description="The argument at fault, if one is, such as depth or links[2].link_weight.",
    )
    expected: JsonObject | None = Field(
        default=None,
        description=(
            'The rule for that argument, such as {"minimum": 1, "maximum": 6}, '
            '{"one_of": […]}, {"max_items": 25} or {"type": "integer"}.'
        ),
    )
    did_you_mean: str | None = Field(
        default=None,
        description="What to send instead, if something is alike; data, as all names are.",
    )
    fields: list[Mistake] | None = Field(
        default=None,
        description="All wrong arguments, 10 at most, if several are; the first is this one.",
    )
    size_bytes: int | None = Field(
        default=None,
        description="For response_budget: the size in bytes of the file or memory left out.",
    )
    ref: str | None = Field(
        default=None,
        description="For an internal error: the reference under which the log has the details.",
    )

    @classmethod
    def from_reason(
        cls,
        reason: Reason,
        *,
        field: str | None = None,
        ref: str | None = None,
        size_bytes: int | None = None,
    ) -> Self:
        """Return the fault of a reason."""
        return cls._build(Refused(reason, field), ref, size_bytes)

    @classmethod
    def from_refusal(cls, refusal: Refused) -> Self:
        """Return what a caller learns of a refusal."""
        return cls._build(refusal, None)

    @classmethod
    def _build(cls, refusal: Refused, ref: str | None, size_bytes: int | None = None) -> Self:
        meaning = FAULTS[refusal.reason]

        return cls(
            code=meaning.code,
            reason=SHOWN_REASONS.get(refusal.reason, refusal.reason),
            message=refusal.message,
            retryable=meaning.retryable,
            field=refusal.field,
            expected=refusal.expected,
            did_you_mean=refusal.did_you_mean,
            fields=list(refusal.fields) or None,
            size_bytes=size_bytes,
            ref=ref,
        )

    @classmethod
    def from_exception(cls, error: Exception, ability: str = "a call") -> Self:
        """Return what a caller may learn of an exception.

        An unexpected one becomes INTERNAL_ERROR with a reference, under which it is logged with the
        name of the ability.
        """
        if isinstance(error, Refused):
            return cls.from_refusal(error)

        # Not a bug, and logging it with its traceback could need memory that is not there.
        if isinstance(error, MemoryError):
            return cls.from_reason("resource_exhausted")

        # Operators find the details in the log by this reference; callers must not see them.
        ref = secrets.token_hex(6)
        _log.error("unexpected error in %s, ref %s", ability, ref, exc_info=error)
        return cls.from_reason("internal", ref=ref)

    def to_payload(self) -> dict[str, Any]:
        """Return the fault as it stands in JSON: fields at their default are left out."""
        return self.model_dump(exclude_defaults=True)
