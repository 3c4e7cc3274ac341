"""The reader in process: against a bare loop, and through its thread against inline."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from abilities import Abilities, Settings
from abilities.builtin.files import file_read_bulk as read_files
from abilities.declarations.read import FileReadBulkInput
from abilities.definition import Context
from abilities.helpers.files.confinement import parse_path
from abilities.helpers.files.files import Files
from abilities.helpers.files.reader import ReadingSession, Root
from abilities.helpers.threads.circuit_breaker import CircuitBreaker
from abilities.helpers.threads.workers import Batch, Worker, WorkerPool
from benchmarks.measure import Measured, Work, run_shuffled
from benchmarks.peers import BOUNDS, LARGE_BOUND
from benchmarks.workloads import Workload, write_files


class ReaderGoal(NamedTuple):
    """The size of the files in KB, the folders above them, and what is wanted."""

    kilobytes: int
    beneath: str
    wanted: str


READER_GOALS = (
    ReaderGoal(1, "", "<= 2.8x"),
    ReaderGoal(1, "a/b/c/d/", "<= 3x"),
    ReaderGoal(16, "", "<= 2x"),
    ReaderGoal(256, "", "<= 1.6x"),
)


def build_settings(base: Path, bound: int = LARGE_BOUND) -> Settings:
    """Return settings for the two roots in a folder."""
    return Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        max_response_bytes=bound,
        store_url=f"sqlite:///{base}/memory.db",
    )


def build_roots(settings: Settings) -> list[Root]:
    """Return the roots that an application would read from."""
    return [Root(place.name, place.path) for place in settings.roots]


async def measure_reader(base: Path, rounds: int) -> list[Measured]:
    """The safe reader in process against a bare loop of open, read, close."""
    results: list[Measured] = []
    settings = build_settings(base)
    reader = Files(build_roots(settings), settings.policy, WorkerPool())
    showing_secrets = replace(settings.policy, redacts=False)
    showing = Files(build_roots(settings), showing_secrets, WorkerPool())
    workloads = [
        write_files(settings.workspace_dir, goal.kilobytes, goal.beneath) for goal in READER_GOALS
    ]
    workloads[-1].settle()

    for goal, workload in zip(READER_GOALS, workloads, strict=True):
        variants = prepare_readers(reader, workload)
        variants["showing"] = prepare_readers(showing, workload)["safe"]
        timings = await run_shuffled(variants, rounds * 10)

        depth = f", {goal.beneath.count('/')} folders deep" if goal.beneath else ""
        what = f"safe reader against a bare loop, {workload.label}{depth}"
        note = f"{timings['showing'] / timings['bare']:.2f}x with redact = false"
        results.append(timings.ratio("4", what, goal.wanted, "safe", "bare", note=note))

    return results


def prepare_readers(reader: Files, workload: Workload) -> dict[str, Work]:
    """Return the safe way and the bare way to read some files, after checking both."""
    contents = list(workload.contents.values())

    def read_safely() -> list[Any]:
        with open_session(reader) as session:
            return [session.read(parse_path(name), 1_000_000) for name in workload.names]

    sizes = {path: len(text) for path, text in zip(workload.paths, contents, strict=True)}

    def read_barely() -> list[bytes]:
        return read_bare(sizes)

    assert [text.encode() for text in contents] == read_barely()
    assert [read.piece.text for read in read_safely()] == contents
    return {"safe": read_safely, "bare": read_barely}


@contextmanager
def open_session(reader: Files) -> Iterator[ReadingSession]:
    """Open a reading session on this thread, as a worker would."""
    batch: Batch[ReadingSession, object, None] = Batch(
        reader.open_session, lambda *_: None, [], CircuitBreaker(), lambda: None
    )
    with reader.open_session(Worker(batch)) as session:
        yield session


def read_bare(sizes: dict[str, int]) -> list[bytes]:
    """Read files of known sizes at the least possible cost: open, read, close."""
    contents: list[bytes] = []

    for path, size in sizes.items():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            contents.append(os.read(descriptor, size + 1))
        finally:
            os.close(descriptor)

    return contents


class InlineWorkerPool(WorkerPool):
    """Workers that do the work on the thread that calls them."""

    async def map(self, open_session: Any, function: Any, items: Any) -> list[Any]:
        """Run the same batch without a thread."""
        batch = Batch(open_session, function, items, CircuitBreaker(), lambda: None)
        batch.run(Worker(batch))
        return batch.results


async def measure_thread(base: Path, rounds: int) -> list[Measured]:
    """A call through its thread against the same call inline."""
    results: list[Measured] = []
    workloads = [write_files(base / "workspace", kilobytes) for kilobytes in (1, 16)]
    workloads[-1].settle()

    for bound in BOUNDS:
        settings = build_settings(base, bound)
        inline_reader = Files(build_roots(settings), settings.policy, InlineWorkerPool())
        async with Abilities.open(settings) as abilities:
            inline_context = replace(abilities.context, files=inline_reader)
            for workload in workloads:
                arguments = FileReadBulkInput(paths=workload.names)
                variants = {
                    "thread": prepare_call(abilities.context, arguments),
                    "inline": prepare_call(inline_context, arguments),
                }
                timings = await run_shuffled(variants, rounds * 10)

                what = f"async call against the same inline, one call for {workload.label}"
                results.append(timings.ratio("5", what, "<= 2x", "thread", "inline", bound=bound))

    return results


def prepare_call(context: Context, arguments: FileReadBulkInput) -> Work:
    """Return a function that reads files."""
    return lambda: read_files(context, arguments)
