"""How `recall` ranks: equal to a plain exhaustive computation, and fair in what it counts."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import Language, split_question
from tests.support.exhaustive_recall import as_answers, rank_exhaustively
from tests.support.recall_index import PlainMemory, RecallIndex, write_note

ENGLISH = Language()

WORDS = ("lamp", "lamps", "river", "the", "ADR-007", "adr", "Zürich", "数据库", "x1")
KEYS = ("lamp/1", "river-2", *(f"m{number}" for number in range(12)))

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
weights = st.sampled_from((0.0, 0.25, 0.5, 1.0))

memories = st.lists(
    st.builds(
        PlainMemory,
        key=st.sampled_from(KEYS),
        content=texts,
        summary=st.one_of(st.just(""), texts),
        type=st.sampled_from(("core", "learning")),
        tags=st.sampled_from(((), ("a",), ("a", "b"))),
        score=st.sampled_from((0.3, 0.6, 0.9)),
        updated_at=st.sampled_from(("2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z")),
        archived=st.sampled_from((False, False, False, True)),
        links=st.lists(st.tuples(st.sampled_from((*KEYS, "gone")), weights), max_size=4),
        kinds=st.lists(st.sampled_from(("uses", "part of")), max_size=4),
    ),
    max_size=12,
    unique_by=lambda memory: memory.key,
)

filters = st.builds(
    Filters,
    type=st.sampled_from((None, None, "core")),
    tags=st.sampled_from(((), (), ("a",))),
    archived=st.booleans(),
)

requests = st.builds(
    RecallRequest,
    questions=st.lists(
        texts.map(lambda text: split_question(text, ENGLISH)), min_size=1, max_size=3
    ).map(tuple),
    filters=filters,
    hops=st.integers(0, 2),
    at_least=st.sampled_from((None, None, 0, 500, 900, 1_000)),
    notes=st.lists(texts, max_size=3).map(
        lambda notes: tuple(write_note(f"note {n}", text) for n, text in enumerate(notes))
    ),
)


def ask(question: str, filters: Filters | None = None, hops: int = 2) -> RecallRequest:
    split = split_question(question, ENGLISH)
    return RecallRequest((split,), filters or Filters(), hops, at_least=0)


@given(memories, requests)
def test_the_conversation_ranks_as_a_plain_computation_does(
    stored: list[PlainMemory], request: RecallRequest
) -> None:
    rankings = RecallIndex(stored).rank(request)

    assert [as_answers(ranking) for ranking in rankings] == rank_exhaustively(stored, request)


@given(memories, requests, st.randoms())
def test_scores_and_order_do_not_depend_on_insertion(
    stored: list[PlainMemory], request: RecallRequest, random: Random
) -> None:
    shuffled = list(stored)
    random.shuffle(shuffled)

    assert RecallIndex(shuffled).rank(request) == RecallIndex(stored).rank(request)


@given(memories, texts, st.integers(0, 8))
def test_more_of_a_rare_word_never_ranks_lower(
    stored: list[PlainMemory], text: str, times: int
) -> None:
    others = [memory for memory in stored if memory.key != "m0"]

    places: list[int] = []
    for count in (times, times + 1):
        padding = "pad " * (9 - count)
        changed = PlainMemory("m0", f"{text} {'comet ' * count} {padding}")
        (ranking,) = RecallIndex([*others, changed]).rank(ask("comet lamp river", hops=0))
        names = [entry.name for entry in ranking.entries]
        places.append(names.index("m0") if "m0" in names else len(names))

    assert places[1] <= places[0]


@given(memories, requests)
def test_links_lower_no_score_and_carry_nothing_above_the_hit_they_come_from(
    stored: list[PlainMemory], request: RecallRequest
) -> None:
    request = replace(request, questions=request.questions[:1], at_least=0, notes=())
    (ranking,) = RecallIndex(stored).rank(request)
    (unlinked,) = RecallIndex(stored).rank(replace(request, hops=0))

    scores = {entry.name: entry.score for entry in ranking.entries}
    by_words = {entry.name: entry.score for entry in unlinked.entries}
    assert all(scores[name] >= score for name, score in by_words.items())
    for entry in ranking.entries:
        if entry.via is not None:
            assert 10 * entry.score <= 6 * by_words[entry.via]


def test_more_than_64_incoming_links_are_not_followed() -> None:
    hub = [PlainMemory("hub", "lamp")]

    for count, found in ((64, 65), (65, 1)):
        linking = [PlainMemory(f"m{n:02}", "stone", links=[("hub", 0.5)]) for n in range(count)]
        (ranking,) = RecallIndex(hub + linking).rank(ask("lamp"))
        assert len(ranking.entries) == found


@pytest.mark.parametrize("links", [3, 8])
def test_many_linked_memories_rank_as_a_plain_computation_does(links: int) -> None:
    """So many that not all of those one link away lead further."""
    chance = Random(links)
    keys = [f"m{number:03}" for number in range(400)]
    stored: list[PlainMemory] = []
    for key in keys:
        targets = [(chance.choice(keys), chance.randrange(1, 9) / 8) for _ in range(links)]
        words = chance.choices(("lamp", "river", "stone", "cloud"), (1, 1, 9, 9), k=5)
        stored.append(PlainMemory(key, " ".join(words), links=targets))

    questions = tuple(split_question(text, ENGLISH) for text in ("lamp river", "river", "lamp"))
    request = RecallRequest(questions, at_least=0)
    rankings = RecallIndex(stored).rank(request)

    assert [as_answers(ranking) for ranking in rankings] == rank_exhaustively(stored, request)


def test_ties_are_settled_by_key_among_all_that_tie() -> None:
    stored = [PlainMemory(f"m{n:04}", "lamp") for n in reversed(range(3_000))]

    (ranking,) = RecallIndex(stored).rank(ask("lamp"))

    assert [entry.name for entry in ranking.entries] == [f"m{n:04}" for n in range(256)]


def test_filters_apply_before_the_cut() -> None:
    stored = [PlainMemory(f"a{n:05}", "lamp lamp river") for n in range(2_000)]
    stored += [PlainMemory(f"b{n:05}", "lamp", type="core") for n in range(300)]

    (ranking,) = RecallIndex(stored).rank(ask("lamp", filters=Filters(type="core")))

    assert [entry.name for entry in ranking.entries] == [f"b{n:05}" for n in range(256)]


def test_filters_that_pass_many_memories_are_applied_to_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("abilities.helpers.search.recall.FEW_MATCHING", 100)

    test_filters_apply_before_the_cut()
