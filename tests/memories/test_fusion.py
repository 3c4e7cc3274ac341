"""A ranking by words, joined with similarities."""

from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.search.meaning import SIMILARITY_ONE, Near, Similarity
from abilities.helpers.search.ranking import SCORE_ONE, Confidence, RankedEntry

NAMES = [f"m{number:02}" for number in range(20)]

values = st.dictionaries(st.sampled_from(NAMES), st.integers(1, SIMILARITY_ONE))


def join(
    scores: dict[str, int],
    similar: dict[str, int],
    confidence: Confidence = "strong",
    usual: int = 0,
    notes: dict[str, int] | None = None,
) -> dict[str, RankedEntry]:
    """Return the joined entries by name."""
    ranked = [tuple(RankedEntry(name, False, scores[name], scores[name])) for name in scores]
    near = Near(similar, Similarity((), notes or {}, usual))

    joined = near.add_to(ranked, confidence)
    entries = list(map(RankedEntry._make, joined))
    assert len({entry.name for entry in entries}) == len(entries)
    return {entry.name: entry for entry in entries}


@given(values, values)
def test_an_order_that_both_agree_on_is_kept(
    scores: dict[str, int], similar: dict[str, int]
) -> None:
    joined = join(scores, similar)

    for better in joined:
        for worse in joined:
            is_better = scores.get(better, 0) >= scores.get(worse, 0)
            if is_better and similar.get(better, 0) >= similar.get(worse, 0):
                assert joined[better].score >= joined[worse].score


@given(values, values, st.integers(0, SIMILARITY_ONE))
def test_similarity_adds_at_most_three_quarters_of_the_best_score(
    scores: dict[str, int], similar: dict[str, int], usual: int
) -> None:
    most = max(scores.values(), default=SCORE_ONE)

    for name, entry in join(scores, similar, usual=usual).items():
        assert scores.get(name, 0) <= entry.score <= scores.get(name, 0) + 3 * most // 4
        assert entry.own == entry.score


def test_what_words_do_not_answer_is_ranked_by_meaning() -> None:
    joined = join({"c": 1_000}, {"a": 800_000, "c": 600_000}, "none", usual=600_000)
    assert joined["a"].score == joined["c"].score == 1_000

    joined = join({"c": 1_000}, {"a": 700_000, "c": 600_000}, "none", usual=600_000)
    assert joined["a"].score < joined["c"].score  # it is not similar enough to answer
    assert joined["a"].words == () and joined["a"].via is None


def test_the_256_most_similar_count() -> None:
    names = [f"n{number:03}" for number in range(300)]
    falling = {name: 1_000 * (1_000 - number) for number, name in enumerate(names)}

    assert list(join({}, falling, "none")) == names[:255]  # the last of them gets nothing


def test_a_question_is_about_what_is_clearly_more_similar_than_usual() -> None:
    def is_about(best: int, usual: int) -> bool:
        return Near({"a": best}, Similarity((), {}, usual)).is_about

    assert is_about(670_000, 400_000)
    assert not is_about(669_999, 400_000)
    assert not is_about(990_000, 990_000)
    assert not is_about(SIMILARITY_ONE, SIMILARITY_ONE)
    assert not Near({}, Similarity((), {}, 0)).is_about
