"""What a search looks for, and the text that it looks into."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.stores.changes import Change, create_row
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.search_text import SEPARATOR, fold_searchable, split_search

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=' "'), min_size=1)
phrases = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"'), min_size=1)
fields = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("search", "terms"),
    [
        ("", ()),
        ("   ", ()),
        ('""', ()),
        ("Ada Lovelace", ("ada", "lovelace")),
        ("  ADR-007  adr-007 ", ("adr-007",)),
        ('"Ada Lovelace" born', ("ada lovelace", "born")),
        ('born "Ada Lovelace"', ("born", "ada lovelace")),
        ('"one" "two three"', ("one", "two three")),
        ('" "', (" ",)),
        ('"unpaired', ('"unpaired',)),
        ('a "b c', ("a", '"b', "c")),
        ('5" x 7"', ('5"', "x", '7"')),
        ('{"a": 1}', ('{"a":', "1}")),
        ('"', ('"',)),
        ('"a b"c d"', ('"a', 'b"c', 'd"')),
        ("Straße STRASSE", ("strasse",)),
        ("a\tb", ("a\tb",)),
    ],
)
def test_a_search_is_split_into_terms(search: str, terms: tuple[str, ...]) -> None:
    assert split_search(search) == terms


@given(st.lists(words))
def test_words_between_spaces_are_terms(texts: list[str]) -> None:
    terms = split_search(" ".join(texts))

    assert terms == tuple(dict.fromkeys(text.casefold() for text in texts))


@given(words, phrases, words)
def test_a_phrase_in_quotes_is_one_term(before: str, phrase: str, after: str) -> None:
    terms = split_search(f'{before} "{phrase}" {after}')

    expected = (before.casefold(), phrase.casefold(), after.casefold())
    assert terms == tuple(dict.fromkeys(expected))


@given(fields, fields, fields, fields, st.lists(fields, max_size=3), fields)
def test_a_term_is_in_the_searchable_text_if_it_is_in_a_field(
    key: str, summary: str, content: str, category: str, tags: list[str], term: str
) -> None:
    row = make_row()._replace(
        key=key,
        summary=summary,
        content=content,
        category=category,
        tags=orjson.dumps(tags).decode(),
    )
    searched = (key, summary, content, category, *tags)

    found = term.casefold() in fold_searchable(row)

    assert found == any(term.casefold() in text.casefold() for text in searched)


@given(st.text())
def test_no_term_holds_what_separates_the_fields(text: str) -> None:
    assert SEPARATOR not in text.casefold()


@pytest.mark.parametrize("tags", ["", "[1]", "{}", b"[]", None, 7])
def test_a_damaged_memory_has_a_searchable_text(tags: object) -> None:
    row = make_row()._replace(key="K", content=7, tags=tags)  # type: ignore[arg-type]

    assert fold_searchable(row) == SEPARATOR.join(["k", "", ""])


def make_row() -> Row:
    return create_row(Change("store", "2026-01-01T00:00:00.000Z", key="k"), "a")
