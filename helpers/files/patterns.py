"""Patterns of names, hundreds of them, told apart from almost every path in one look.

Each pattern stands under a word that whatever matches it must hold: ``*.pem`` under "pem",
``.config/gh/hosts.yml`` under "gh". A path is compared with the patterns of its own words only, and
almost every path has none. A copy's name holds the words of its original.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from abilities.helpers.files.spellings import parse_short_name, shorten

_WILDCARD = re.compile(r"[*?]")
_EXPRESSIONS = {"*": "[^/]*", "?": "[^/]"}

_WHOLE_WORD = re.compile(r"(?<![^\W_]|[*?])[^\W_]+(?![^\W_]|[*?])")
_SEPARATORS = {code: "/" for code in range(128) if not chr(code).isalnum()}

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

    ``*`` and ``?`` stay within a name. Patterns and paths are folded.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        trimmed = [pattern.removesuffix("/**").strip("/") for pattern in patterns]
        counts = Counter(word for pattern in trimmed for word in _WHOLE_WORD.findall(pattern))
        self._patterns: dict[str, list[str]] = {}
        self._expressions: dict[str, re.Pattern[str]] = {}
        self._fragments: set[str] = set()

        for pattern in trimmed:
            key = _choose_word(pattern, counts)
            if key is None:
                key = max(_WILDCARD.split(pattern), key=len)
                self._fragments.add(key)
            self._patterns.setdefault(key, []).append(pattern)

        self._words = frozenset(self._patterns)
        self._long_names = _list_short_names(trimmed)

    def find_keys(self, path: str) -> list[str]:
        """Return the words that patterns stand under and a path holds; none if nothing matches."""
        keys: list[str] = []
        words = path.translate(_SEPARATORS).split("/")
        if not self._words.isdisjoint(words):
            keys.extend(self._words.intersection(words))

        if self._fragments:
            keys.extend(fragment for fragment in self._fragments if fragment in path)

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


def _choose_word(pattern: str, counts: Counter[str]) -> str | None:
    """Return the word of a pattern that is in the fewest others; None if it has no whole word."""
    words: list[str] = _WHOLE_WORD.findall(pattern)
    if not words:
        return None

    return min(words, key=lambda word: (word in _FREQUENT, counts[word], -len(word)))


def _list_short_names(patterns: Sequence[str]) -> dict[str, str]:
    """Return the patterns' names by their short ones; single names win over parts of others."""
    long_names: dict[str, str] = {}

    for pattern in sorted(patterns, key=lambda text: text.count("/")):
        for name in pattern.split("/"):
            if re.fullmatch(r"\*\.[^.*?]{4,}", name):
                long_names.setdefault(name[1:5], name[1:])
            elif not name.startswith("*"):
                literal = _WILDCARD.sub("", name)
                long_names.setdefault(shorten(literal), literal)

    return long_names


def _translate(pattern: str) -> str:
    """Translate a pattern into a regular expression."""
    expression = ""
    for char in pattern:
        expression += _EXPRESSIONS.get(char, re.escape(char))

    return expression
