"""Laws: what was acknowledged is there, and the past is known as a model knows it."""

import asyncio
import json
import random
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from abilities.cli import store as commands
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.search import postings, selection
from abilities.helpers.store import (
    changing,
    history,
    past,
    queries,
    ranking,
    recall_index,
    saving,
)
from abilities.helpers.store import store as store_module
from abilities.helpers.store.model import Query, Row, dump_sorted_json
from abilities.helpers.store.opening import open_store
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.store.sqlite import transaction
from abilities.helpers.store.sqlite.backup import RestoredStore
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.support import postgres
from tests.support.law_places import Place, Stores
from tests.support.law_run import Broken, Life, Task, live, make_lives, run_in_processes
from tests.support.measurements import reached
from tests.support.past_trial import PastTrial
from tests.support.places import ENGINES
from tests.support.tier import size

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


RUN = size("ABILITIES_LAW_RUN", quick=100, full=300)
LOCKSTEP = size("ABILITIES_LAW_LOCKSTEP", quick=30, full=100)
PROCESSES = size("ABILITIES_LAW_PROCESSES", quick=1, full=1)
SEED = size("ABILITIES_LAW_SEED", quick=1, full=1)
"""What a run is made from; 0 chooses a new one, as every block of make torture does."""

PAST_TRIALS = {
    "sqlite": size("ABILITIES_HISTORY_LAW", quick=5, full=25),
    "postgres": size("ABILITIES_HISTORY_LAW", quick=2, full=12),
}
PAST_STEPS = 60

_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one: what a disk keeps is tried elsewhere."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return

    with tempfile.TemporaryDirectory(prefix="abilities-law-", dir=_MEMORY) as name:
        yield Path(name)


@contextmanager
def open_stores(
    folder: Path, *kinds: str, server: str | None = None
) -> Iterator[Callable[[JsonObject], Sequence[Place]]]:
    stores = Stores(folder, list(kinds), server)
    try:
        yield stores.open
    finally:
        stores.end()


def test_no_operation_of_a_long_run_breaks_the_law(folder: Path) -> None:
    task = Task(folder, ["sqlite"], None, RUN, SEED or secrets.randbits(32))

    run_in_processes(task, PROCESSES)

    reached(12, f"{RUN:,} random operations on sqlite: no violation")


def test_two_kinds_of_store_keep_the_law_in_lockstep(folder: Path, server: str) -> None:
    kinds = ["sqlite", "postgres"]
    task = Task(folder, kinds, server, LOCKSTEP, SEED or secrets.randbits(32))

    run_in_processes(task, PROCESSES)

    reached(12, f"{LOCKSTEP:,} random operations on sqlite and postgres: no violation")


Offense = Callable[[pytest.MonkeyPatch], None]


def instead_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], Offense]:
    """Make an offense of what is done in place of a function; it gets that function first."""

    def make_offense(act: Callable[..., Any]) -> Offense:
        @wraps(act)
        def offend(monkeypatch: pytest.MonkeyPatch) -> None:
            original = getattr(owner, name)

            def act_instead(*arguments: Any, **named: Any) -> Any:
                return act(original, *arguments, **named)

            monkeypatch.setattr(owner, name, act_instead)

        return offend

    return make_offense


@instead_of(transaction, "add_text")
def index_half_a_content(add_text: Any, connection: Any, memory: int, text: str) -> None:
    """Let the search index know the first half of changed texts."""
    add_text(connection, memory, text[: len(text) // 2])


@instead_of(saving, "change_terms")
async def recall_what_is_archived(
    change_terms: Any, transaction: Any, before: Row | None, after: Row | None, *place: Any
) -> None:
    """Leave the words of recall among those of present memories when one is archived."""
    if before is not None and after is not None:
        after = after._replace(archived=before.archived)
    await change_terms(transaction, before, after, *place)


@instead_of(commands, "restore")
def restore_nothing(*_: Any, replace: bool) -> RestoredStore:
    """Say that a backup was restored, and leave the store as it is."""
    return RestoredStore(None, [])


@instead_of(history, "describe_before")
def lose_a_link(describe_before: Any, *arguments: Any) -> str:
    """Write entries of the history without the last of the links that a change replaced."""
    before = json.loads(describe_before(*arguments))
    if before.get("links"):
        before["links"].pop()
    return dump_sorted_json(before)


@instead_of(past, "delete_history")
async def keep_what_was_purged(*_: Any) -> None:
    """Delete a memory that is to be purged, and keep its history."""


@instead_of(SqliteStore, "change_many")
async def apply_half_a_batch(change_many: Any, *arguments: Any, atomic: bool) -> Any:
    """Keep what was made of an atomic batch before one of its changes was refused."""
    return await change_many(*arguments, atomic=False)


@instead_of(past, "save_relinked")
async def forget_who_followed(*_: Any) -> None:
    """Write no entries for memories whose links followed a rename."""


@instead_of(history, "restore_row")
def restore_without_tags(restore_row: Any, *arguments: Any) -> Any:
    """Restore memories without their tags."""
    return restore_row(*arguments)._replace(tags="[]")


@instead_of(changing, "check_version")
def ignore_the_version(*_: Any) -> None:
    """Make changes whatever version they name."""


@instead_of(changing, "expire_memories")
async def expire_nothing(*_: Any, **__: Any) -> None:
    """Leave memories as they are when their end passes."""


@instead_of(recall_index, "merge")
def lose_a_posting(merge: Any, docs: bytes, weights: dict[int, int]) -> bytes:
    """Leave a memory out of the postings of a word when recent changes are merged."""
    kept: bytes = merge(docs, dict(list(weights.items())[1:]))
    return kept


@instead_of(ranking, "_correct_ranks")
def leave_ranks_stale(correct_ranks: Any, rows: Any, _: Any, side: Any) -> Any:
    """Show links with stale ranks as if these were right."""
    return correct_ranks(rows, {}, side)


@instead_of(queries, "_select_matching")
def find_any_category(select_matching: Any, query: Query, tags: Any) -> Any:
    """Let queries find memories of every category."""
    return select_matching(replace(query, category=None), tags)


OFFENSES = [index_half_a_content, recall_what_is_archived, restore_nothing]
PAST_OFFENSES = [lose_a_link, keep_what_was_purged, apply_half_a_batch, forget_who_followed]
PAST_OFFENSES += [restore_without_tags, ignore_the_version, expire_nothing]
PAST_OFFENSES += [lose_a_posting, leave_ranks_stale, find_any_category]


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    """Two lives, always the same."""
    return list(make_lives(1, 4_000))


@pytest.mark.thorough
@pytest.mark.parametrize("offend", OFFENSES)
def test_a_run_notices_who_breaks_the_law_out_of_sight(
    offend: Offense, monkeypatch: pytest.MonkeyPatch, folder: Path, lives: list[Life]
) -> None:
    offend(monkeypatch)

    with open_stores(folder, "sqlite") as opener, pytest.raises(Broken):
        for life in lives:
            live(opener, life)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_knows_the_past_as_its_model_does(
    engine: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("server") if engine == "postgres" else None
    first = SEED or secrets.randbits(32)
    for seed in range(first, first + PAST_TRIALS[engine]):
        try:
            asyncio.run(try_past(seed, server))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.thorough
@pytest.mark.parametrize("offend", PAST_OFFENSES)
def test_a_trial_notices_who_breaks_the_past(
    offend: Offense, monkeypatch: pytest.MonkeyPatch
) -> None:
    offend(monkeypatch)

    with pytest.raises((AssertionError, Refused)):
        for seed in range(10):
            asyncio.run(try_past(seed))


@contextmanager
def small_bounds(chance: random.Random) -> Iterator[None]:
    """Let many ranks be stale, and let the blocks of the recall index hold few memories."""
    block = chance.choice([4, postings.BLOCK_DOCS])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranking, "MOST_UPDATED", chance.choice([0, 1, 2, 4]))
        patched.setattr(ranking, "MOST_STALE", chance.choice([0, 1, 3, 100]))
        patched.setattr(ranking, "BLOCK", chance.choice([1, 2, 5]))
        patched.setattr(recall_index, "MOST_RECENT", chance.choice([0, 40, 100_000]))
        patched.setattr(recall_index, "PART_BLOCKS", 2)
        for module in (postings, selection):
            patched.setattr(module, "BLOCK_DOCS", block)
        yield


async def try_past(seed: int, server: str | None = None) -> None:
    """Make the changes of a seed in a new store, and compare all that it and its copies know then.

    What a database holds is copied into another one and into a file.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(small_bounds(random.Random(seed)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = [f"sqlite:///{folder}/{name}.db" for name in ("one", "two")]
        if server is not None:
            urls[:1] = [stack.enter_context(postgres.database(server)) for _ in range(2)]

        stores: list[ServableStore] = []
        for url in urls:
            stores.append(open_store(url))
            stack.push_async_callback(stores[-1].close)

        store, *others = stores
        trial = PastTrial(store, seed, expires=True)
        with patch.object(store_module, "utc_now", lambda: trial.now):
            await trial.run(PAST_STEPS)
            for number, other in enumerate(others):
                await trial.check_moved(other, folder / f"{number}.jsonl")
