"""How the law reads a place, as all of its checks do."""

from typing import NamedTuple, get_args

from abilities.declarations.refusals import Code
from abilities.declarations.values import JsonObject
from tests.support.law_model import Moment
from tests.support.law_places import Call, Place

CODES = frozenset(get_args(Code)) - {"INTERNAL_ERROR"}


class Reading(NamedTuple):
    """What reads a place: one of its applications, at a moment, in a namespace."""

    place: Place
    through: int
    moment: Moment
    namespace: str

    def call(self, name: str, **arguments: object) -> JsonObject:
        """Return an ability's payload."""
        call = Call(self.namespace, name, arguments, self.moment)
        (payload,) = self.place.call([call], self.through)
        return payload


def check_refusal(payload: JsonObject) -> str:
    """Return the reason of a refusal, which must be one that callers may be given."""
    assert "error" in payload, f"it must be refused: {payload}"
    fault = payload["error"]
    assert fault["code"] in CODES, fault
    assert len(fault["message"]) <= 120, fault
    return str(fault["reason"])


def complete(reading: Reading, record: JsonObject) -> JsonObject:
    """Fetch what was cut off a record's content, and return the record whole.

    One of `memory_get` goes on by its own request, any other by the item that reads on.
    """
    truncation = record.pop("truncation", None)
    request = record.pop("next_request", None)

    while truncation is not None:
        if request is None:
            rest = reading.call("memory_read_bulk", targets=[truncation["next"]])
            (part,) = rest["results"]
        else:
            assert truncation["next"] == request
            part = reading.call("memory_get", **request)
            request = part.get("next_request")

        record["data"]["content"] += part["data"]["content"]
        truncation = part.get("truncation")
    return record
