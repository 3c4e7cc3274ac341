"""Terms: the words by which memories are indexed, and which questions consist of.

A text is normalized (NFKC) and divided into runs of letters, marks and digits.

- A word becomes its stem in lower case without accents; stop words are left out. Irregular forms
  become the word that they belong to.
- An identifier such as ``ADR-007``, ``parse_args``, ``HTTPServer`` or ``C++`` becomes a term, and
  so does each of its parts.
- A run of a script without spaces between words becomes its pairs of neighboring characters, each
  of which counts as half a word.
- A UUID becomes a single term, or none if it is a memory's key, because its parts mean nothing.
- A name at the head of a content, such as ``Ada:`` or ``[8 May] Ada:``, becomes a further term,
  which ends with a colon.

Terms contain no NUL and no surrogates, and have at most 64 characters.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, Protocol, get_args

import orjson

from abilities.helpers.importing import defer_packages
from abilities.helpers.search.passages import LONGEST_PASSAGE, Section, split_sections
from abilities.helpers.search.ranking import compute_weight

_Words = dict[str, list[str]]
_words: dict[str, _Words] = orjson.loads(Path(__file__).with_name("words.json").read_bytes())
"""The words of languages by their use, in lines."""

ASKING_WORDS = {
    name: frozenset(" ".join(lines).split()) for name, lines in _words["asking"].items()
}
"""Words per language that only ask for memories, without a subject."""

STOP_WORDS = {name: frozenset(" ".join(lines).split()) for name, lines in _words["stop"].items()}
"""The stop words per language; other languages have none."""

IRREGULAR_FORMS: dict[str, dict[str, str]] = {}
"""The irregular forms per language, each with the word that is indexed instead."""

for _language, _lines in _words["forms"].items():
    IRREGULAR_FORMS[_language] = {}
    for _base, *_forms in map(str.split, " ".join(_lines).split(",")):
        IRREGULAR_FORMS[_language] |= dict.fromkeys(_forms, _base)

LONGEST_TERM = 64
"""The most characters of a term; a longer one is cut."""

NAME_TIMES = 3
"""How many times each word of a key or summary counts."""

MOST_APART = 3
"""How many words after the first word of a phrase the second one is at most."""

MOST_NAME_WORDS = 2
"""The most words of a name at the head of a content."""

_LAST_REMEMBERED = 0xFFFF
"""The last character that `_SEPARATORS` remembers, so that the table stays small."""

LanguageName = Literal[
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
]
"""The languages whose words can be stemmed."""

LANGUAGES: tuple[LanguageName, ...] = get_args(LanguageName)

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# C++ and C# keep their signs.
_RUN = re.compile(r"[^\s\-_.@/:+#]+(?:[\-_.@/:+#]+[^\s\-_.@/:+#]+)*(?:\+\+|#)?")
_CONNECTORS = re.compile(r"[\-_.@/:+#]+")
# Between the words of parseArgs and of XMLFile, but not before the last letters of URLs.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?![a-z]))")
_HEAD = re.compile(r"\s*(?:\[[^\]\n]{1,40}\]\s*)?([^\s:\[\]][^:\n\[\]]{0,40}):\s")

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
    """A term of a question, with its word as it was asked."""

    term: str
    word: str


@dataclass(frozen=True, slots=True)
class Language:
    """A language by the name of its stemmer; it determines stems and stop words."""

    name: str = "english"


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 (the name in its package)


class MemoryTexts(NamedTuple):
    """The texts of a memory that are indexed; ``labels`` are its tags and category."""

    key: str
    summary: str
    content: str
    labels: str = ""


class _Run(NamedTuple):
    """The terms of a run of characters, and its length in words, stop words included."""

    terms: tuple[QuestionWord, ...]
    length: int


def weigh_terms(texts: MemoryTexts, language: Language) -> dict[str, int]:
    """Return the terms of a memory, each with its weight from 1 to 63.

    Words of the key and the summary count three times. In a long content, a term has the weight of
    its best passage, because a question is about a single passage.
    """
    weights: dict[str, int] = {}

    if len(texts.content) <= LONGEST_PASSAGE:
        weights = _weigh_short(texts, language)
    else:
        for passage in weigh_passages(texts, language):
            for term, weight in passage.items():
                weights[term] = max(weight, weights.get(term, 0))

    name = find_name(texts.content, language)
    if name is not None:
        weights[name] = 1

    return weights


def weigh_passages(texts: MemoryTexts, language: Language) -> Iterator[dict[str, int]]:
    """Yield the terms of a memory, with each of its passages in turn as its content."""
    for section in split_sections(texts.content) or [Section(0, 0, ())]:  # a blank content has none
        content = texts.content[section.start : section.end]
        yield _weigh_short(texts._replace(content=content), language)


def _weigh_short(texts: MemoryTexts, language: Language) -> dict[str, int]:
    counts, length = count_terms(texts, language)

    return {term: compute_weight(count, length) for term, count in counts.items()}


def count_terms(texts: MemoryTexts, language: Language) -> tuple[Counter[str], int]:
    """Return the count of each term in a memory, and the memory's length in words.

    The length includes stop words. In both, words of the key and the summary count three times.
    """
    counts: Counter[str] = Counter()
    length = 0

    if not _UUID.fullmatch(texts.key):
        length += _count(texts.key, language, NAME_TIMES, counts)

    length += _count(texts.summary, language, NAME_TIMES, counts)
    length += _count(texts.labels, language, 1, counts)
    length += _count(texts.content, language, 1, counts)

    return counts, length


def weigh_text(text: str, language: Language) -> dict[str, int]:
    """Return the terms of a text alone, each with its weight."""
    return weigh_terms(MemoryTexts("", "", text), language)


def find_name(content: str, language: Language) -> str | None:
    """Return the term of the name at the head of a content, of one or two words.

    >>> find_name("[8 May] Ada Lovelace: I moved.", Language())
    'ada lovelac:'
    """
    head = _HEAD.match(content)
    if head is None:
        return None

    words = [run.terms[0].term for run in divide(head[1], language) if run.terms]
    if not 1 <= len(words) <= MOST_NAME_WORDS:
        return None

    return _join_name(words)


def list_names(question: Sequence[QuestionWord]) -> list[str]:
    """Return the terms of all names that a question may contain.

    >>> list_names(split_question("Where did Ada Lovelace move?", Language()))
    ['ada:', 'lovelac:', 'move:', 'ada lovelac:', 'lovelac move:']
    """
    words: dict[str, str] = {}
    for term, word in question:
        words.setdefault(word, term)  # of an identifier, the whole

    terms = list(words.values())
    pairs = pairwise(terms)
    return [_join_name([term]) for term in terms] + list(map(_join_name, pairs))


def find_phrases(text: str, question: Sequence[QuestionWord], language: Language) -> list[int]:
    """Return the places of the words of a question that its next word follows in a text too.

    At most two other words are between them. The parts of an identifier in the question are no
    phrase of their own.

    >>> question = split_question("Who paints old houses?", Language())
    >>> find_phrases("He paints all the old barns and his house.", question, Language())
    [0]
    """
    preceding: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for place, (first, second) in enumerate(pairwise(question)):
        if first.word != second.word:
            preceding[second.term].append((place, first.term))

    found: set[int] = set()
    last: dict[str, int] = {}
    position = 0
    for run in divide(text, language):
        for number, word in enumerate(run.terms, position + 1):
            for place, term in preceding.get(word.term, ()):
                if term in last and number - last[term] <= MOST_APART:
                    found.add(place)
            last[word.term] = number
        position += max(len(run.terms), run.length)  # stop words are only in the length

    return sorted(found)


def _join_name(words: Sequence[str]) -> str:
    return " ".join(words)[: LONGEST_TERM - 1] + ":"


def split_question(question: str, language: Language) -> tuple[QuestionWord, ...]:
    """Return the terms of a question, each once, in the order of the question.

    A sentence that only asks for memories, such as "What do you know about me?", has no terms.

    >>> [word.term for word in split_question("Which painters painted?", Language())]
    ['painter', 'paint']
    """
    words: dict[str, QuestionWord] = {}
    has_stop_words = False

    for run in divide(question, language):
        has_stop_words = has_stop_words or run.length > len(run.terms)
        for word in run.terms:
            words.setdefault(word.term, word)

    # Without stop words it is no sentence, and may be a search: "memory" finds that word.
    if has_stop_words:
        asking = ASKING_WORDS.get(language.name, ())
        if words.keys() <= {_stem(word.casefold(), language.name) for word in asking}:
            return ()

    return tuple(words.values())


def _count(text: str, language: Language, times: int, counts: Counter[str]) -> int:
    """Add a text's terms to the counts; return its length in words, stop words included."""
    length = 0

    for run in divide(text, language):
        length += times * run.length
        for word in run.terms:
            counts[word.term] += times

    return length


def divide(text: str, language: Language) -> Iterator[_Run]:
    """Yield the runs of a text in order."""
    normal = unicodedata.normalize("NFKC", text).translate(_SEPARATORS)

    for run in _RUN.findall(normal):
        if len(run) <= LONGEST_TERM:
            yield _split_known_run(run, language.name)
        else:
            yield _split_run(run, language.name)


def _split_run(run: str, language: str) -> _Run:
    """Return the terms of a run; a whole identifier comes before its parts."""
    folded = run.casefold()
    if _UUID.fullmatch(folded):
        return _Run((QuestionWord(folded, run),), 1)

    words = _CONNECTORS.split(run)
    parts = [part for word in words for part in _HUMP.split(word) if part]
    terms: list[QuestionWord] = []
    halves = 0

    # Plain words may also be joined, as in "well-known" or "and/or".
    is_compound = run.replace("-", "").replace("/", "").isalpha() and not _HUMP.search(run)
    is_identifier = len(words) + len(parts) > 2 and not is_compound
    if is_identifier:
        terms.append(QuestionWord(folded[:LONGEST_TERM], run))

    for part in parts:
        shown = run if is_identifier else part
        for term, size in _split_scripts(part, language):
            halves += size
            if term is not None:
                terms.append(QuestionWord(term, shown))

    return _Run(tuple(terms), (halves + 1) // 2)


_split_known_run = lru_cache(maxsize=32_768)(_split_run)
"""`_split_run` with a cache for short runs, because most words have occurred before."""


def _split_scripts(word: str, language: str) -> Iterator[tuple[str | None, int]]:
    """Yield the term of a word, but pairs of characters for scripts without spaces.

    A stop word yields None. With each comes its length in half words.
    """
    position = 0

    for match in _SPACELESS.finditer(word):
        if match.start() > position:
            yield _find_term(word[position : match.start()], language), 2

        run = match[0].casefold()
        for start in range(max(1, len(run) - 1)):
            yield run[start : start + 2], 1
        position = match.end()

    if position < len(word):
        yield _find_term(word[position:], language), 2


def _find_term(word: str, language: str) -> str | None:
    """Return the term of one word, or None for a stop word."""
    folded = word.casefold()
    if folded in STOP_WORDS.get(language, ()):
        return None

    return _stem(folded[:LONGEST_TERM], language)


@lru_cache(maxsize=32_768)
def _stem(word: str, language: str) -> str:
    stem = IRREGULAR_FORMS.get(language, {}).get(word, word)

    if stem.isalpha():
        with _stemming:
            stem = _load_stemmer(language).stemWord(stem)

    if not stem.isascii():
        plain = _ACCENTS.sub("", unicodedata.normalize("NFD", stem))
        stem = unicodedata.normalize("NFC", plain)[:LONGEST_TERM]

    return stem or word


@lru_cache
def _load_stemmer(language: str) -> _Stemmer:
    # The package's own function would prefer another implementation if one is installed, and its
    # `__init__` imports the stemmers of all languages.
    defer_packages("snowballstemmer")
    module = import_module(f"snowballstemmer.{language}_stemmer")
    stemmer: _Stemmer = getattr(module, f"{language.title()}Stemmer")()
    return stemmer


_stemming = Lock()
"""Held while a stemmer works, because its state is the current word."""


class _Separators(dict[int, str]):
    """Maps a character to itself if it is part of a word or joins two words, else to a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        is_kept = character in "-_.@/:+#" or unicodedata.category(character)[0] in "LMN"
        mapped = character if is_kept else " "

        if code <= _LAST_REMEMBERED:
            self[code] = mapped
        return mapped


_SEPARATORS = _Separators()
