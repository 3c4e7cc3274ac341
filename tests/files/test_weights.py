"""Weights: the fair level and the order in which items of different weights are granted."""

from fractions import Fraction

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities.helpers.reply.budget import find_level, rank
from tests.support.tier import size

many = hypothesis_settings(
    max_examples=size("ABILITIES_EXAMPLES", quick=60, full=600), deadline=None
)

Items = list[tuple[int, int]]
weights = st.integers(1, 9)
few = st.lists(st.tuples(st.integers(0, 60), weights), min_size=1, max_size=6)
batches = st.lists(st.tuples(st.integers(0, 100_000), weights), min_size=1, max_size=25)
rooms = st.integers(-100, 200_000)


def divide(items: Items) -> tuple[list[int], list[int]]:
    return [need for need, _ in items], [weight for _, weight in items]


@many
@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=25), rooms, weights)
def test_equal_weights_are_no_weights(sizes: list[int], room: int, weight: int) -> None:
    assert rank(sizes, room, [1] * len(sizes)) == rank(sizes, room)
    assert find_level(sizes, room, [1] * len(sizes)) == find_level(sizes, room)
    assert sorted(rank(sizes, room, [weight] * len(sizes))) == sorted(rank(sizes, room))


@many
@given(few, st.integers(0, 600))
def test_the_level_is_the_highest_at_which_all_fit(items: Items, room: int) -> None:
    """An independent oracle: try one level after another."""
    sizes, weights = divide(items)

    def take(level: int) -> int:
        return sum(min(need, level * weight) for need, weight in items)

    tallest = max(-(-need // weight) for need, weight in items)
    fitting = [level for level in range(tallest + 1) if take(level) <= room]

    assert find_level(sizes, room, weights) == fitting[-1]


@many
@given(batches, rooms)
def test_small_items_come_first_by_height_and_large_ones_by_weight(items: Items, room: int) -> None:
    sizes, weights = divide(items)
    level = find_level(sizes, room, weights)

    order = rank(sizes, room, weights)

    assert sorted(order) == list(range(len(items)))
    is_small = [sizes[index] <= level * weights[index] for index in order]
    assert is_small == sorted(is_small, reverse=True)
    count = sum(is_small)
    heights = [(Fraction(sizes[index], weights[index]), index) for index in order[:count]]
    assert heights == sorted(heights)
    large = [(-weights[index], index) for index in order[count:]]
    assert large == sorted(large)


@many
@given(batches, rooms, st.integers(0, 100_000), weights, weights)
def test_of_two_equal_items_the_heavier_comes_first(
    items: Items, room: int, need: int, one: int, other: int
) -> None:
    sizes, weights = divide([*items, (need, min(one, other)), (need, max(one, other))])
    lighter, heavier = len(items), len(items) + 1

    order = rank(sizes, room, weights)

    if one != other and need:
        assert order.index(heavier) < order.index(lighter)


@many
@given(batches, st.integers(0, 200_000), st.integers(2, 9))
def test_only_the_proportion_of_weights_counts(items: Items, room: int, factor: int) -> None:
    sizes, weights = divide([(need, 1 + weight % 2) for need, weight in items])
    scaled_sizes = [need * factor for need in sizes]
    scaled_weights = [weight * 4 for weight in weights]

    level = find_level(sizes, room, weights)

    # Levels are whole numbers, so that either differs by what was rounded.
    assert abs(find_level(scaled_sizes, room * factor, weights) - level * factor) <= factor
    assert abs(find_level(sizes, room, scaled_weights) * 4 - level) <= 4
