"""Why a client's configuration is left as it is."""

from abilities.declarations.faults import AbilitiesError


class Unusable(AbilitiesError):
    """A configuration that cannot be read or edited; the message is a sentence for people."""


class Unparsable(Unusable):
    """Text that is not what its name says, with the line on which that shows."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
