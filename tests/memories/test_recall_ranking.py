"""How `recall` ranks: equal to a plain exhaustive computation, and fair in what it counts."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.search.ranking import Gift, Ranking, WayLink
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import Language, split_question
from tests.support.exhaustive_recall import as_answers, rank_exhaustively
from tests.support.recall_index import PlainMemory, PlainNote, RecallIndex, write_note

ENGLISH = Language()
USUAL = "association"

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


def ask(
    question: str, filters: Filters | None = None, hops: int = 2, notes: tuple[PlainNote, ...] = ()
) -> RecallRequest:
    split = split_question(question, ENGLISH)
    return RecallRequest((split,), filters or Filters(), hops, notes, at_least=0)


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


@pytest.mark.parametrize(
    ("hops", "names"), [(0, ["hit"]), (1, ["hit", "near"]), (2, ["hit", "near", "far"])]
)
def test_links_lead_to_memories_that_hold_no_word(hops: int, names: list[str]) -> None:
    stored = [
        PlainMemory("hit", "lamp", links=[("near", 0.5)]),
        PlainMemory("near", "stone", links=[("far", 1.0)]),
        PlainMemory("far", "cloud", links=[("beyond", 1.0)]),
        PlainMemory("beyond", "tree"),
    ]

    (ranking,) = RecallIndex(stored).rank(ask("lamp", hops=hops))

    assert [entry.name for entry in ranking.entries] == names
    assert [entry.via for entry in ranking.entries] == [None, "hit", "hit"][: len(names)]
    shares = [entry.score * 10 // ranking.entries[0].score for entry in ranking.entries]
    assert shares[1:] == [5, 3][: len(names) - 1], "6/10 and 4/10, rounded down"


def test_links_pass_on_the_words_that_a_memory_lacks() -> None:
    stored = [
        PlainMemory("hit", "lamp river", links=[("part", 1.0), ("all", 1.0)]),
        PlainMemory("part", "the river runs and runs through stone"),
        PlainMemory("all", "a river, and a lamp of old brass on a table by the window"),
    ]

    (ranking,) = RecallIndex(stored).rank(ask("lamp river"))
    gifts = {key: find_gift(ranking, key) for key in ("hit", "part", "all")}

    assert ranking.explainer is not None
    lamp, _ = ranking.explainer.explain("hit").words
    assert gifts == {
        "hit": None,
        "part": Gift("hit", lamp.points * 6 // 10, (0,), (WayLink("part", 1.0, USUAL, False),)),
        "all": None,
    }


def find_gift(ranking: Ranking, key: str) -> Gift | None:
    assert ranking.explainer is not None
    return ranking.explainer.find_gift(key)


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


def test_a_memory_that_many_hits_are_linked_with_does_not_overtake_the_best_one() -> None:
    stored = [PlainMemory("best", "lamp lamp river")]
    stored += [PlainMemory(f"m{n:02}", "lamp stone", links=[("hub", 1.0)]) for n in range(29)]
    stored += [PlainMemory("hub", "cloud"), *(PlainMemory(f"o{n}", "tree") for n in range(300))]

    (ranking,) = RecallIndex(stored).rank(ask("lamp river"))
    scores = {entry.name: entry.score for entry in ranking.entries}

    assert [entry.name for entry in ranking.entries][:2] == ["best", "m00"]
    assert scores["hub"] == scores["m00"] * 6 // 10


def test_more_than_64_incoming_links_are_not_followed() -> None:
    hub = [PlainMemory("hub", "lamp")]

    for count, found in ((64, 65), (65, 1)):
        linking = [PlainMemory(f"m{n:02}", "stone", links=[("hub", 0.5)]) for n in range(count)]
        (ranking,) = RecallIndex(hub + linking).rank(ask("lamp"))
        assert len(ranking.entries) == found


def test_the_32_memories_that_get_most_lead_one_link_further() -> None:
    """Of equal ones these are the first by key; hits lead further besides."""
    stored: list[PlainMemory] = []
    for number in range(40):
        weight = 0.5 if number % 10 == 3 else 1.0
        near, far = f"near {number:02}", f"far {number:02}"
        if number % 10 == 0:
            stored.append(PlainMemory(f"hit {number:02}", "lamp"))
        stored[-1 - number % 10 * 2].links.append((near, weight))
        stored += [PlainMemory(near, "stone", links=[(far, 1.0)]), PlainMemory(far, "cloud")]
    stored[0].links[9] = ("hit 10", 1.0)

    (ranking,) = RecallIndex(stored).rank(ask("lamp"))
    found = {entry.name for entry in ranking.entries if entry.name.startswith("far")}

    unlinked, lighter, last = {9}, {3, 13, 23, 33}, {37, 38, 39}
    expected = set(range(40)) - unlinked - lighter - last
    assert found == {f"far {number:02}" for number in expected}


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


def test_a_word_that_nobody_holds_is_unknown_unless_a_note_holds_it() -> None:
    request = ask("Lamp Comet ADR-008 river")
    stored = [PlainMemory("1", "lamp, and the ADR-007")]

    (ranking,) = RecallIndex(stored).rank(request)
    assert ranking.unknown_words == ("Comet", "river")

    note = write_note("MEMORY.md#1", "the river")
    (ranking,) = RecallIndex(stored).rank(replace(request, notes=(note,)))
    assert ranking.unknown_words == ("Comet",)
    assert ("MEMORY.md#1", True) in [(entry.name, entry.is_note) for entry in ranking.entries]


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


def test_words_that_stand_together_as_in_the_question_come_before_the_same_words_apart() -> None:
    stored = [
        PlainMemory("apart", "a lamp is by the river, and the green one is in the hall"),
        PlainMemory("other way", "by the river, there is a lamp, and it is green; see the hall"),
        PlainMemory("together", "in the hall is a lamp, and by the river is a green old lamp"),
    ]

    (ranking,) = RecallIndex(stored).rank(ask("Who made the green lamp?"))

    assert [entry.name for entry in ranking.entries] == ["together", "apart", "other way"]
    assert ranking.explainer is not None
    assert ranking.explainer.explain("together").phrases == (1,)
