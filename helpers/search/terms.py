"""Terms: the words by which memories are indexed and questions are asked.

A text is normalized (NFKC) and divided into runs of letters, marks and digits.

- A word becomes its stem in lower case without accents; stop words are left out.
- An identifier such as ``ADR-007``, ``parse_args`` or ``user@example.com`` becomes a term as a
  whole, and so does each of its parts.
- A run of a script without spaces between words becomes its pairs of neighboring characters.
- A UUID becomes one term as a whole, and none if it is a memory's key: nobody asks for its parts.

Terms hold no NUL and no surrogates, and have at most 64 characters.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import NamedTuple, Protocol

from abilities.helpers.search.ranking import compute_weight
from abilities.helpers.search.stop_words import STOP_WORDS

LONGEST_TERM = 64
"""Characters of a term; a longer one is cut."""

NAME_TIMES = 3
"""How many times each word of a key and of a summary counts."""

LANGUAGES = (
    "english",
    "arabic",
    "danish",
    "dutch",
    "finnish",
    "french",
    "german",
    "hindi",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "turkish",
)
"""The languages whose words can be stemmed."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_CONNECTED = re.compile(r"[^\s\-_.@/:+#]+(?:[\-_.@/:+#]+[^\s\-_.@/:+#]+)*")
_CONNECTORS = re.compile(r"[\-_.@/:+#]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_SPACELESS = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af"  # Hangul: it has spaces, but particles hang on its words
    "]+"
)
_ACCENTS = re.compile("[\u0300-\u036f]+")


class QuestionWord(NamedTuple):
    """A term of a question, and the word it comes from as it was asked."""

    term: str
    word: str


@dataclass(frozen=True, slots=True)
class Language:
    """A language by the name that its stemmer has, with its stop words."""

    name: str = "english"

    @property
    def stop_words(self) -> frozenset[str]:
        """The words that are not indexed."""
        return STOP_WORDS.get(self.name, frozenset())


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 (the name in its package)


class _Token(NamedTuple):
    """A term where it stands in a text: ``term`` is None for a stop word.

    ``counts`` is false if it is another form of terms that are counted already.
    """

    term: str | None
    word: str
    counts: bool = True


def weigh_terms(key: str, summary: str, content: str, language: Language) -> dict[str, int]:
    """Return the terms of a memory, each with its weight from 1 to 63.

    Words of the key and the summary count three times.
    """
    counts, length = count_terms(key, summary, content, language)

    return {term: compute_weight(count, length) for term, count in counts.items()}


def count_terms(
    key: str, summary: str, content: str, language: Language
) -> tuple[Counter[str], int]:
    """Return how often each term counts in a memory, and its length in words.

    Stop words count in the length; words of the key and the summary count three times in both.
    """
    counts: Counter[str] = Counter()
    length = 0

    if not _UUID.fullmatch(key):
        length += _count(key, language, NAME_TIMES, counts)

    length += _count(summary, language, NAME_TIMES, counts)
    length += _count(content, language, 1, counts)

    return counts, length


def weigh_text(text: str, language: Language) -> dict[str, int]:
    """Return the terms of a text that has neither key nor summary, each with its weight."""
    return weigh_terms("", "", text, language)


def split_question(question: str, language: Language) -> tuple[QuestionWord, ...]:
    """Return the terms of a question, each once, in the order of the question."""
    words: dict[str, QuestionWord] = {}

    for token in _split(question, language):
        if token.term is not None:
            words.setdefault(token.term, QuestionWord(token.term, token.word))

    return tuple(words.values())


def _count(text: str, language: Language, times: int, counts: Counter[str]) -> int:
    """Add a text's terms to the counts; return its length in words, stop words included."""
    length = 0

    for token in _split(text, language):
        if token.counts:
            length += times
        if token.term is not None:
            counts[token.term] += times

    return length


def _split(text: str, language: Language) -> Iterator[_Token]:
    """Yield the terms of a text in order; an identifier as a whole stands before its parts."""
    normal = unicodedata.normalize("NFKC", text).translate(_SEPARATORS)

    for match in _CONNECTED.finditer(normal):
        run = match[0]
        if run.isalpha() and run.isascii() and (run.islower() or run.istitle()):
            yield _tokenize(run.lower(), run, language)
        else:
            yield from _split_identifier(run, language)


def _split_identifier(run: str, language: Language) -> Iterator[_Token]:
    folded = run.casefold()
    if _UUID.fullmatch(folded):
        yield _Token(folded, run)
        return

    words = _CONNECTORS.split(run)
    parts = [part for word in words for part in _HUMP.split(word)]
    is_identifier = len(parts) > 1 and not _is_compound(run)

    if is_identifier:
        yield _Token(folded[:LONGEST_TERM], run, counts=False)

    for part in parts:
        shown = run if is_identifier else part
        yield from _split_scripts(part, shown, language)


def _is_compound(run: str) -> bool:
    """Return whether words are joined as in "well-known" or "and/or": plain words in a text."""
    return run.replace("-", "").replace("/", "").isalpha() and not _HUMP.search(run)


def _split_scripts(word: str, shown: str, language: Language) -> Iterator[_Token]:
    """Yield a word, or the pairs of characters in those runs of it that have no spaces."""
    position = 0

    for match in _SPACELESS.finditer(word):
        if match.start() > position:
            yield _tokenize(word[position : match.start()].casefold(), shown, language)

        run = match[0]
        for start in range(max(1, len(run) - 1)):
            yield _Token(run[start : start + 2], shown)
        position = match.end()

    if position < len(word):
        yield _tokenize(word[position:].casefold(), shown, language)


def _tokenize(folded: str, shown: str, language: Language) -> _Token:
    """Return the token of one word in lower case."""
    if folded in language.stop_words:
        return _Token(None, shown)

    return _Token(_stem(folded[:LONGEST_TERM], language.name), shown)


@lru_cache(maxsize=65_536)
def _stem(word: str, language: str) -> str:
    stem = word

    if word.isalpha():
        with _stemming:
            stem = _load_stemmer(language).stemWord(word)

    if not stem.isascii():
        plain = _ACCENTS.sub("", unicodedata.normalize("NFD", stem))
        stem = unicodedata.normalize("NFC", plain)[:LONGEST_TERM]

    return stem


@lru_cache
def _load_stemmer(language: str) -> _Stemmer:
    # The package's own function would take another implementation if that is installed.
    module = import_module(f"snowballstemmer.{language}_stemmer")
    stemmer: _Stemmer = getattr(module, f"{language.title()}Stemmer")()
    return stemmer


_stemming = Lock()
"""A stemmer holds the word that it works on."""


class _Separators(dict[int, str]):
    """Maps each character to itself if it is part of a word or joins two, else to a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        is_kept = character in "-_.@/:+#" or unicodedata.category(character)[0] in "LMN"

        self[code] = character if is_kept else " "
        return self[code]


_SEPARATORS = _Separators()
