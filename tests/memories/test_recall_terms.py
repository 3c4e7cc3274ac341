"""The terms by which memories are found: words, identifiers, scripts without spaces."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from abilities.helpers.search.terms import (
    LANGUAGES,
    LONGEST_TERM,
    Language,
    MemoryTexts,
    count_terms,
    find_name,
    list_names,
    split_question,
    weigh_terms,
    weigh_text,
)

ENGLISH = Language()


def list_terms(text: str, language: str = "english") -> list[str]:
    return [word.term for word in split_question(text, Language(language))]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The painters were painting", ["painter", "paint"]),
        ("She bought two children's books", ["buy", "two", "child", "book"]),
        ("ADR-007", ["adr-007", "adr", "007"]),
        ("parse_args", ["parse_args", "pars", "arg"]),
        ("parseArgs", ["parseargs", "pars", "arg"]),
        ("user@example.com.", ["user@example.com", "user", "exampl", "com"]),
        ("src/main.py:", ["src/main.py", "src", "main", "py"]),
        ("well-known", ["well", "know"]),
        ("and/or", []),
        ("3.11", ["3.11", "3", "11"]),
        ("Don't! O'Brien’s", ["o", "brien"]),
        ("Zürich ZURICH", ["zurich"]),
        ("straße", ["strass"]),
        ("数据库连接", ["数据", "据库", "库连", "连接"]),
        ("v3版本", ["v3", "版本"]),
        ("猫", ["猫"]),
        ("ﬁle №5", ["file", "no5"]),
        ("550E8400-E29B-41D4-A716-446655440000", ["550e8400-e29b-41d4-a716-446655440000"]),
        ("\u0301", ["\u0301"]),
        ("a\x00b \ud800 !?", ["b"]),
    ],
)
def test_a_text_has_these_terms(text: str, terms: list[str]) -> None:
    assert list_terms(text) == terms


def test_each_language_has_its_own_stems() -> None:
    assert list_terms("Wo stehen die Häuser?", "german") == ["steh", "haus"]
    assert list_terms("où sont les chevaux de l'école", "french") == ["cheval", "ecol"]
    assert all(list_terms("lamp", language) for language in LANGUAGES)


def test_a_term_names_the_word_as_it_was_asked() -> None:
    words = split_question("What about ADR-007, Painters?", ENGLISH)

    assert dict(words) == {"adr-007": "ADR-007", "adr": "ADR-007", "007": "ADR-007"} | {
        "painter": "Painters"
    }


@given(st.text(max_size=300))
@example("ǰ" * 100)
@example("ﷺ" * 20)
@example("ß" * 64)
def test_terms_can_be_stored_and_are_bounded(text: str) -> None:
    terms = weigh_text(text, ENGLISH)

    normal = unicodedata.normalize("NFKC", text)
    assert len(terms) <= 2 * len(normal)
    for term, weight in terms.items():
        assert 1 <= len(term) <= LONGEST_TERM
        assert "\x00" not in term and term.encode().decode() == term
        assert 1 <= weight <= 63


@given(st.text(st.characters(categories=("L", "M", "N", "Zs", "Pd")), max_size=60))
def test_one_text_in_two_normal_forms_has_the_same_terms(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    decomposed = unicodedata.normalize("NFD", text)

    assert weigh_text(composed, ENGLISH) == weigh_text(decomposed, ENGLISH)


@given(st.text("aA-_.1 ü数据", max_size=80))
def test_a_question_asks_for_the_terms_that_a_memory_has(text: str) -> None:
    assert set(list_terms(text)) == set(weigh_text(text, ENGLISH))


def test_a_long_word_is_cut() -> None:
    assert list_terms("x" * 500) == list_terms("x" * 400) == ["x" * LONGEST_TERM]


def test_a_long_blank_content_keeps_no_other_word_from_the_index() -> None:
    assert "lamp" in weigh_terms(MemoryTexts("lamp", "", " " * 5_000), ENGLISH)


def test_a_key_that_is_a_uuid_is_no_word() -> None:
    key = "550e8400-e29b-41d4-a716-446655440000"

    assert weigh_terms(MemoryTexts(key, "", "lamp"), ENGLISH) == weigh_text("lamp", ENGLISH)
    assert "lamp" in weigh_terms(MemoryTexts("lamp", "", "river"), ENGLISH)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("OOMKilled", {"oomkilled", "oom", "kill"}, id="acronym first"),
        pytest.param("parseXMLFile", {"parsexmlfile", "pars", "xml", "file"}, id="acronym between"),
        pytest.param("URLs", {"url"}, id="the plural of an acronym"),
        pytest.param("C++ or C#", {"c++", "c#", "c"}, id="languages that end with signs"),
    ],
)
def test_an_identifier_is_divided_into_its_words(text: str, terms: set[str]) -> None:
    assert set(list_terms(text)) == terms


def test_a_pair_of_characters_counts_as_half_a_word() -> None:
    _, length = count_terms(MemoryTexts("", "", "数据库连接池"), ENGLISH)

    assert length == 3


def test_tags_and_category_are_indexed() -> None:
    weights = weigh_terms(MemoryTexts("", "", "lamp", '["garden tools"] outdoors'), ENGLISH)

    assert {"garden", "tool", "outdoor"} <= weights.keys()


@pytest.mark.parametrize(
    ("content", "question", "is_named"),
    [
        ("Ada: I moved to Lisbon.", "Where did Ada move?", True),
        ("[8 May, 2023] Ada Lovelace: I moved.", "Where did Ada Lovelace move?", True),
        ("[8 May, 2023] Ada Lovelace: I moved.", "Where did Ada move?", False),
        ("ADR-007: click replaces parse_args.", "What does ADR-007 say?", True),
        ("Bo: Ada moved to Lisbon.", "Where did Ada move?", False),
        ("We met Ada: she moved.", "Where did Ada move?", False),
        ("https://ada.example", "Where is https?", False),
    ],
)
def test_the_name_at_the_head_of_a_content(content: str, question: str, is_named: bool) -> None:
    names = list_names(split_question(question, ENGLISH))

    assert (find_name(content, ENGLISH) in names) is is_named
