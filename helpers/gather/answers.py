"""Replies to mixed batches."""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.read import ReadInput
from abilities.declarations.values import JsonObject
from abilities.helpers.files.reader import FileReader
from abilities.helpers.gather.offers import ItemOffer
from abilities.helpers.gather.sharing import Filled, Sharing
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.envelope import assemble_reply, measure_room
from abilities.helpers.reply.items import BulkRequest, is_sendable


class Answered(NamedTuple):
    """The reply to a batch, and what it is made of."""

    reply: JsonObject
    filled: Sequence[Filled]
    request: JsonObject
    """The arguments of the call, without ``plan``; an item that JSON cannot hold is empty."""


async def build_answer(
    arguments: ReadInput,
    offers: Sequence[ItemOffer],
    bound: Bound,
    reader: FileReader,
    *,
    is_full: bool,
) -> Answered:
    """Return the reply to a batch, with as much of the offers as its bound allows."""
    given = arguments.explicit_arguments()
    given.pop("plan", None)
    given["items"] = [item if is_sendable(item) else {} for item in arguments.items]
    request = BulkRequest("items", arguments.items, given)

    sharing = Sharing(offers, measure_room(request, bound), bound, is_full=is_full)
    filled = await sharing.run(reader)

    records = [item.record for item in filled]
    next_items = [record.next_item for record in records if record.next_item is not None]
    return Answered(assemble_reply(request, records, next_items), filled, given)
