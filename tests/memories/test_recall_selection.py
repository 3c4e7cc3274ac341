"""Postings, and the selection of the best memories among many blocks of them."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from abilities.helpers.search import postings, selection
from abilities.helpers.search.ranking import compute_idf, compute_score
from abilities.helpers.search.selection import (
    BlockPostings,
    LaneFilter,
    Selected,
    select_best,
    spread_weights,
)
from tests.support.recall_index import unpack

numbers = st.integers(0, postings.BLOCK_DOCS - 1)
weights = st.integers(1, 63)


@given(st.lists(st.tuples(numbers, weights, st.booleans()), max_size=60), st.integers(0, 900))
def test_postings_hold_what_was_added_and_not_removed(
    changes: list[tuple[int, int, bool]], block: int
) -> None:
    docs = b""
    expected: dict[int, int] = {}

    for number, weight, is_added in changes:
        doc = block * postings.BLOCK_DOCS + number
        if is_added:
            docs = postings.change(docs, doc, weight)
            expected[doc] = weight
        else:
            docs = postings.change(docs, doc, 0)
            expected.pop(doc, None)

    assert unpack(docs, block) == sorted(expected.items())
    values = postings.decode(docs)
    first = block * postings.BLOCK_DOCS
    for doc in range(first, first + postings.BLOCK_DOCS):
        assert postings.look_up(values, doc) == expected.get(doc, 0)
    assert all(postings.block_of(doc) == block for doc in expected)


def pack(by_number: dict[int, int]) -> bytes:
    return b"".join(postings.pack(number, weight) for number, weight in sorted(by_number.items()))


@given(
    st.lists(
        st.tuples(st.integers(1, 15_000), st.dictionaries(numbers, weights, max_size=30)),
        min_size=1,
        max_size=90,
    ),
    st.integers(0, 3_000_000),
)
def test_lanes_miss_no_memory_that_reaches_the_total(
    terms: list[tuple[int, dict[int, int]]], least: int
) -> None:
    idfs = [idf for idf, _ in terms]
    totals: dict[int, int] = {}
    for idf, held in terms:
        for number, weight in held.items():
            totals[number] = totals.get(number, 0) + idf * weight

    spread = {place: spread_weights(pack(held)) for place, (_, held) in enumerate(terms)}
    found = set(LaneFilter(idfs).find(spread, least))

    assert found >= {number for number, total in totals.items() if total >= least}


def make_blocks(seed: int, spreads: tuple[float, ...], count: int) -> list[BlockPostings]:
    """Return blocks in which each term is held by about such a part of the memories."""
    chance = random.Random(seed)
    blocks: list[BlockPostings] = []

    for block in range(count):
        docs: dict[int, bytes] = {}
        for place, part in enumerate(spreads):
            held = {n: chance.randint(20, 45) for n in range(1_024) if chance.random() < part}
            if held:
                docs[place] = pack(held)
        blocks.append(BlockPostings(block, docs))

    return blocks


def select_plainly(
    blocks: list[BlockPostings], idfs: list[int], most: int, allowed: set[int] | None
) -> list[Selected]:
    totals: dict[int, list[int]] = {}
    for block, docs in blocks:
        for place, held in docs.items():
            for doc, weight in unpack(held, block):
                totals.setdefault(doc, []).append(weight * idfs[place])

    ranked = sorted(
        (
            (doc, compute_score(sum(parts), len(parts), len(idfs)))
            for doc, parts in totals.items()
            if allowed is None or doc in allowed
        ),
        key=lambda one: (-one[1], one[0]),
    )
    if len(ranked) > most:
        _, last = ranked[most - 1]
        ranked = [one for one in ranked if one[1] >= last][: most + selection.MOST_TIED]

    return ranked


@pytest.mark.parametrize("allowing", [None, 40, 2_000])
@pytest.mark.parametrize(
    "spreads",
    [
        (0.5,),
        (0.5, 0.5, 0.5, 0.5),
        (0.5, 0.01),
        (0.001,),
        (0.2, 0.05, 0.01, 0.002),
        (0.03,) * 12,
        (0.5, 0.5, 0.01, 0.01, 0.01, 0.01),
    ],
)
def test_the_best_of_many_blocks_are_selected(
    spreads: tuple[float, ...], allowing: int | None
) -> None:
    blocks = make_blocks(7, spreads, 8)
    idfs = [compute_idf(1_000_000, int(part * 1_000_000)) for part in spreads]
    allowed = None
    if allowing is not None:
        allowed = set(random.Random(3).sample(range(8 * 1_024), allowing))

    selected = select_best(blocks, idfs, 256, allowed)

    assert selected == select_plainly(blocks, idfs, 256, allowed)


def test_a_number_that_damage_repeats_does_no_harm() -> None:
    docs = postings.pack(7, 30) * 3

    selected = select_best([BlockPostings(0, {0: docs, 1: postings.pack(9, 20)})], [700, 900])

    assert {doc for doc, _ in selected} == {7, 9}


held = st.sampled_from(((0, 0), (30, 0), (0, 30), (30, 30), (31, 30)))


@given(st.lists(st.lists(held, min_size=12), max_size=4))
@example([[(30, 0)] * 9 + [(30, 30)] * 2, [(30, 30)] * 4])
def test_ties_are_kept_whatever_scores_come_later(rows: list[list[tuple[int, int]]]) -> None:
    blocks: list[BlockPostings] = []
    for block, row in enumerate(rows):
        docs: dict[int, bytes] = {}
        for place in (0, 1):
            docs[place] = pack({n: pair[place] for n, pair in enumerate(row) if pair[place]})
        blocks.append(BlockPostings(block, {place: held for place, held in docs.items() if held}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "MOST_TIED", 3)
        selected = select_best(blocks, [700, 700], 2)
        assert selected == select_plainly(blocks, [700, 700], 2, None)
