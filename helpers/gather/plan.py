"""Plans: what a reply would hold, told without its contents."""

from collections.abc import Sequence

from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.gather.offers import ItemOffer
from abilities.helpers.gather.sharing import Answered, Filled
from abilities.helpers.reply.encoding import json_size


def build_plan(
    offers: Sequence[ItemOffer], answered: Answered, arguments: JsonObject
) -> JsonObject:
    """Return the plan of a reply, whose ``next_request`` is the call itself: its arguments."""
    reply = answered.reply
    results: list[JsonObject] = []
    for offer, filled, record in zip(offers, answered.filled, reply["results"], strict=True):
        results.append(_describe(offer, filled, record))

    summary = {**reply["summary"], "reply_bytes": json_size(reply)}
    plan: JsonObject = {"results": results, "summary": summary}
    plan["next_request"] = arguments

    # Beyond an item's limit nothing was counted.
    more = [index for index, offer in enumerate(offers) if "more" in (offer.group or {})]
    if more:
        plan["more"] = more

    return plan


def _describe(offer: ItemOffer, filled: Filled, record: JsonObject) -> JsonObject:
    """Return what there is of an item, and what its record holds."""
    described: JsonObject = {"input": record["input"]}
    reason = _find_reason(record)
    if reason not in (None, "response_budget"):
        return {**described, "reason": reason}
    if offer.is_unchanged:
        return {**described, "unchanged": True}

    # Estimated sizes may be less than what came of a file that has grown meanwhile.
    size = max(offer.size, filled.granted_bytes)
    described |= {
        "bytes": size,
        "tokens": _count_tokens(size),
        "granted_bytes": filled.granted_bytes,
        "granted_tokens": _count_tokens(filled.granted_bytes),
    }
    if offer.group is not None:
        described |= {"items": len(offer.leaves), "granted_items": filled.granted_leaves}

    return described


def _find_reason(record: JsonObject) -> str | None:
    fault = as_object(record.get("error")) or record
    reason: str | None = fault.get("reason")
    return reason


def _count_tokens(size: int) -> int:
    return -(-size // TOKEN_BYTES)
