"""Plans: what a reply would hold, told without its contents."""

from collections.abc import Sequence

from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.gather.offers import ItemOffer
from abilities.helpers.reply.encoding import json_size


def build_plan(offers: Sequence[ItemOffer], reply: JsonObject, arguments: JsonObject) -> JsonObject:
    """Return the plan of a reply, whose ``next_request`` is the call itself: its arguments."""
    results: list[JsonObject] = []
    for offer, record in zip(offers, reply["results"], strict=True):
        results.append(_describe(offer, record))

    summary = {**reply["summary"], "reply_bytes": json_size(reply)}
    plan: JsonObject = {"results": results, "summary": summary}
    plan["next_request"] = arguments

    # Beyond an item's limit nothing was counted.
    more = [index for index, offer in enumerate(offers) if "more" in (offer.group or {})]
    if more:
        plan["more"] = more

    return plan


def _describe(offer: ItemOffer, record: JsonObject) -> JsonObject:
    """Return what there is of an item, and what its record holds."""
    described: JsonObject = {"input": record["input"]}
    reason = _find_reason(record)
    if reason not in (None, "response_budget"):
        return {**described, "reason": reason}
    if offer.is_unchanged:
        return {**described, "unchanged": True}

    # Estimated sizes may be less than what came of a file that has grown meanwhile.
    items = record.get("data", record).get("items", ())
    granted = sum(map(_count_content_bytes, items if offer.group is not None else [record]))
    size = max(offer.size, granted)
    described |= {
        "bytes": size,
        "tokens": _count_tokens(size),
        "granted_bytes": granted,
        "granted_tokens": _count_tokens(granted),
    }
    if offer.group is not None:
        described |= {"items": len(offer.leaves), "granted_items": len(items)}

    return described


def _find_reason(record: JsonObject) -> str | None:
    fault = as_object(record.get("error")) or record
    reason: str | None = fault.get("reason")
    return reason


def _count_content_bytes(record: JsonObject) -> int:
    """Return the bytes of a record's content, in UTF-8."""
    content = record.get("data", record).get("content") or ""
    return len(content.encode())


def _count_tokens(size: int) -> int:
    return -(-size // TOKEN_BYTES)
