"""How much a run tries: the quick tier shows every behavior once, the full tier tries it at length.

The environment variable ``ABILITIES_TESTS`` (``quick`` or ``all``) chooses the tier; ``make test``
and ``make test-all`` set it. Without it everything runs.
"""

import os
import re
import zlib
from collections.abc import Sequence

import pytest

from tests.support.surfaces import SURFACES

QUICK = os.environ.get("ABILITIES_TESTS", "all") == "quick"

MEMORY = "/dev/shm"
"""A folder in memory: a store waits for the disk at each change, and here for none."""

_ROOM_BYTES = 4 << 30

_ENGINE = re.compile(r"(?<=[\[-])(?:sqlite|postgres(?:ql)?)(?=[]-])")
"""The engine among the parameters of a test, which its name ends with."""


def size(variable: str, *, quick: int, full: int) -> int:
    """Return how often to try something: the environment variable's number, or else the tier's."""
    chosen = os.environ.get(variable)
    if chosen is not None:
        return int(chosen)
    return quick if QUICK else full


def has_room_in_memory() -> bool:
    """Return whether the folder is large enough, and programs may be started there.

    That of a container is often small.
    """
    if not os.path.isdir(MEMORY):
        return False
    room = os.statvfs(MEMORY)
    return room.f_bavail * room.f_frsize >= _ROOM_BYTES and not room.f_flag & os.ST_NOEXEC


def choose_quick_tier(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that the quick tier runs, in their order.

    It leaves out tests marked ``thorough``. Of a test that runs once per surface it runs one
    surface, and of one that runs once per engine it runs one engine, which a hash of the test's
    name chooses: each surface is compared with Python on its share of all cases, and each engine
    has its share. Of the cases of a test marked ``sampled`` it runs as many as the mark says.
    """
    candidates = [item for item in items if _is_in_quick_tier(item)]
    cases: dict[str, list[pytest.Item]] = {}
    for item in candidates:
        if item.get_closest_marker("sampled"):
            name = item.nodeid.partition("[")[0]
            cases.setdefault(name, []).append(item)

    left_out: set[str] = set()
    for tests in cases.values():
        mark = tests[0].get_closest_marker("sampled")
        assert mark is not None
        (count,) = mark.args
        chosen = spread(count, len(tests))
        left_out |= {test.nodeid for n, test in enumerate(tests) if n not in chosen}
    return _choose_engines([item for item in candidates if item.nodeid not in left_out])


def _choose_engines(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return tests without those of the other engine, if the same test runs on several."""
    engines: dict[str, list[str]] = {}
    for item in items:
        engines.setdefault(_ENGINE.sub("*", item.nodeid), []).append(item.nodeid)

    chosen: set[str] = set()
    for case, names in engines.items():
        chosen.add(sorted(names)[zlib.crc32(case.encode()) % len(names)])
    return [item for item in items if item.nodeid in chosen]


def spread(count: int, total: int) -> set[int]:
    """Return so many of the numbers below a total, evenly from the first to the last.

    Of two lists of values that are combined, the first and the last case have no value in common.

    >>> sorted(spread(2, 8)), sorted(spread(3, 10)), sorted(spread(1, 5)), sorted(spread(9, 2))
    ([0, 7], [0, 4, 9], [0], [0, 1])
    """
    if count >= total:
        return set(range(total))
    if count == 1:
        return {0}
    return {n * (total - 1) // (count - 1) for n in range(count)}


def _is_in_quick_tier(item: pytest.Item) -> bool:
    if item.get_closest_marker("thorough"):
        return False
    surface = _find_surface(item)
    if surface is None:
        return True
    case = item.nodeid.replace(surface, "*")
    chosen = zlib.crc32(case.encode()) % len(SURFACES)
    return list(SURFACES)[chosen] == surface


def _find_surface(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    values = () if callspec is None else callspec.params.values()
    return next((one for one in values if isinstance(one, str) and one in SURFACES), None)
