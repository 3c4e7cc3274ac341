"""The one exception of a call that failed as a whole.

Inside of the package `Refused` says why one thing cannot be had; what a caller of `Abilities.call` meets
is an AbilityError, which carries the same `Fault` that every surface shows.
"""

from abilities.declarations.faults import Fault, Refused

__all__ = ["AbilityError", "Fault", "Refused"]


class AbilityError(Exception):
    """A call failed as a whole; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code} ({fault.reason}): {fault.message}")
        self.fault = fault
