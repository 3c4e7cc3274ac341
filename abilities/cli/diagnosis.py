"""A diagnosis: what `abilities doctor` says of one thing that it looked at."""

from typing import Literal, NamedTuple

State = Literal["ok", "note", "unsafe", "fails"]


class Diagnosis(NamedTuple):
    """One thing that was looked at.

    ``about`` names it, for example "store"; ``words`` say how it is; ``mend`` says what to do about
    it, which is never empty if the state is "unsafe" or "fails". A "note" is worth knowing, but
    nothing has to be done.
    """

    state: State
    about: str
    words: str
    mend: str = ""
