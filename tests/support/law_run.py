"""A long run of the law: lives of stores, made from a seed.

Hypothesis draws the values once per run; a plain generator of random numbers puts them together.

Changes are begun in waves of up to 16, which an SQLite store may commit together. Every answer is
compared with what the model says of that change alone. After a wave each memory that it touched is
tried in one of the ways of `law_checks.CHECKS`, in turn; now and then the records of all memories;
and at the end of each life everything. So a violation shows at the end of its life at the latest.
"""

import multiprocessing
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from abilities.declarations.values import JsonObject
from tests.support.law import Trial
from tests.support.law_operations import VALUES, Open, Operation, Operations
from tests.support.law_places import Stores

WEIGHTS = {
    "store": 21,
    "update": 20,
    "remember": 8,
    "rename": 12,
    "delete": 12,
    "try_anything": 9,
    "call_wrongly": 6,
    "query": 6,
    "recall": 3,
    "import_lines": 1,
    "administer": 2,
}
"""Operations of each kind in a hundred."""

OPERATIONS_PER_LIFE = 400
"""Short, so that stores stay small and everything is checked often: at the end of each life."""


@dataclass(frozen=True)
class Life:
    """What happens to new stores from the first operation to the last."""

    quota: int | None
    room: int
    operations: Sequence[Operation]


class Pools:
    """Arguments of operations that hypothesis drew, by the operations' names."""

    def __init__(self, seed: int, size: int) -> None:
        self._pools = {
            name: draw_examples(st.fixed_dictionaries(values), seed, size)
            for name, values in VALUES.items()
        }

    def make_operation(self, chance: random.Random) -> Operation:
        (name,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        pool = self._pools[name]
        arguments: JsonObject = {}
        for argument in VALUES[name]:
            value, other = (chance.choice(pool)[argument] for _ in range(2))
            if isinstance(value, dict) and isinstance(other, dict):
                value = cross(value, other, chance)
            arguments[argument] = value
        return Operation(name, arguments)


def draw_examples(
    strategy: st.SearchStrategy[JsonObject], seed: int, size: int
) -> list[JsonObject]:
    examples: list[JsonObject] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
        ],
    )
    @given(strategy)
    def collect(example: JsonObject) -> None:
        examples.append(example)

    collect()
    return examples


def cross(first: JsonObject, second: JsonObject, chance: random.Random) -> JsonObject:
    """Return a dictionary whose every value, or its absence, comes from one of two."""
    crossed: JsonObject = {}
    for name in sorted(first.keys() | second.keys()):
        parent = chance.choice([first, second])
        if name in parent:
            crossed[name] = parent[name]
    return crossed


def make_lives(seed: int, operations: int) -> Iterator[Life]:
    chance = random.Random(seed)
    pools = Pools(seed, size=max(20, min(500, operations // 10)))

    while operations > 0:
        length = min(OPERATIONS_PER_LIFE, operations)
        operations -= length
        yield Life(
            quota=chance.choice([None, None, None, 6]),
            room=chance.choice([40_000, 64_000, 1_000_000]),
            operations=[pools.make_operation(chance) for _ in range(length)],
        )


class Task(NamedTuple):
    """What one process does: so many operations on new stores of some kinds, made from a seed."""

    folder: Path
    kinds: Sequence[str]
    server: str | None
    operations: int
    seed: int


def run_in_processes(task: Task, processes: int) -> None:
    if processes == 1:
        run_task(task)
        return

    tasks: list[Task] = []
    for number in range(processes):
        folder = task.folder / str(number)
        folder.mkdir()
        operations = (task.operations + number) // processes
        tasks.append(task._replace(folder=folder, operations=operations, seed=task.seed + number))

    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(run_task, tasks))


def run_task(task: Task) -> None:
    stores = Stores(task.folder, task.kinds, task.server)
    try:
        run(stores.open, task.operations, task.seed)
    finally:
        stores.end()


def run(open_stores: Open, operations: int, seed: int) -> None:
    """Run lives; of one that breaks the law, show the operations up to there."""
    total = 0
    for life in make_lives(seed, operations):
        try:
            live(open_stores, life)
        except Broken as broken:
            words = describe(life, broken.done)
            raise AssertionError(f"seed {seed}, after operation {total:,}:\n{words}") from broken
        total += len(life.operations)
        print(f"{total:,} operations", flush=True)


class Broken(Exception):
    """A life broke the law in the last of its operations that were ``done``, or thereafter."""

    def __init__(self, done: int) -> None:
        super().__init__(f"broken after {done} operations of its life")
        self.done = done


def live(open_stores: Open, life: Life) -> None:
    """Do all operations of a life, then check everything. Raises Broken."""
    settings: JsonObject = {"max_response_bytes": life.room}
    if life.quota is not None:
        settings["max_memories"] = life.quota

    trial = Trial(open_stores(settings), life.quota)
    operations = Operations(trial)
    done = 0
    try:
        trial.begin()
        for operation in life.operations:
            done += 1
            operations.perform(operation)
        trial.check_everything()
    except Exception as error:
        raise Broken(done) from error
    finally:
        trial.close()


def describe(life: Life, done: int) -> str:
    lines = [f"quota {life.quota}, room {life.room}"]
    lines += [
        f"{operation.name}(**{operation.arguments!r})" for operation in life.operations[:done]
    ]
    return "\n".join(lines)
