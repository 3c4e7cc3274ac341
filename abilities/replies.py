"""What a surface sends back for a call."""

from dataclasses import dataclass
from typing import Any

from abilities.declarations.faults import Fault
from abilities.helpers.reply.render import render


def failed_reply(fault: Fault) -> "Reply":
    """The reply of a call that failed as a whole; always JSON."""
    payload = {"error": fault.to_payload()}
    return Reply(payload, render(payload), failed=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a surface sends back: a payload, and the text that its reader gets."""

    payload: dict[str, Any]
    text: str
    failed: bool
