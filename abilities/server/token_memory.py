"""What the store remembers of tokens: asked and told by a server, without holding up its calls."""

import asyncio
import logging

from abilities.adapters.http import get_status
from abilities.application import Abilities
from abilities.declarations.faults import Fault, Refused
from abilities.server.refusals import RefusedRequest

RECALL_SECONDS = 10.0
"""How long a request waits for the store to say whether there ever were tokens.

As long as a call may take; it happens once, and a busy disk can take seconds to open a store.
"""

RETRY_SECONDS = 5.0
"""After this time the store is told again of tokens, if it could not write that down."""

_log = logging.getLogger("abilities")


class TokenMemory:
    """Knows whether tokens were ever made, as the store remembers it; asks and tells it once.

    Nothing is forgotten for as long as the process lives.
    """

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities
        self._known: bool | None = None
        self._asking: asyncio.Task[bool] | None = None
        self._telling: asyncio.Task[None] | None = None

    async def recall(self) -> bool:
        """Return whether there ever were tokens.

        Raises RefusedRequest if the store does not say.
        """
        if self._known is None:
            answer = await self._ask()
            # Tokens may have been seen in the meantime.
            self._known = self._known or answer

        return self._known

    def remember(self) -> None:
        """Take note of tokens, and let the store remember them soon."""
        self._known = True

        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def _ask(self) -> bool:
        """Ask the store; all requests that wait share one question."""
        asking = self._asking
        if asking is None or asking.done():
            asking = asyncio.create_task(self._abilities.has_token_mark())
            self._asking = asking

        await asyncio.wait([asking], timeout=RECALL_SECONDS)
        if not asking.done():
            raise RefusedRequest(503, "unavailable")

        try:
            return asking.result()
        except Refused as refusal:
            fault = Fault.from_refusal(refusal)
            raise RefusedRequest(get_status(fault.to_payload()), refusal.reason) from refusal

    async def _tell(self) -> None:
        """Tell the store, again and again until it has written it down."""
        has_failed = False

        while True:
            try:
                await self._abilities.set_token_mark()
                return
            except Exception as error:  # whatever it is, callers need a token all the same
                if not has_failed:
                    _log.warning(
                        "the store cannot remember that there are tokens yet: %s",
                        Fault.from_exception(error).message,
                    )
                has_failed = True

            await asyncio.sleep(RETRY_SECONDS)
