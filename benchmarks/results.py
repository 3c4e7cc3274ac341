"""The results that are kept: results.json, from which the chart and the documents are made."""

import os
import platform
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchmarks.measure import Measured

RESULTS = Path(__file__).parent / "results.json"


class Effort(NamedTuple):
    """How much is measured.

    ``rounds`` per measurement; ``stores`` are the memories of a small, a middle and a large store;
    ``graphs`` and ``kv_memory_graphs`` are the memories of the graphs that rivals hold too, and
    ``growth`` those of the stores that are written to beside the small one.
    """

    rounds: int
    stores: tuple[int, int, int]
    graphs: tuple[int, ...]
    kv_memory_graphs: tuple[int, ...]
    growth: tuple[int, ...]


def load_results(path: Path = RESULTS) -> list[Measured]:
    """Return the results that were kept."""
    document = orjson.loads(path.read_bytes())
    results: list[Measured] = []
    for row in document["results"]:
        del row["met"]
        results.append(Measured(**row))

    return results


def keep_all(results: list[Measured], effort: Effort) -> None:
    """Write results.json: the results of one whole run."""
    machine = {
        "processors": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    _write({"machine": machine, **effort._asdict()}, results)


def keep_some(results: list[Measured]) -> None:
    """Write some results into results.json, in place of those of the same rows."""
    document = orjson.loads(RESULTS.read_bytes())
    del document["results"]
    _write(document, replace_results(load_results(), results))


def _write(document: dict[str, Any], results: list[Measured]) -> None:
    rows = [{**result._asdict(), "met": result.met} for result in sort_results(results)]
    content = orjson.dumps({**document, "results": rows}, option=orjson.OPT_INDENT_2)
    RESULTS.write_bytes(content + b"\n")


def replace_results(old: list[Measured], new: list[Measured]) -> list[Measured]:
    """Return the old results with the new ones in place of those of the same row."""
    rows = {(result.what, result.bound): result for result in [*old, *new]}
    return list(rows.values())


def sort_results(results: list[Measured]) -> list[Measured]:
    """Return results by the numbers of their goals, and the bounds of each row side by side."""
    first: dict[str, int] = {}
    for position, result in enumerate(results):
        first.setdefault(result.what, position)

    return sorted(
        results,
        key=lambda result: (
            int(result.goal.rstrip("bcf")),
            first[result.what],
            result.bound or 0,
        ),
    )


class Results:
    """Results by their row and bound."""

    def __init__(self, results: Iterable[Measured]) -> None:
        self.all = sort_results(list(results))
        self._by_row = {(result.what, result.bound): result for result in self.all}

    def find(self, what: str, bound: int | None) -> Measured | None:
        """Return the result of a row at a bound."""
        return self._by_row.get((what, bound))

    def list_rows(self, *, replies: bool) -> list[str]:
        """Return the rows about replies, which have a bound, or all others."""
        rows = [result.what for result in self.all if bool(result.bound) is replies]
        return list(dict.fromkeys(rows))
