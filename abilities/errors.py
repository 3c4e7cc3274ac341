"""The exceptions of this package, all beneath one root.

::

    AbilitiesError
    ├── AbilityError    a call failed as a whole; what users of `Abilities.call` catch
    ├── Refused         one thing cannot be had, for a reason in `declarations.faults`; becomes a Fault
    │   └── RefusedRequest  the server turns a whole HTTP request away, with a status
    ├── UnusableLine    a line of an import is not a memory
    ├── UnsoundCopy     a backup is damaged; nothing was put in place
    └── Abandoned       nobody waits for this work any more; never leaves its thread
"""

from abilities.declarations.faults import AbilitiesError, Fault, Refused

__all__ = ["AbilitiesError", "AbilityError", "Fault", "Refused"]


class AbilityError(AbilitiesError):
    """A call failed as a whole; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code} ({fault.reason}): {fault.message}")
        self.fault = fault
