"""Values of a configuration, of which nothing is known beforehand."""

from typing import cast


def as_list(value: object) -> list[object]:
    """Return the elements of an array, none for anything else."""
    if isinstance(value, list):
        return cast("list[object]", value)

    return []
