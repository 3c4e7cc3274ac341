"""Patterns of names, hundreds of them, told apart from almost every path in one look.

Each pattern stands under a word that whatever matches it must hold: ``*.pem`` under "pem",
``.config/gh/hosts.yml`` under "gh". A path is compared with the patterns of its own words only, and
almost every path has none. A copy's name holds the words of its original.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from abilities.helpers.files.spellings import parse_short_name, shorten

_BRACES = r"\{[^{}]*,[^{}]*\}"
_WILDCARD = re.compile(rf"{_BRACES}|[*?]")
_TOKEN = re.compile(rf"{_BRACES}|(?s:.)")
_FILES_ONLY = "file:"
_EXPRESSIONS = {"*": "[^/]*", "?": "[^/]"}

_WHOLE_WORD = re.compile(r"(?<![^\W_]|[*?])[^\W_]+(?![^\W_]|[*?])")
_SEPARATORS = {code: "/" for code in range(128) if not chr(code).isalnum()}

_MOST_SHORTENED = 32
"""Names that a pattern may stand for if it has braces and is to be known by short names too."""

_FREQUENT = frozenset(
    (
        "access", "account", "api", "app", "client", "conf", "config", "csv", "d", "data", "db",
        "default", "file", "google", "host", "ini", "json", "local", "network", "pip", "py", "rb",
        "registry", "run", "runtime", "service", "ssl", "state", "store", "support", "toml", "txt",
        "user", "users", "v1", "web", "xml", "yaml", "yml",
    )
)  # fmt: skip
"""Words of many ordinary paths: no pattern stands under one if it has another."""


class NamePatterns:
    """Patterns of one name or several, which match whole names anywhere in a path.

    ``*`` and ``?`` stay within a name, and ``{a,b}`` stands for either. A pattern that begins with
    ``file:`` matches no folder, whose path ends in ``/``. Patterns and paths are folded.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        trimmed = [pattern.removesuffix("/**").strip("/") for pattern in patterns]
        names = [pattern.removeprefix(_FILES_ONLY) for pattern in trimmed]
        counts = Counter(word for name in names for word in _list_whole_words(name))
        self._patterns: dict[str, list[str]] = {}
        self._expressions: dict[str, re.Pattern[str]] = {}
        self._fragments: set[str] = set()

        for pattern, name in zip(trimmed, names, strict=True):
            key = _choose_word(name, counts)
            if key is None:
                key = max(_WILDCARD.split(name), key=len)
                self._fragments.add(key)
            self._patterns.setdefault(key, []).append(pattern)

        self._words = frozenset(self._patterns)
        self._long_names = _list_short_names(names)

    def find_keys(self, path: str) -> list[str]:
        """Return the words that patterns stand under and a path holds; none if nothing matches."""
        keys: list[str] = []
        words = path.translate(_SEPARATORS).split("/")
        if not self._words.isdisjoint(words):
            keys.extend(self._words.intersection(words))

        if self._fragments:
            keys += [fragment for fragment in self._fragments if fragment in path]

        return keys

    def find_matches(self, path: str, keys: Iterable[str]) -> Iterator[range]:
        """Yield the indexes of the names that each match covers.

        ``keys`` are those of the path, or of one that it is the original of.
        """
        for key in keys:
            for match in self._compile(key).finditer(path):
                start = path.count("/", 0, match.start(1))
                yield range(start, start + match[1].count("/") + 1)

    def lengthen(self, path: str) -> str:
        """Return a path with the patterns' own names in place of short ones like ``git~1``."""
        return "/".join(self._find_long_name(name) for name in path.split("/"))

    def _compile(self, key: str) -> re.Pattern[str]:
        """Compile the patterns under a word, when it is met for the first time."""
        expression = self._expressions.get(key)
        if expression is None:
            # What covers more names comes first, for it covers what the others would.
            patterns = sorted(self._patterns[key], key=lambda text: text.count("/"), reverse=True)
            alternatives = "|".join(_translate(pattern) for pattern in patterns)
            expression = re.compile(rf"(?<![^/])(?=({alternatives})(?:/|\Z))")
            self._expressions[key] = expression

        return expression

    def _find_long_name(self, name: str) -> str:
        """Return the pattern's name that a short one stands for; any other name as it is."""
        parsed = parse_short_name(name)
        if parsed is None:
            return name

        stem, ending = parsed
        for key in (stem + ending, stem, ending):
            if key in self._long_names:
                return self._long_names[key]

        return name


def _list_whole_words(pattern: str) -> list[str]:
    """Return the words that every name that matches a pattern holds between two separators."""
    required = _WILDCARD.sub("*", pattern)
    words: list[str] = _WHOLE_WORD.findall(required)
    return words


def _choose_word(pattern: str, counts: Counter[str]) -> str | None:
    """Return the word of a pattern that is in the fewest others; None if it has no whole word."""
    words = _list_whole_words(pattern)
    if not words:
        return None

    return min(words, key=lambda word: (word in _FREQUENT, counts[word], -len(word)))


def _list_short_names(patterns: Sequence[str]) -> dict[str, str]:
    """Return the patterns' names by their short ones.

    Single names win over parts of others, and names that are too long for FAT over those that are
    short anyway.
    """
    long_names: dict[str, str] = {}
    short_anyway: dict[str, str] = {}

    for pattern in sorted(patterns, key=lambda text: text.count("/")):
        for name in chain.from_iterable(map(_expand, pattern.split("/"))):
            if re.fullmatch(r"\*\.[^.*?]{4,}", name):
                long_names.setdefault(name[1:5], name[1:])
            elif not name.startswith("*"):
                literal = _WILDCARD.sub("", name)
                short = shorten(literal)
                names = short_anyway if short == literal else long_names
                names.setdefault(short, literal)

    return short_anyway | long_names


def _expand(name: str) -> list[str]:
    """Return the names that the braces of a name stand for; none if they are too many."""
    names = [""]
    for token in _TOKEN.findall(name):
        choices = [token]
        if len(token) > 1:
            choices = token[1:-1].split(",")

        names = [before + choice for before in names for choice in choices]
        if len(names) > _MOST_SHORTENED:
            return []

    return names


def _translate(pattern: str) -> str:
    """Translate a pattern into a regular expression."""
    expression = ""
    tokens: list[str] = _TOKEN.findall(pattern.removeprefix(_FILES_ONLY))
    for token in tokens:
        if len(token) > 1:
            choices = map(_translate, token[1:-1].split(","))
            expression += f"(?:{'|'.join(choices)})"
        else:
            expression += _EXPRESSIONS.get(token, re.escape(token))

    if pattern.startswith(_FILES_ONLY):
        expression += "(?!/)"

    return expression
