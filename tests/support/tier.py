"""How much a run tries: the quick tier shows every behavior once, the full tier tries it at length.

The environment variable ``ABILITIES_TESTS`` (``quick`` or ``all``) chooses the tier; ``make test``
and ``make test-all`` set it. Without it everything runs.
"""

import os
import zlib

import pytest

from tests.support.surfaces import SURFACES

QUICK = os.environ.get("ABILITIES_TESTS", "all") == "quick"


def size(variable: str, *, quick: int, full: int) -> int:
    """Return how often to try something: the environment variable's number, or else the tier's."""
    chosen = os.environ.get(variable)
    if chosen is not None:
        return int(chosen)

    return quick if QUICK else full


def is_in_quick_tier(item: pytest.Item) -> bool:
    """Return whether the quick tier runs a test.

    It leaves out tests marked ``thorough``. Of a test that runs once per surface it runs one
    surface, which a hash of the test's name chooses: each surface is compared with Python on its
    share of all cases.
    """
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
    if callspec is None:
        return None

    parameters = callspec.params.values()
    return next(
        (value for value in parameters if isinstance(value, str) and value in SURFACES), None
    )
