"""Two rankings joined by reciprocal rank."""

from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.memory.meaning import DAMPING, EntryName, fuse, join_rankings
from abilities.helpers.search.ranking import SCORE_ONE, RankedEntry, Ranking

NAMES = [f"m{number:02}" for number in range(20)]

values = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9))


def build_ranking(scores: dict[str, int]) -> Ranking:
    ordered = sorted(scores, key=lambda name: (-scores[name], name))
    entries = [RankedEntry(name, False, scores[name], scores[name]) for name in ordered]
    return Ranking(tuple(entries), ())


def similar(by_name: dict[str, int]) -> dict[EntryName, int]:
    return {EntryName(name, False): value for name, value in by_name.items()}


@given(values, values)
def test_joining_is_symmetric(first: dict[str, int], second: dict[str, int]) -> None:
    assert join_rankings(first, second) == join_rankings(second, first)


@given(values, values)
def test_an_order_that_both_agree_on_is_kept(first: dict[str, int], second: dict[str, int]) -> None:
    joined = join_rankings(first, second)

    for better in joined:
        for worse in joined:
            a = first.get(better, 0) - first.get(worse, 0)
            b = second.get(better, 0) - second.get(worse, 0)
            if a >= 0 and b >= 0:
                assert joined[better] >= joined[worse]
            if (a > 0 and b >= 0) or (a >= 0 and b > 0):
                assert joined[better] > joined[worse]


@given(values, values, st.randoms())
def test_the_order_of_insertion_changes_nothing(
    scores: dict[str, int], similarities: dict[str, int], random: object
) -> None:
    names = list(similarities)
    random.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: similarities[name] for name in names}

    expected = fuse(build_ranking(scores), similar(similarities))
    assert fuse(build_ranking(scores), similar(shuffled)) == expected


@given(values, values)
def test_entries_stand_by_score_and_each_once(
    scores: dict[str, int], similarities: dict[str, int]
) -> None:
    entries = fuse(build_ranking(scores), similar(similarities)).entries

    shown = [entry.score for entry in entries]
    assert shown == sorted(shown, reverse=True)
    assert all(0 < entry.own <= entry.score <= SCORE_ONE for entry in entries)
    assert {entry.name for entry in entries} == scores.keys() | similarities.keys()
    assert len({entry.name for entry in entries}) == len(entries)


@given(values, st.integers(1, 9))
def test_equal_similarities_change_no_order(scores: dict[str, int], similarity: int) -> None:
    ranking = build_ranking(scores)

    fused = fuse(ranking, similar(dict.fromkeys(scores, similarity)))

    assert [entry.name for entry in fused.entries] == [entry.name for entry in ranking.entries]


def test_the_best_possible_score_is_one() -> None:
    first, second = fuse(build_ranking({"a": 9, "b": 1}), similar({"a": 9, "b": 1})).entries

    assert first.score == SCORE_ONE
    assert second.score == SCORE_ONE * (DAMPING + 1) // (DAMPING + 2)


def test_first_in_one_ranking_alone_is_half_of_that() -> None:
    (by_words,) = fuse(build_ranking({"a": 9}), {}).entries
    (by_meaning,) = fuse(build_ranking({}), similar({"a": 9})).entries

    assert by_words.score == by_meaning.score == SCORE_ONE // 2
    assert by_meaning.words == () and by_meaning.via is None


def test_equal_sums_stand_by_name() -> None:
    fused = fuse(build_ranking({"a": 1, "b": 2}), similar({"a": 2, "b": 1}))

    assert [entry.name for entry in fused.entries] == ["a", "b"]
    assert fused.entries[0].score == fused.entries[1].score


def test_a_similarity_of_zero_or_less_adds_nothing() -> None:
    ranking = build_ranking({"a": 2, "b": 1})

    assert fuse(ranking, similar({"b": 0, "a": -5, "c": 0})) == fuse(ranking, {})


def test_similarities_count_down_to_the_256th_rank() -> None:
    names = [f"n{number:03}" for number in range(300)]
    falling = {name: 1_000 - number for number, name in enumerate(names)}
    tied = {**falling, "n255": 700, **dict.fromkeys(names[256:], 700)}

    assert len(fuse(build_ranking({}), similar(falling)).entries) == 256
    assert len(fuse(build_ranking({}), similar(tied)).entries) == 300


def test_what_came_by_links_owns_its_similarity_alone() -> None:
    ranking = Ranking(
        (RankedEntry("a", False, 9, 0, "seed"), RankedEntry("b", False, 5, 5)), ("x",)
    )

    fused = fuse(ranking, similar({"a": 5}))

    assert fused.unknown_words == ("x",)
    assert (fused.entries[0].own, fused.entries[0].score) == (SCORE_ONE // 2, SCORE_ONE)
    assert fused.entries[0].via == "seed"
    assert fused.entries[1].own == fused.entries[1].score
