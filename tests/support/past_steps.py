"""The steps of a trial of the past, made at random and always the same of the same seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from abilities.declarations.values import JsonObject
from abilities.helpers.store.changes import Kind

KINDS: dict[Kind, int] = {
    "store": 30,
    "update": 18,
    "append": 6,
    "supersede": 8,
    "archive": 6,
    "delete": 10,
    "restore": 20,
    "purge": 2,
}
"""Changes of each kind in a hundred."""

Task = Literal["change", "follow", "list", "forget"]
_TASKS: dict[Task, int] = {"change": 80, "follow": 10, "list": 8, "forget": 1}

_TEXTS = ["a", "b\n", "ß\u0301", "\U0001f9e0", "x" * 50]
_KEYS = ["a", "b", "c", "d\U0001f9e0", "d", "e", "f", "g"]
_VALUES: dict[str, Sequence[object]] = {
    "content": _TEXTS,
    "summary": ["", *_TEXTS],
    "category": ["", "x"],
    "tags": [[], ["t"], ["u", "t"], ["ß", "ß"]],
    "about": [[], ["src/app.py"], ["src/*", "ß", "ß"]],
    "importance": ["low", "medium", "high"],
    "memory_score": [0.0, 1.0],
    "metadata": [{}, {"ß": None, "a": [0.5]}, {"memory_score": 0.25, "b": 1}],
    "archived": [True, False],
}


@dataclass(frozen=True)
class Wish:
    """A change to be made; which memory and version it names follows from what there is then.

    A memory without a ``key`` is that of a ``position`` among those that there ever were.
    ``condition`` says which version it must have, ``end`` after how many seconds it expires.
    """

    kind: Kind
    position: int
    key: str | None
    new_key: str | None
    fields: JsonObject
    links: list[JsonObject]
    removed: list[JsonObject]
    version: int
    condition: Literal["none", "right", "stale"]
    end: int | None


class Step(NamedTuple):
    """What is done at once: changes, or a task; so many milliseconds after the last step."""

    task: Task
    wishes: list[Wish]
    atomic: bool
    limit: int
    milliseconds: int


def make_steps(seed: int, count: int) -> list[Step]:
    chance = random.Random(seed)
    return [_make_step(chance) for _ in range(count)]


def _make_step(chance: random.Random) -> Step:
    return Step(
        task=_choose(chance, _TASKS),
        wishes=[_make_wish(chance) for _ in range(chance.choice([1, 1, 2, 4]))],
        atomic=chance.random() < 0.4,
        limit=chance.randint(1, 5),
        milliseconds=chance.choice([0, 1, 2_000, 2_000, -5_000]),
    )


def _make_wish(chance: random.Random) -> Wish:
    return Wish(
        kind=_choose(chance, KINDS),
        position=chance.randrange(1_000),
        key=chance.choice([None, chance.choice(_KEYS)]),
        new_key=chance.choice([None, chance.choice(_KEYS)]),
        fields={
            name: chance.choice(values)
            for name, values in _VALUES.items()
            if chance.random() < 0.25
        },
        links=[_make_link(chance) for _ in range(chance.choice([0, 0, 2, 4]))],
        removed=[
            {"key": chance.choice(_KEYS), "type": chance.choice([None, "part"])}
            for _ in range(chance.choice([0, 0, 1]))
        ],
        version=chance.randrange(1_000),
        condition=chance.choice(["none", "none", "none", "right", "right", "stale"]),
        end=chance.choice([None] * 6 + [1, 60]),
    )


def _make_link(chance: random.Random) -> JsonObject:
    link: JsonObject = {
        "key": chance.choice(_KEYS),
        "link_weight": chance.choice([0.0, 0.5, 1 / 3]),
        "type": chance.choice(["association", "part"]),
    }
    if chance.random() < 0.3:
        link["term"] = chance.choice(_TEXTS)
    return link


def _choose(chance: random.Random, weights: dict[Any, int]) -> Any:
    (chosen,) = chance.choices(list(weights), list(weights.values()))
    return chosen
