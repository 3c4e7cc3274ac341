"""What a surface sends back for a call."""

from dataclasses import dataclass

from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.reply.render import Format, render


@dataclass(frozen=True, slots=True)
class Reply:
    """The payload of a call, and the text that its reader gets, in the ``format`` that it has.

    If the call ``failed`` as a whole, the payload is ``{"error": fault}``.
    """

    payload: JsonObject
    text: str
    failed: bool
    format: Format = "json"


def build_failed_reply(fault: Fault) -> Reply:
    """Return the reply of a call that failed as a whole; its text is always JSON."""
    payload = {"error": fault.to_payload()}
    return Reply(payload, render(payload), failed=True)
