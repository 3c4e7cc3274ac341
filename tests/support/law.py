"""A trial of the law: stores that get the same calls, and models of what must be in them."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from abilities.declarations.memory import Direction
from abilities.declarations.values import JsonObject
from abilities.helpers.walk import WalkLimits
from tests.support import law_checks
from tests.support.law_checks import CHECKS, Check, Reading, same
from tests.support.law_model import MemoryModel, Moment, NamespaceModel, Predicted, Refusal
from tests.support.law_payloads import expect_written, normalize
from tests.support.law_places import Call, Clock, Place

NAMESPACES = ("team", "Team")

HEADING = '{"format":"agent-abilities","version":1}\n'


class Pace(NamedTuple):
    """How much a trial checks beside the answers of all calls.

    ``everything`` and ``records`` are the operations between two checks of everything, and of the
    records of all memories; odd, so that both applications take turns. ``is_close`` says whether
    all of `law_checks.CHECKS` follow each operation, or one of them, in turn.
    """

    everything: int
    records: int
    is_close: bool


CLOSE = Pace(everything=29, records=29, is_close=True)
LONG = Pace(everything=501, records=11, is_close=False)


class Saved(NamedTuple):
    """A backup by its number, with what was in the store."""

    number: int
    models: dict[str, NamespaceModel]


class Trial:
    """Does the same with all places, and checks after each step what it must have done.

    A step is a change, an import or what a person does with a store; `begin_step` begins each.
    """

    def __init__(self, places: Sequence[Place], quota: int | None, pace: Pace = CLOSE) -> None:
        self.places = places
        self._pace = pace
        self.models = {name: NamespaceModel(quota) for name in NAMESPACES}
        self.clock = Clock()
        self.exports: list[str] = []
        self.saved: list[Saved] = []
        self._moment = self.clock.tick(0)
        self._steps = 0

    def begin_step(self, ticks: int) -> None:
        """Begin an operation, so many milliseconds after the last one."""
        self._steps += 1
        self._moment = self.clock.tick(ticks)
        if self._steps % self._pace.everything == 0:
            self.check_everything()
        if self._steps % self._pace.records == 0:
            self._check_records()

    def choose(self, namespace: str, number: int) -> MemoryModel:
        """Return one of the memories; if there is none, one that does not exist."""
        memories = list(self.models[namespace].memories.values())
        if not memories:
            return MemoryModel(self.clock.make_id(), "none", "", "")

        return memories[number % len(memories)]

    def change(
        self, namespace: str, name: str, arguments: JsonObject, *, may_refuse: bool = False
    ) -> None:
        """Make a change, and check that the answer and all readers say what it must have done."""
        before = self.models[namespace]
        payload = self._call(namespace, name, arguments)

        if may_refuse and "error" in payload:
            law_checks.check_refusal(payload)
            self._check(namespace, _find_key(before, arguments))
            return

        after = before.copy()
        try:
            predicted = predict(after, name, arguments, self._moment)
        except Refusal as refusal:
            assert "error" in payload, payload
            assert law_checks.check_refusal(payload) == str(refusal)
            self._check(namespace, _find_key(before, arguments))
            return

        assert "error" not in payload, payload
        self.models[namespace] = after
        self._check_answer(namespace, payload, predicted)
        key = predicted.memory.key if predicted.memory else None
        self._check(namespace, key)
        old_key = _find_key(before, arguments)
        if old_key not in (None, key):
            self._check(namespace, old_key)

    def refuse(self, namespace: str, name: str, arguments: JsonObject, key: str) -> None:
        """Send what must be refused, and check that it changed nothing."""
        law_checks.check_refusal(self._call(namespace, name, arguments))
        self._check(namespace, key)

    def query(self, namespace: str, query: JsonObject) -> None:
        """Find memories."""
        for reading in self._read(namespace):
            law_checks.check_query(reading, self.models[namespace], query)

    def import_text(self, text: str, *, replace: bool, into: str | None) -> None:
        """Import an export, perhaps into one namespace."""
        counts: dict[str, int] = {}
        for line in text.split("\n")[1:-1]:
            memory = json.loads(line)
            model = self.models[into or memory["namespace"]]
            for outcome in model.import_memories([memory], replace=replace):
                counts[outcome] = counts.get(outcome, 0) + 1

        options = ["--replace"] * replace
        if into is not None:
            options += ["--namespace", into]

        for place in self.places:
            source = place.folder / "import.jsonl"
            source.write_text(text)
            result = place.run("import", source, *options)
            assert result.exit_code == int("refused" in counts), result.output
            assert law_checks.count_outcomes(result.stderr) == counts, result.output

        for line in text.split("\n")[1:-1]:
            memory = json.loads(line)
            self._check(into or memory["namespace"], memory["key"])

    def export(self) -> None:
        """Export everything, and keep the last exports."""
        texts = [law_checks.check_export(place, self.models) for place in self.places]
        self.exports = [*self.exports[-2:], texts[-1]]

    def restart(self) -> None:
        """Close all applications, and open them again."""
        for place in self.places:
            place.open()

        for namespace in NAMESPACES:
            self._call(namespace, "get_memory_stats", {})  # a new store is made by its first call
            self._check(namespace, None)

    def back_up(self) -> None:
        """Back up the stores, which must be files."""
        saved = Saved(len(self.saved), _copy(self.models))
        for place in self.places:
            result = place.run("backup", place.folder / f"{saved.number}.backup")
            assert result.exit_code == 0, result.output

        self.saved.append(saved)

    def restore(self, saved: Saved) -> None:
        """Put a backup in the place of each store."""
        for place in self.places:
            place.close()
            copy = place.folder / f"{saved.number}.backup"
            result = place.run("restore", "--replace", copy)
            assert result.exit_code == 0, result.output
            place.open()

        self.models = _copy(saved.models)
        for namespace in NAMESPACES:
            self._check(namespace, None)

    def check_everything(self) -> None:
        """Read, export, check, back up, change and delete everything."""
        for place in self.places:
            law_checks.check_export(place, self.models)
            law_checks.check_integrity(place)
            if place.is_file:
                law_checks.check_backup(place, self.models)

        for reading in self._read(NAMESPACES[0]):
            for namespace, model in self.models.items():
                for key in model.memories:
                    here = reading._replace(namespace=namespace)
                    law_checks.check_record(here, model, key)
                    law_checks.check_content(here, model, key)
                    for direction in get_args(Direction):
                        law_checks.check_walk(here, model, key, WalkLimits(3, 5, 20), direction)
            law_checks.check_copies(reading, self.models)

    def close(self) -> None:
        """Close all applications."""
        for place in self.places:
            place.close()

    def _check_answer(self, namespace: str, payload: JsonObject, predicted: Predicted) -> None:
        if "memory" not in payload:
            assert payload["success"] is True
            return

        assert predicted.memory is not None
        record = {"data": payload["memory"], "truncation": payload.get("truncation")}
        (reading, *_) = self._read(namespace)
        law_checks.complete(reading, record)
        shown = len(payload["memory"].get("links", ()))
        expected = expect_written(self.models[namespace], predicted.memory, shown)
        same(record["data"], expected)

        # Only a small room may leave no room for twenty.
        if reading.place.settings.max_response_bytes > 100_000:
            assert shown == min(20, expected.get("links_total", 0))

        if "created" in payload:
            assert payload["created"] == predicted.created
        if "updated_fields" in payload:
            assert sorted(payload["updated_fields"]) == sorted(predicted.updated)

    def _call(self, namespace: str, name: str, arguments: JsonObject) -> JsonObject:
        """Send the same call to all stores, which must answer the same."""
        call = Call(namespace, name, arguments, self._moment)
        first, *others = [place.call(call, self._steps) for place in self.places]

        for other in others:
            assert normalize(other) == normalize(first)

        return first

    def _read(self, namespace: str) -> list[Reading]:
        """Return readers of all stores: not the application that wrote, but the other one."""
        return [Reading(place, self._steps + 1, self._moment, namespace) for place in self.places]

    def _check(self, namespace: str, key: str | None) -> None:
        """Try one memory, and what is counted in both namespaces."""
        for reading in self._read(namespace):
            for check, checked in self._choose_checks(self.models[namespace], key):
                check(reading, self.models, checked, self._steps)

    def _choose_checks(
        self, model: NamespaceModel, key: str | None
    ) -> Iterable[tuple[Check, str | None]]:
        """Return the checks that follow an operation, each with the key to try.

        In a long run it is one of them, and every third time another memory is tried instead.
        """
        if self._pace.is_close:
            return [(check, key) for check in CHECKS]

        turn, number = divmod(self._steps, len(CHECKS))
        if turn % 3 == 0 and model.memories:
            key = list(model.memories)[turn % len(model.memories)]
        return [(CHECKS[number], key)]

    def _check_records(self) -> None:
        """Read the records of all memories."""
        query: JsonObject = {"archived": True, "limit": 100, "sort_by": "updated_at"}
        for namespace in NAMESPACES:
            self.query(namespace, {**query, "sort_order": "asc"})


def predict(model: NamespaceModel, name: str, arguments: JsonObject, moment: Moment) -> Predicted:
    """Make a change in a model. Raises Refusal."""
    if name == "store_memory":
        return model.store(arguments, moment)
    if name == "update_memory":
        return model.update(arguments, moment)
    if arguments["permanent"]:
        return model.delete(arguments["id"])

    return model.archive(arguments["id"], moment)


def _copy(models: dict[str, NamespaceModel]) -> dict[str, NamespaceModel]:
    return {name: model.copy() for name, model in models.items()}


def _find_key(model: NamespaceModel, arguments: JsonObject) -> str | None:
    """Return the key of the memory that a call names, if it is there."""
    memory_id = arguments.get("id")
    if memory_id is None:
        key = arguments.get("key")
        return key if key in model.memories else None

    memory = model.find(memory_id)
    return None if memory is None else memory.key
