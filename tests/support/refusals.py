"""What every refusal must say."""

from typing import Any

from abilities.declarations.refusals import FAULTS, SHOWN_REASONS, Fault
from tests.support.file_cases import Row, Wrong

RULED = {
    "missing_argument",
    "wrong_type",
    "out_of_range",
    "too_long",
    "too_short",
    "too_many",
    "too_few",
    "not_one_of",
    "invalid_format",
}
"""Reasons that always come with the rule that was broken."""


def check_refusal(row: Row, payload: dict[str, Any]) -> None:
    """Check that a call was refused as its row says, with a rule if its reason has one."""
    assert row.call is not None
    reason, field = row.call
    (error,) = payload.values()
    fault = Fault.model_validate(error)

    assert fault.reason == SHOWN_REASONS.get(reason, reason)
    assert fault.code == FAULTS[reason].code
    assert fault.field == field
    assert (fault.retryable, fault.ref, fault.fields) == (False, None, None)

    assert (fault.expected is not None) or (reason not in RULED)
    if row.expected is not None:
        assert fault.expected == row.expected

    check_sentence(fault, row)


def check_sentence(fault: Fault, row: Row) -> None:
    """Check that the message is a sentence of the rule, and holds no value that was sent."""
    assert len(fault.message) <= 120
    assert fault.message.endswith((".", "?"))
    if fault.reason in RULED:
        assert fault.field is None or fault.message.startswith(f"{fault.field} ")
    if fault.reason == "unknown_argument" and fault.field is not None:
        assert f"'{fault.field}'" not in fault.message
    for value in row.arguments.values():
        is_telling = isinstance(value, str) and len(value) > 5
        assert not (is_telling and str(value) in fault.message)


def check_wrong_item(error: dict[str, Any], wrong: Wrong) -> None:
    fault = Fault.model_validate(error)
    assert (fault.reason, fault.field) == (wrong.reason, wrong.field)
    assert (fault.expected, fault.did_you_mean) == (wrong.expected, wrong.did_you_mean)
    assert fault.code == "INVALID_INPUT"
