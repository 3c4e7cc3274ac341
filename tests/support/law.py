"""A trial of the law: stores that get the same calls, and models of what must be in them."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

from abilities.declarations.memory import Direction
from abilities.declarations.values import JsonObject
from abilities.helpers.walk import WalkLimits
from tests.support import law_checks
from tests.support.law_answers import Expected, check_answer, predict
from tests.support.law_checks import CHECKS, check_query
from tests.support.law_model import MemoryModel, NamespaceModel
from tests.support.law_payloads import normalize
from tests.support.law_places import Call, Clock, Place, Reading, check_refusal
from tests.support.law_recall import check_recall

NAMESPACES = ("team", "Team")

HEADING = '{"format":"agent-abilities","version":2}\n'


WAVE = 16
"""Changes that are begun together at most."""

BETWEEN_ALL, BETWEEN_RECORDS = 101, 5
"""Waves between two checks of everything, and of the records of all memories.

They are odd, so that both applications take turns.
"""

Search = Callable[[Reading, NamespaceModel, JsonObject], Sequence[JsonObject]]
"""Finds memories with arguments, compares what is found, and returns the pages of it."""


class Saved(NamedTuple):
    """A backup by its number, with what was in the store."""

    number: int
    models: dict[str, NamespaceModel]


class Trial:
    """Does the same with all places, and checks what it must have done.

    A step is a change, an import or what a person does with a store; `begin_step` begins each.
    Changes wait until there are enough of them for a wave, or until something else is done. Those
    of a wave are begun together, so that a store may commit them together, and are checked then:
    each answer by the model that the change left, and the memories by the last one.
    """

    def __init__(self, places: Sequence[Place], quota: int | None) -> None:
        self.places = places
        self._room = places[0].settings.max_response_bytes
        self.models = {name: NamespaceModel(quota) for name in NAMESPACES}
        self.clock = Clock()
        self.exports: list[str] = []
        self.saved: list[Saved] = []
        self._moment = self.clock.tick(0)
        self._waiting: list[Expected] = []
        self._touched: dict[tuple[str, str | None], None] = {}
        self._searches: list[tuple[Search, str, JsonObject]] = []
        self._unread: dict[str, JsonObject] = {}
        self._waves = 0
        self._checks = 0

    def begin_step(self, ticks: int) -> None:
        self._moment = self.clock.tick(ticks)

    def choose(self, namespace: str, number: int) -> MemoryModel:
        """Return one of the memories; if there is none, one that does not exist."""
        memories = list(self.models[namespace].memories.values())
        if not memories:
            return MemoryModel(self.clock.make_id(), "none", "", "")
        return memories[number % len(memories)]

    def change(
        self, namespace: str, name: str, arguments: JsonObject, *, may_refuse: bool = False
    ) -> None:
        """Make a change, and check that the answer and all readers say what it must have done.

        A change that ``may_refuse`` is the last of its wave: no model can tell what becomes of it.
        """
        call = Call(namespace, name, arguments, self._moment)
        self._touch(namespace, _find_key(self.models[namespace], arguments))

        if not may_refuse:
            self._wait(self._predict(call))
            return

        payload = self._send(call)
        if "error" in payload:
            check_refusal(payload)
        else:
            check_answer(payload, self._predict(call), self._room)
        self._end_wave()

    def refuse(self, namespace: str, name: str, arguments: JsonObject, key: str) -> None:
        """Send what must be refused, and check that it changed nothing."""
        call = Call(namespace, name, arguments, self._moment)
        self._touch(namespace, key)
        self._wait(Expected(call, self.models[namespace], None))

    def query(self, namespace: str, query: JsonObject) -> None:
        self._search(check_query, namespace, query)

    def recall(self, namespace: str, arguments: JsonObject, *, goes_on: bool) -> None:
        """Ask questions, when the changes that wait are made.

        One that ``goes_on`` asks for the second page of an earlier one, if that had more.
        """
        if goes_on:
            arguments = self._unread.get(namespace, arguments)
        self._search(check_recall, namespace, arguments)

    def settle(self) -> None:
        """Make the changes that wait, and check what they, or another step, must have done."""
        if self._waiting:
            self._send(None)
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        for namespace, key in touched:
            self._check(namespace, key)
        self._run_searches()
        self._waves += 1

    def import_text(self, text: str, *, replace: bool, into: str | None) -> None:
        self.settle()
        counts: Counter[str] = Counter()
        memories = [json.loads(line) for line in text.split("\n")[1:-1]]
        for memory in memories:
            model = self.models[into or memory["namespace"]]
            counts += model.import_memories([memory], replace=replace)

        options = ["--replace"] * replace
        if into is not None:
            options += ["--namespace", into]

        for place in self.places:
            source = place.folder / "import.jsonl"
            source.write_text(text)
            result = place.run("import", source, *options)
            assert result.exit_code == int("refused" in counts), result.output
            assert law_checks.count_outcomes(result.stderr) == counts, result.output

        for memory in memories:
            self._touch(into or memory["namespace"], memory["key"])
        self.settle()

    def export(self) -> None:
        self.settle()
        texts = [law_checks.check_export(place, self.models) for place in self.places]
        self.exports = [*self.exports[-2:], texts[-1]]

    def restart(self) -> None:
        self.settle()
        for place in self.places:
            place.open()
        self.begin()

    def begin(self) -> None:
        """Make the first calls; a new store is made by them."""
        for namespace in NAMESPACES:
            self._call([Call(namespace, "get_memory_stats", {}, self._moment)])
            self._touch(namespace, None)
        self.settle()

    def back_up(self) -> None:
        self.settle()
        saved = Saved(len(self.saved), {name: model.copy() for name, model in self.models.items()})
        for place in self.places:
            result = place.run("backup", place.folder / f"{saved.number}.backup")
            assert result.exit_code == 0, result.output
        self.saved.append(saved)

    def restore(self, saved: Saved) -> None:
        self.settle()
        for place in self.places:
            place.close()
            copy = place.folder / f"{saved.number}.backup"
            result = place.run("restore", "--replace", copy)
            assert result.exit_code == 0, result.output
            place.open()

        self.models = {name: model.copy() for name, model in saved.models.items()}
        for namespace in NAMESPACES:
            self._touch(namespace, None)
        self.settle()

    def check_everything(self) -> None:
        self.settle()
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
        for place in self.places:
            place.close()

    def _predict(self, call: Call) -> Expected:
        """Make a change in the model, and return what a store must answer."""
        expected = predict(self.models[call.namespace], call)
        self.models[call.namespace] = expected.model
        if expected.key is not None:
            self._touch(call.namespace, expected.key)
        return expected

    def _wait(self, expected: Expected) -> None:
        self._waiting.append(expected)
        if len(self._waiting) >= WAVE:
            self._end_wave()

    def _end_wave(self) -> None:
        self.settle()
        if self._waves % BETWEEN_ALL == 0:
            self.check_everything()
        if self._waves % BETWEEN_RECORDS == 0:
            self._check_records()

    def _send(self, last: Call | None) -> JsonObject:
        """Send the calls that wait, check their answers, and return that of the last call."""
        waiting, self._waiting = self._waiting, []
        calls = [expected.call for expected in waiting]
        if last is not None:
            calls.append(last)
        payloads = self._call(calls)
        for expected, payload in zip(waiting, payloads, strict=False):
            check_answer(payload, expected, self._room)
        return payloads[-1]

    def _call(self, calls: Sequence[Call]) -> list[JsonObject]:
        """Send the same calls to all stores, which must answer the same."""
        first, *others = [place.call(calls, self._waves) for place in self.places]
        for other in others:
            assert normalize(other) == normalize(first)
        return first

    def _touch(self, namespace: str, key: str | None) -> None:
        """Let a memory be checked at the end of the wave."""
        self._touched[namespace, key] = None

    def _search(self, search: Search, namespace: str, arguments: JsonObject) -> None:
        self._searches.append((search, namespace, arguments))
        if not self._waiting:
            self._run_searches()

    def _run_searches(self) -> None:
        searches, self._searches = self._searches, []
        for search, namespace, arguments in searches:
            model = self.models[namespace]
            first, *others = [
                search(reading, model, arguments) for reading in self._read(namespace)
            ]
            for other in others:
                assert normalize(other) == normalize(first)

            if search is check_recall and "next_request" in first[0]:
                self._unread[namespace] = first[0]["next_request"]

    def _read(self, namespace: str) -> list[Reading]:
        """Return readers of all stores: not the application that wrote, but the other one."""
        return [Reading(place, self._waves + 1, self._moment, namespace) for place in self.places]

    def _check(self, namespace: str, key: str | None) -> None:
        """Try one memory in one of the ways, in turn, and every third time another memory."""
        self._checks += 1
        model = self.models[namespace]
        # A check comes every so many times: it gets a number without a factor in common.
        number, place = divmod(self._checks, len(CHECKS))
        if number % 3 == 0 and model.memories:
            key = list(model.memories)[number % len(model.memories)]

        for reading in self._read(namespace):
            law_checks.check(CHECKS[place], reading, self.models, key, number)

    def _check_records(self) -> None:
        order = {"sort_by": "updated_at", "sort_order": "asc"}
        for namespace in NAMESPACES:
            self.query(namespace, {"archived": True, "limit": 100, **order})


def _find_key(model: NamespaceModel, arguments: JsonObject) -> str | None:
    memory_id = arguments.get("id")
    if memory_id is None:
        key = arguments.get("key")
        return key if key in model.memories else None
    memory = model.find(memory_id)
    return None if memory is None else memory.key
