"""What `recall` finds in a small world, and over links."""

from collections import Counter

import pytest

from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language, split_question
from tests.support import recall_sample
from tests.support.recall_index import RecallIndex

INDEX = RecallIndex(recall_sample.MEMORIES)


def list_best(index: RecallIndex, question: str, count: int, hops: int = 2) -> list[str]:
    request = RecallRequest((split_question(question, Language()),), hops=hops)
    (ranking,) = index.rank(request)
    return [entry.name for entry in ranking.entries[:count]]


@pytest.mark.parametrize(
    "question", recall_sample.QUESTIONS, ids=lambda question: question.evidence[0]
)
def test_each_question_finds_its_answer_among_the_best(question: recall_sample.Question) -> None:
    assert set(question.evidence) <= set(list_best(INDEX, question.text, 4))


def test_questions_about_something_else_are_not_answered() -> None:
    answered = [
        question for question in recall_sample.FOREIGN_QUESTIONS if list_best(INDEX, question, 1)
    ]

    assert len(answered) <= len(recall_sample.FOREIGN_QUESTIONS) // 10, answered


def test_words_are_matched_and_not_meanings() -> None:
    question = split_question("Which database did we choose?", Language())

    (ranking,) = INDEX.rank(RecallRequest((question,)))

    assert ranking.entries == ()
    assert ranking.unknown_words == ("database", "choose")


def test_most_questions_find_their_answer_first() -> None:
    own = [question for question in recall_sample.QUESTIONS if question.category == "own words"]

    first = [q for q in own if list_best(INDEX, q.text, 1) == list(q.evidence)]
    assert len(first) >= 0.9 * len(own)


@pytest.mark.parametrize(("hops", "found"), [(0, set()), (1, {1}), (2, {1, 2})])
def test_answers_that_only_links_lead_to_are_found(hops: int, found: set[int]) -> None:
    memories, questions = recall_sample.make_chains(40)
    index = RecallIndex(memories)

    reached = Counter[int]()
    for question in questions:
        (wanted,) = question.evidence
        reached[int(wanted[-1])] += wanted in list_best(index, question.text, 3, hops)

    assert +reached == dict.fromkeys(found, 40)
