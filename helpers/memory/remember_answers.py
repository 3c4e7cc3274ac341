"""The answer of `remember`: one short record per operation, in the order of the operations."""

from collections.abc import Sequence
from typing import Literal

from abilities.declarations.faults import Fault, Refused
from abilities.declarations.remember import RememberInput
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.writer import Outcome, Write
from abilities.helpers.reply.budget import Bound
from abilities.helpers.store.protocol import WriteResult

_RESERVED_BYTES = 512
"""Kept free for the other formats, which may be a little longer than JSON."""

_RULE_FIELDS = ("field", "expected", "did_you_mean")

Shortening = Literal["none", "rules", "keys"]
"""What records leave out so that an answer fits: nothing, the rules of faults, also the keys."""


def build_remember_answer(
    arguments: RememberInput,
    operations: Sequence[Write | Refused],
    outcomes: Sequence[Outcome],
    bound: Bound,
) -> JsonObject:
    """Return the answer; what was made is always told, if need be with shorter records."""
    faults = [
        Fault.from_exception(outcome, "remember") if isinstance(outcome, Exception) else None
        for outcome in outcomes
    ]

    steps: tuple[Shortening, ...] = ("none", "rules", "keys")
    answer: JsonObject = {}
    for shortening in steps:
        answer = _build(arguments, operations, outcomes, faults, shortening)
        if json_size(answer) + _RESERVED_BYTES <= bound.max_bytes:
            break

    return answer


def _build(
    arguments: RememberInput,
    operations: Sequence[Write | Refused],
    outcomes: Sequence[Outcome],
    faults: Sequence[Fault | None],
    shortening: Shortening,
) -> JsonObject:
    records: list[JsonObject] = []
    is_full = arguments.detail == "full"

    for index, (operation, outcome, fault) in enumerate(
        zip(operations, outcomes, faults, strict=True)
    ):
        if isinstance(outcome, WriteResult):
            data = _describe(operation, outcome, is_full=is_full, with_key=shortening != "keys")
            shown = {"success": True, "data": data} if is_full else data
        else:
            assert fault is not None
            error = _shorten(fault.to_payload(), shortening)
            shown = {"success": False, "error": error} if is_full else _flatten(error)
        records.append({"input": index, **shown})

    failed = sum(fault is not None for fault in faults)
    return {
        "results": records,
        "summary": {
            "requested": len(records),
            "succeeded": len(records) - failed,
            "failed": failed,
            "truncated": 0,
            "returned_chars": 0,
        },
    }


def _describe(
    operation: Write | Refused, result: WriteResult, *, is_full: bool, with_key: bool
) -> JsonObject:
    """Return what an operation did, without what is usual or known."""
    data: JsonObject = {"id": result.id}

    if result.stored is not None:
        if with_key:
            data["key"] = result.stored.row.key
    elif isinstance(operation, Write) and "key" in operation.arguments:
        # Of a memory that was deleted, its name is all that is left.
        data["key"] = operation.arguments["key"]

    data["version"] = result.version
    if result.stored is None:
        data["deleted"] = True
    elif result.stored.row.archived:
        data["archived"] = True
    if is_full or result.created:
        data["created"] = result.created
    if result.replaced:
        data["replaced"] = result.replaced
    if is_full:
        data["updated_fields"] = list(result.updated)
    if is_full and result.mended is not None:
        data["mended"] = list(result.mended)

    return data


def _shorten(error: JsonObject, shortening: Shortening) -> JsonObject:
    if shortening == "none":
        return error

    # A fault lists up to ten wrong fields; the first one is told in any case.
    return {
        name: error[name] for name in error if name not in ("fields", "expected", "did_you_mean")
    }


def _flatten(error: JsonObject) -> JsonObject:
    """Return the failure of a concise record: why, and the rule if one is broken."""
    flat: JsonObject = {"reason": error["reason"]}

    if error["reason"] == "version_conflict" and "expected" in error:
        return {"version": error["expected"]["version"], **flat}

    if "field" in error:
        flat["field"] = error["field"]
    # Most reasons say all there is; a malformed operation is corrected by its rule.
    if any(name in error for name in _RULE_FIELDS):
        flat["message"] = error["message"]

    return flat
