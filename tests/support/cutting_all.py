"""The naive way to share a reply's room: every item that is not small is cut at one level.

It is the control that whole files first is compared with.
"""

from collections.abc import Callable, Sequence

from abilities.helpers.reply.budget import MIN_SHARE, ItemSize

Share = Callable[[Sequence[ItemSize], int], list[int | None]]

ROOM = 63_700
"""Bytes for the records of a reply at the default bound."""


def cut_all(costs: Sequence[ItemSize], room: int) -> list[int | None]:
    """Return the content bytes granted to each item; the last are left out if all are too many."""
    included = len(costs)
    level: int | None = None

    for included in range(len(costs), 0, -1):
        left_out = sum(cost.left_out for cost in costs[included:])
        level = _find_level(costs[:included], room - left_out)
        if level is None or level >= MIN_SHARE or included == 1:
            break

    grants: list[int | None] = []
    for cost in costs[:included]:
        if level is None or _measure_saved(cost) <= level:
            grants.append(cost.content)
        else:
            grants.append(max(level, MIN_SHARE))

    return [*grants, *([None] * (len(costs) - included))]


def _find_level(costs: Sequence[ItemSize], room: int) -> int | None:
    """Return the highest level at which all items fit if they are cut there; None if all fit."""
    spare = room - sum(cost.cut_overhead for cost in costs)
    needs = sorted(_measure_saved(cost) for cost in costs)

    for index, need in enumerate(needs):
        level = spare // (len(needs) - index)
        if need > level:
            return level
        spare -= need

    return None


def _measure_saved(cost: ItemSize) -> int:
    """Return the content bytes up to which the whole item costs no more than a cut one."""
    return cost.content + cost.overhead - cost.cut_overhead


def follow(share: Share, sizes: Sequence[int]) -> tuple[int, int]:
    """Ask for items of these sizes until all has come; return how many replies and fragments."""
    left = dict(enumerate(sizes))
    replies = fragments = 0

    while left:
        replies += 1
        costs = [
            ItemSize(overhead=250, cut_overhead=420, left_out=200, content=size)
            for size in left.values()
        ]
        for index, granted in zip(list(left), share(costs, ROOM), strict=True):
            if granted is None:
                continue

            fragments += 1
            left[index] -= granted
            if left[index] <= 0:
                del left[index]

    return replies, fragments
