"""Answers to mixed batches: their contents, or the plan of them."""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.read import ReadInput
from abilities.declarations.values import JsonObject
from abilities.helpers.files.reader import FileReader
from abilities.helpers.gather.filling import BatchFilling
from abilities.helpers.gather.offers import Offer
from abilities.helpers.gather.plan import build_plan
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.envelope import assemble_reply, measure_room
from abilities.helpers.reply.items import BulkRequest


class BatchAnswer(NamedTuple):
    """A reply, and what is sent: the same, or the plan of it."""

    reply: JsonObject
    sent: JsonObject


async def build_answer(
    arguments: ReadInput,
    offers: Sequence[Offer],
    bound: Bound,
    reader: FileReader,
    *,
    is_full: bool,
) -> BatchAnswer:
    """Return the answer with its contents, and with ``plan`` what it would be."""
    given = arguments.explicit_arguments()
    given.pop("plan", None)
    request = BulkRequest("items", arguments.items, given)

    filling = BatchFilling(offers, measure_room(request, bound), bound, is_full=is_full)
    filled = await filling.run(reader)

    records = [item.record for item in filled]
    next_items = [record.next_item for record in records if record.next_item is not None]
    reply = assemble_reply(request, records, next_items)
    if not arguments.plan:
        return BatchAnswer(reply, reply)

    return BatchAnswer(reply, build_plan(offers, filled, reply, given))
