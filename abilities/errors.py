"""The exceptions of this package, all beneath one root.

::

    AbilitiesError
    ├── AbilityError    a call failed as a whole; what users of `Abilities.call` catch
    ├── Refused         what was requested cannot be served, for one of the reasons in
    │                   `declarations.faults`; callers see a Fault instead
    │   └── RefusedRequest  the server rejects a whole HTTP request, with a status
    ├── UnusableLine    a line of an import is not a memory
    ├── NotAStore       a file to restore is no backup; nothing was put in place
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
