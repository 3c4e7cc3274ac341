"""The project that the twelve tasks are about: its files, its log, its notes and its memories.

Everything is made from a seed, but the 25 real sources, which are modules of the standard library.
"""

import random
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.workloads import copy_sources

LIMITED = "rate_limit"
"""A name that five files and yesterday's notes mention."""

_MENTIONS = (
    "rate_limit counts the bytes of both directions",
    "rate_limit is read once at the start",
    "rate_limit of zero means that nothing is limited",
    "rate_limit must not be shared between threads",
)

_FILES = {
    "src/tern/delays.py": '''"""How long to wait before the next attempt."""

import random
from collections.abc import Iterable

LONGEST = 90.0


def next_delay(attempt: int, base: float = 0.25) -> float:
    """Return the seconds to wait, doubled with each attempt, with jitter."""
    delay = min(LONGEST, base * 2**attempt)
    if attempt > 12:
        raise TimeoutError("no further attempt after the twelfth")
    return delay * random.uniform(0.5, 1.0)
''',
    "tests/test_delays.py": '''"""The delays between attempts."""

import pytest

from tern.delays import next_delay


def test_a_delay_is_never_longer_than_the_longest() -> None:
    assert next_delay(12) <= 90.0


def test_there_is_a_last_attempt() -> None:
    with pytest.raises(TimeoutError):
        next_delay(13)
''',
    "src/tern/queue.py": '''"""The queue of deliveries, kept in the database."""

LEASE_SECONDS = 45


def claim(connection, worker: str) -> list[int]:
    """Lease the oldest deliveries to a worker, and return their ids."""
    rows = connection.execute(
        "UPDATE deliveries SET worker = ?, leased_until = unixepoch() + ? "
        "WHERE id IN (SELECT id FROM deliveries WHERE leased_until < unixepoch() LIMIT 20) "
        "RETURNING id",
        (worker, LEASE_SECONDS),
    )
    return [row[0] for row in rows]
''',
    "src/tern/worker.py": '''"""The worker that drains the queue."""

import time

from tern.queue import claim

PAUSE_SECONDS = 1.5


def drain(connection, name: str, deliver) -> None:
    """Deliver what is due until there is nothing left."""
    while deliveries := claim(connection, name):
        for delivery in deliveries:
            deliver(delivery)
        time.sleep(PAUSE_SECONDS)
''',
    "docs/architecture.md": """# Architecture

Tern takes deliveries over HTTP, keeps them in a queue and hands them to couriers.
The rate_limit of a client is checked before its delivery is stored.
""",
    "docs/deploying.md": """# Deploying

Tag the commit, wait for the build, then promote it from staging.
""",
    "README.md": """# Tern

A service that plans deliveries. See docs/architecture.md.
""",
}

LOG = "logs/service.log"
_LOG_LINES = 60_000
_LOG_TAIL = 120
"""Lines behind the error."""

_ERROR = (
    "ERROR delivery 90817 failed",
    "  connection to courier-gateway-3 was closed after 31 bytes",
    "  lease of worker-7 had expired 4 seconds before",
)


class Fact(NamedTuple):
    """A memory: its key, type and content, and the keys that it links to."""

    key: str
    content: str
    links: tuple[str, ...] = ()
    type: str = "learning"


ROUNDING = (
    Fact("billing/rounding", "Invoices are rounded per line, half to even, since the audit."),
    Fact("billing/ledger", "Tests of how invoices are rounded compare with the ledger export."),
    Fact(
        "billing/totals",
        "Totals of invoices are never rounded again: the tax office sent 41 of them back.",
        ("people/mirela",),
    ),
    Fact("people/mirela", "Mirela signs for every change there, in writing."),
)

DECISION = Fact(
    "decisions/queue",
    "Decided: the queue is drained by workers with leases, not by cron. "
    "See src/tern/queue.py and src/tern/worker.py.",
)

OPEN_TASKS = (
    Fact("todo/metrics", "Open: export the age of the oldest delivery.", (), "task"),
    Fact("todo/couriers", "Open: couriers without a phone get no reminder.", (), "task"),
    Fact("todo/restore", "Open: try the restore of the nightly backup.", (), "task"),
)

STAGING = Fact("staging/port", "Staging listens on port 8443, behind the proxy.")
STAGING_NOW = "Staging listens on port 9443, behind the proxy."

WINDOW = Fact("deploy/window", "Releases go out on Tuesdays between 7 and 9 UTC.")
WINDOW_WRONG = "Releases go out whenever the build is green."

ROOT = "storage/overview"
CHAIN = (
    Fact(ROOT, "Storage has three parts.", ("storage/rows", "storage/blobs", "storage/cache")),
    Fact("storage/rows", "Rows are in SQLite.", ("storage/wal", "storage/vacuum")),
    Fact("storage/blobs", "Photos are on the disk of the hub.", ("storage/hub", "storage/quota")),
    Fact("storage/cache", "Maps are cached.", ("storage/tiles", "storage/eviction")),
    Fact("storage/wal", "The log of SQLite is checkpointed by hand at night."),
    Fact("storage/vacuum", "Vacuum runs on the first Sunday and takes 11 minutes."),
    Fact("storage/hub", "The hub is in Rotterdam and has two disks of 4 TB."),
    Fact("storage/quota", "A courier may keep 300 photos, then the oldest goes."),
    Fact("storage/tiles", "Tiles come from the provider in zoom levels 9 to 15."),
    Fact("storage/eviction", "The least used tile leaves when 2 GB are full."),
)

FINDINGS = tuple(
    Fact(f"findings/retry-{number}", content, links)
    for number, content, links in (
        (1, "Retries begin in the gateway, not in the worker.", ("findings/retry-2",)),
        (2, "The gateway retries 6 times within 3 seconds.", ("findings/retry-3",)),
        (3, "Six retries fill the pool of 20 connections.", ("findings/retry-4",)),
        (4, "A full pool makes leases expire.", ("findings/retry-5",)),
        (5, "Expired leases are delivered twice, which couriers see.", ("decisions/queue",)),
    )
)
"""What is recorded: each is linked to the next one, the last to the decision."""

_WORDS = """
courier parcel depot route signature scale barcode customer label pallet van driver shift map
postcode street bridge ferry weather refund return locker key bell gate dog lift ramp trolley
crane dock seal badge glove helmet whistle lamp tyre engine seat belt mirror horn
"""
"""None of those that the tasks ask for, so that a search for one of those finds no others."""
_OTHERS = 300


class World(NamedTuple):
    """The project: its two folders, its sources and all files by name, and its notes.

    ``notes`` are the lasting ones, yesterday's and today's.
    """

    workspace: Path
    agent: Path
    sources: dict[str, str]
    files: dict[str, str]
    yesterday: date
    notes: list[str]


def list_contents(facts: Iterable[Fact]) -> list[str]:
    """Return the contents of memories."""
    return [fact.content for fact in facts]


def list_memories() -> list[Fact]:
    """Return all memories: those that the tasks are about, among others."""
    chance = random.Random(1)
    words = _WORDS.split()
    others = [
        Fact(f"notes/{number:03}", " ".join(chance.choices(words, k=25)).capitalize() + ".")
        for number in range(_OTHERS)
    ]
    wanted = [*ROUNDING, DECISION, *OPEN_TASKS, STAGING, WINDOW, *CHAIN]
    return [*others[: _OTHERS // 2], *wanted, *others[_OTHERS // 2 :]]


def make_world(base: Path) -> World:
    """Write the files, the log and the notes beneath a folder with both roots."""
    workspace, agent = base / "workspace", base / "agent"
    sources = copy_sources(workspace).contents
    add_mentions(workspace, sources)

    for name, content in _FILES.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    write_log(workspace / LOG)
    today = datetime.now(UTC).date()
    notes = write_notes(agent, today)
    return World(workspace, agent, sources, {**sources, **_FILES}, today - timedelta(days=1), notes)


def add_mentions(workspace: Path, sources: dict[str, str]) -> None:
    """Add a comment to some of the sources, far apart."""
    chosen = list(sources)[3::6]

    for name, mention in zip(chosen, _MENTIONS, strict=True):
        sources[name] += f"\n# {mention}\n"
        (workspace / name).write_text(sources[name])


def list_mentions() -> list[str]:
    """Return the lines of files that mention the name."""
    return [*_MENTIONS, f"The {LIMITED} of a client is checked before its delivery is stored."]


def write_log(path: Path) -> None:
    """Write a log of some megabytes with one error near its end."""
    chance = random.Random(2)
    path.parent.mkdir(parents=True, exist_ok=True)

    with path.open("w") as log:
        for number in range(_LOG_LINES):
            if number == _LOG_LINES - _LOG_TAIL:
                log.write("\n".join(_ERROR) + "\n")
            seconds = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
            took = chance.randrange(5, 900)
            log.write(f"{seconds} INFO delivery {30_817 + number} stored in {took} ms, step end\n")


def list_error_lines() -> list[str]:
    """Return the lines of the error, with the deliveries before it and after it."""
    last = 30_817 + _LOG_LINES - _LOG_TAIL - 1
    return [f"INFO delivery {last} stored", *_ERROR, f"INFO delivery {last + 1} stored"]


def write_notes(agent: Path, today: date) -> list[str]:
    """Write the lasting notes, and those of the last two days."""
    (agent / "memory").mkdir(parents=True, exist_ok=True)
    texts = {
        "MEMORY.md": "The user is Ines. She wants short answers and no emoji.\n"
        "Tern is deployed from the main branch only.\n",
        f"memory/{today - timedelta(days=1)}.md": "Looked into the complaints of courier 12.\n"
        f"Left off: {LIMITED} is ignored for clients without a token.\n",
        f"memory/{today}.md": "Ines is away in the afternoon; the review is at 11.\n",
    }
    for name, text in texts.items():
        (agent / name).write_text(text)

    return list(texts.values())
