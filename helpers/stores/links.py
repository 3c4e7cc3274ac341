"""A link as it was read from a store, with its rank and hash: whether it is sound, and what a walk is told of it."""

from collections.abc import Container
from typing import Any

from abilities.helpers.stores.rows import hash_of
from abilities.helpers.traversal import Link


def link_of(found: tuple[Any, ...], invalid: Container[str]) -> Link:
    """A link from its source, target, type, weight, rank and hash; ``invalid`` targets cannot be walked to."""
    _, target, kind, weight, rank, _ = found
    if not is_sound(found) or target in invalid:
        return Link(str(target), 0.0, str(kind), -2.0, "invalid")
    return Link(target, weight, kind, rank, "absent" if rank < 0 else "present")


def is_sound(found: tuple[Any, ...]) -> bool:
    """Whether a link is as it was written, and its weight can be."""
    try:
        return bool(hash_of(found[:5]) == found[5] and 0 <= found[3] <= 1)
    except TypeError:
        return False
