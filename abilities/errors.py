"""The exceptions of this package, all beneath one root.

::

    AbilitiesError
    ├── AbilityError    a call failed as a whole; what users of `Abilities.call` catch
    ├── Refused         what was requested cannot be served, for one of the reasons in
    │                   `declarations.faults`; callers see a Fault instead
    │   └── RefusedRequest  the server rejects a whole HTTP request, with a status
    ├── SettingsFileError   the settings file cannot be read; a ValueError too
    ├── UnusableLine    a line of an import is not a memory
    ├── NotAStore       a file to restore is no backup; nothing was put in place
    ├── UnsoundCopy     a backup is damaged; nothing was put in place
    ├── Unusable        the configuration of a client cannot be read or edited
    │   ├── Unparsable  it is not what its name says, from a line on
    │   ├── UnusableFile    one of its files cannot be edited
    │   └── Changed     another program changed it meanwhile
    ├── TrialFailed     a server does not start as the configuration of a client says
    │
    │   and what never reaches a caller, because it ends work inside:
    ├── Abandoned       nobody waits for this work any more
    ├── BatchUndone     one of several changes that belong together cannot be made
    ├── EmbedderFailed  an embedder gave no vectors
    ├── ForeignExit     a plugin raised what would end the process
    ├── InvalidMessage  a line over stdio is no message of JSON-RPC
    └── MemoriesDue     memories are to be archived first
"""

from abilities.declarations.faults import AbilitiesError, Fault, Refused

__all__ = ["AbilitiesError", "AbilityError", "Fault", "Refused"]


class AbilityError(AbilitiesError):
    """A call failed as a whole; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code} ({fault.reason}): {fault.message}")
        self.fault = fault
