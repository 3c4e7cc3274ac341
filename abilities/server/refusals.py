"""A request that is turned away before any ability sees it."""

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason


class RefusedRequest(Refused):
    """A request is turned away; ``status`` is the HTTP status of the response."""

    def __init__(self, status: int, reason: Reason) -> None:
        super().__init__(reason)
        self.status = status
