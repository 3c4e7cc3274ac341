"""The law as a machine: random calls, each followed by a trial of what they must have done."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from abilities.declarations.values import JsonObject
from tests.support.law import Trial
from tests.support.law_operations import VALUES, Operation, Operations
from tests.support.law_places import Place

Open = Callable[[JsonObject], Sequence[Place]]
"""Opens new and empty stores, with further settings, all of which get the same calls."""


class Tally:
    """Counts the operations of all machines of a run."""

    def __init__(self) -> None:
        self.operations = 0


def _make_rule(name: str) -> Any:
    def perform(machine: "LawMachine", **arguments: Any) -> None:
        machine.perform(Operation(name, arguments))

    perform.__name__ = name
    make_rule: Any = rule  # which takes values by names that a type checker does not know
    return make_rule(**VALUES[name])(perform)


class LawMachine(RuleBasedStateMachine):
    """Changes memories at random; whatever was acknowledged must be there, and nothing else."""

    store = _make_rule("store")
    update = _make_rule("update")
    rename = _make_rule("rename")
    delete = _make_rule("delete")
    remember = _make_rule("remember")
    try_anything = _make_rule("try_anything")
    call_wrongly = _make_rule("call_wrongly")
    query = _make_rule("query")
    recall = _make_rule("recall")
    import_lines = _make_rule("import_lines")
    administer = _make_rule("administer")

    def __init__(self, open_places: Open, tally: Tally) -> None:
        super().__init__()
        self._open_places = open_places
        self._tally = tally
        self._operations: Operations | None = None

    @initialize(
        quota=st.sampled_from([None, None, None, 6]),
        room=st.sampled_from([40_000, 64_000, 1_000_000]),
    )
    def begin(self, quota: int | None, room: int) -> None:
        settings: JsonObject = {"max_response_bytes": room}
        if quota is not None:
            settings["max_memories"] = quota
        trial = Trial(self._open_places(settings), quota)
        self._operations = Operations(trial)
        trial.begin()

    def perform(self, operation: Operation) -> None:
        assert self._operations is not None
        self._tally.operations += 1
        self._operations.perform(operation)

    def teardown(self) -> None:
        if self._operations is None:
            return
        try:
            if sys.exc_info()[0] is None:
                self._operations.trial.check_everything()
        finally:
            self._operations.trial.close()
