"""The operations of the law: what each does in a trial, its values, and a machine of them."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from abilities.declarations.values import JsonObject
from tests.support import law_values
from tests.support.file_cases import Row
from tests.support.law import HEADING, NAMESPACES, Trial
from tests.support.law_places import Place

_namespaces = st.sampled_from(NAMESPACES)
_ticks = st.sampled_from([0, 1, 1_000, -60_000])
_queries = st.fixed_dictionaries(
    {
        "sort_by": st.sampled_from(["created_at", "updated_at", "importance"]),
        "sort_order": st.sampled_from(["asc", "desc"]),
        "limit": st.sampled_from([1, 3, 100]),
    },
    optional={**law_values.filters, "search": law_values.short_texts},
)
_lines = st.lists(
    st.tuples(law_values.exported_memories, _namespaces, st.none() | law_values.positions),
    min_size=1,
    max_size=4,
)

Values = dict[str, st.SearchStrategy[object]]


def _about_memories(**values: st.SearchStrategy[Any]) -> Values:
    return {"namespace": _namespaces, **values}


_positions, _keys = law_values.positions, law_values.keys
VALUES: dict[str, Values] = {
    "store": _about_memories(
        arguments=law_values.new_memories, named=st.none() | _positions, ticks=_ticks
    ),
    "update": _about_memories(changes=law_values.changes, named=_positions, ticks=_ticks),
    "rename": _about_memories(
        changes=st.just({}) | law_values.changes, named=_positions, key=_keys
    ),
    "delete": _about_memories(named=_positions, permanent=st.booleans()),
    "remember": _about_memories(
        planned=st.lists(law_values.operations, min_size=1, max_size=4),
        named=_positions,
        atomic=st.booleans(),
    ),
    "try_anything": _about_memories(
        changes=law_values.wild_changes, named=st.none() | _positions, key=_keys
    ),
    "call_wrongly": _about_memories(row=law_values.wrong_calls, named=_positions),
    "query": _about_memories(query=_queries),
    "recall": _about_memories(
        arguments=law_values.recalls, goes_on=st.sampled_from([False, False, True])
    ),
    "import_lines": {"lines": _lines, "replace": st.booleans()},
    "administer": {
        "number": _positions,
        "replace": st.booleans(),
        "into": st.none() | _namespaces,
        "task": st.sampled_from(["export", "import", "import", "restart", "back up", "restore"]),
    },
}
"""The values of each operation's arguments."""


class Operation(NamedTuple):
    """An operation by its name, with its arguments; memories are named by their positions."""

    name: str
    arguments: JsonObject


class Operations:
    """Does in a trial what operations say."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    def perform(self, operation: Operation) -> None:
        getattr(self, operation.name)(**operation.arguments)

    def store(self, namespace: str, arguments: JsonObject, named: int | None, ticks: int) -> None:
        self.trial.begin_step(ticks)
        if named is not None:
            arguments = {**arguments, "id": self.trial.choose(namespace, named).id}
        self.trial.change(namespace, "store_memory", arguments)

    def update(self, namespace: str, changes: JsonObject, named: int, ticks: int) -> None:
        self.trial.begin_step(ticks)
        memory = self.trial.choose(namespace, named)
        self.trial.change(namespace, "update_memory", {**changes, "id": memory.id})

    def rename(self, namespace: str, changes: JsonObject, named: int, key: str) -> None:
        self.update(namespace, {**changes, "key": key}, named, ticks=1)

    def delete(self, namespace: str, named: int, permanent: bool) -> None:
        self.trial.begin_step(1)
        memory = self.trial.choose(namespace, named)
        arguments = {"id": memory.id, "permanent": permanent}
        self.trial.change(namespace, "delete_memory", arguments)

    def remember(self, namespace: str, planned: list[JsonObject], named: int, atomic: bool) -> None:
        self.trial.begin_step(1)
        renames = any(operation["op"] == "rename" for operation in planned)
        operations: list[JsonObject] = []

        for number, operation in enumerate(planned):
            memory = self.trial.choose(namespace, named + number // 2)
            made = {"key": memory.key, **operation}
            if "if_version" in made:
                made["if_version"] += self.trial.models[namespace].find_version(made["key"])
            # What is too long for a memory is tried elsewhere.
            if made["op"] == "append" and (renames or len(memory.content) > 4_000):
                made = {"op": "archive", "key": memory.key}
            operations.append(made)

        arguments = {"operations": operations, "atomic": atomic}
        self.trial.change(namespace, "remember", arguments)

    def try_anything(
        self, namespace: str, changes: JsonObject, named: int | None, key: str
    ) -> None:
        self.trial.begin_step(1)
        if named is None:
            arguments = {"type": "core", "content": "x", "key": key, **changes}
            self.trial.change(namespace, "store_memory", arguments, may_refuse=True)
        else:
            arguments = {"id": self.trial.choose(namespace, named).id, **changes}
            self.trial.change(namespace, "update_memory", arguments, may_refuse=True)

    def call_wrongly(self, namespace: str, row: Row, named: int) -> None:
        self.trial.begin_step(0)
        memory = self.trial.choose(namespace, named)
        arguments = law_values.aim(row, memory.id, memory.key)
        self.trial.refuse(namespace, row.name, arguments, memory.key)

    def query(self, namespace: str, query: JsonObject) -> None:
        self.trial.begin_step(0)
        self.trial.query(namespace, query)

    def recall(self, namespace: str, arguments: JsonObject, goes_on: bool) -> None:
        self.trial.begin_step(0)
        self.trial.recall(namespace, arguments, goes_on=goes_on)

    def import_lines(self, lines: list[tuple[JsonObject, str, int | None]], replace: bool) -> None:
        self.trial.begin_step(1)
        text = HEADING
        for line, namespace, named in lines:
            memory_id = self.trial.clock.make_id()
            if named is not None and self.trial.models[namespace].memories:
                memory_id = self.trial.choose(namespace, named).id
            text += json.dumps({**line, "namespace": namespace, "id": memory_id}) + "\n"
        self.trial.import_text(text, replace=replace, into=None)

    def administer(self, task: str, number: int, replace: bool, into: str | None) -> None:
        self.trial.begin_step(1)
        is_file = all(place.is_file for place in self.trial.places)

        if task == "restart":
            self.trial.restart()
        elif task == "import" and self.trial.exports:
            text = self.trial.exports[number % len(self.trial.exports)]
            self.trial.import_text(text, replace=replace, into=into)
        elif task == "back up" and is_file:
            self.trial.back_up()
        elif task == "restore" and self.trial.saved:
            self.trial.restore(self.trial.saved[number % len(self.trial.saved)])
        else:
            self.trial.export()


Open = Callable[[JsonObject], Sequence[Place]]
"""Opens new and empty stores, with further settings, all of which get the same calls."""
