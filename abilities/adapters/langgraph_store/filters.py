"""Which items pass the filter of a search, and which namespaces match conditions."""

from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, cast

from langgraph.store.base import MatchCondition

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}


def passes(value: Mapping[str, object], conditions: Mapping[str, object] | None) -> bool:
    """Return whether a value has what each condition asks of one of its fields.

    A condition is a value, an object of operators such as ``{"$gt": 3}``, an object of conditions
    for fields within the field, or a list of conditions for each element. Raises ValueError for an
    operator that is not known.
    """
    for field, condition in (conditions or {}).items():
        if not _fits(value.get(field), condition):
            return False

    return True


def _fits(value: object, condition: object) -> bool:
    if isinstance(condition, Mapping):
        conditions = cast(Mapping[str, object], condition)
        if any(name.startswith("$") for name in conditions):
            return all(_compare(value, name, bound) for name, bound in conditions.items())

        return isinstance(value, dict) and passes(cast(dict[str, object], value), conditions)

    if isinstance(condition, list | tuple):
        return _fit_all(value, cast(Sequence[object], condition))

    return value == condition


def _fit_all(value: object, conditions: Sequence[object]) -> bool:
    if not isinstance(value, list):
        return False

    elements = cast(list[object], value)
    return len(elements) == len(conditions) and all(map(_fits, elements, conditions))


def _compare(value: object, operator: str, bound: object) -> bool:
    """Apply an operator. Raises ValueError for one that is not known."""
    if operator == "$eq":
        return value == bound
    if operator == "$ne":
        return value != bound

    compare = _COMPARISONS.get(operator)
    if compare is None:
        raise ValueError(f"Unsupported operator: {operator}")

    numbers = _to_number(value), _to_number(bound)
    if None not in numbers:
        return compare(*numbers)

    # Such as dates, whose texts have their order.
    if isinstance(value, str) and isinstance(bound, str):
        return compare(value, bound)

    return False


def _to_number(value: object) -> float | None:
    """Return a number, or the one that a text tells; None for anything else."""
    if not isinstance(value, int | float | str):
        return None

    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends with a path, in which ``*`` is any label.

    Raises ValueError for another kind of match.
    """
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False

    labels = namespace[: len(path)]
    if condition.match_type == "suffix":
        labels = namespace[len(namespace) - len(path) :]

    return all(wanted in ("*", label) for label, wanted in zip(labels, path, strict=True))
