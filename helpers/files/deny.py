"""Names that are never shared with an agent."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

_MAX_LAYERS = 4
"""Marks of copies that are taken off one after the other: ``#.env.bak~#`` has three."""

_MAX_ORIGINALS = 24
"""Paths that are compared when marks are taken off one at a time."""

# Unicode's property Default_Ignorable_Code_Point (DerivedCoreProperties.txt), beyond the category
# Cf. A folder of ext4 or f2fs that ignores case ignores these characters as well.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
_FORMAT = "Cf"

_BACKUP = r"bak|bck|bk|bkp|backup|copy|disabled|old|orig|original|prev|previous|save|saved|temp|tmp"
_DATABASE = "journal|shm|wal"
_PACKAGE = r"dpkg-(?:bak|dist|new|old|tmp)|(?:pac|rpm)(?:new|orig|save)|ucf-(?:new|old)"
_DATE = r"\d{4}-\d\d-\d\d(?:[t_-][\d-]+)?"

_MARKS = re.compile(
    rf"""
    (?=[~#!%:(\ ._bc-]) (?:                 # so that most characters are passed fast
    (?<![^/]) (?:
        \#                                  # Emacs: '#name#', saved while it is edited
        | \.\#                              # Emacs: who edits it
        | \._                               # macOS: its attributes, on other file systems
        | ~\$                               # Office: who edits it
        | [!%] [^/]* [!%] (?=[^/])          # Vim, Emacs: its whole path, among backups
        | (?:copy|backup)[ ]of[ ]
    )
    | (?<=[^/]) (?:
        ~ | \# | \.~\d+~ | \.un~            # Emacs, Vim
        | \.sw[a-p]                         # Vim
        | [._-] (?:{_BACKUP}) \d*
        | - (?:{_DATABASE})                 # SQLite: what belongs to a database
        | \.(?:{_PACKAGE})
        | [._-] \d{{1,14}} | [._-] {_DATE}  # log rotation, numbered and dated copies
        | [ ]-[ ]copy | [ ] copy (?:[ ]\d+)? | [ ]?\(\d+\) | [ ]\((?:copy|[^()/]*conflict[^()/]*)\)
        | \.sync-conflict-[\da-z-]+         # Syncthing
    ) (?= (?:\.[^./]+)? (?:/|\Z) )          # at the end, or before the ending: 'name (1).json'
    | (?<=[^/]) (?:
        [. ]+                               # Windows ignores them
        | :[^/]*                            # NTFS: a stream of the file
    ) (?= /|\Z)
    )
    """,
    re.VERBOSE,
)

# What every mark holds: far faster to look for than the marks themselves.
_HINTS = re.compile(
    r"[~#%!:)]|[ ._-](?:\d|-|b[ackp]|copy|dis|old|orig|prev|save|te?mp|sw|dpkg|pac|rpm|ucf|sync"
    r"|journal|shm|wal)"
    r"|\b(?:copy|backup) of |[. ](?:/|\Z)|(?<![^/])\._"
)

_SWAP_FILE = re.compile(r"(?<![^/])\.([^/]+)\.sw[a-p](?=/|\Z)")
"""Vim puts a dot before the name, unless it has one."""

_SHORT_NAME = re.compile(r"([^.~/]{1,6})~\d{1,6}(\.[^./]{1,3})?")
_NOT_IN_SHORT_NAMES = re.compile(r"[+,;=\[\]]")


def fold(path: str) -> str:
    """Return one spelling for all names that a file system may take for the same one.

    Letter case, Unicode normalization and ignorable characters make no difference. HFS+, APFS and
    ext4 compare canonical forms; ZFS may compare compatible ones (``normalization=formKC``), in
    which full-width letters are the same as ASCII.
    """
    if path.isascii():
        return path.lower()

    normalized = unicodedata.normalize("NFKC", path)
    visible = [char for char in normalized if unicodedata.category(char) != _FORMAT]
    folded = _IGNORABLE.sub("", "".join(visible)).casefold()
    return unicodedata.normalize("NFKC", folded)


def list_originals(path: str) -> Iterator[str]:
    """Yield the paths of which a folded path may be a copy.

    >>> list(list_originals("a/.env.bak")), list(list_originals("a/environment.md"))
    (['a/.env'], [])
    """
    if not _HINTS.search(path):
        return

    # Most copies have a mark or two, all of which go; but a name may end as a copy's does, such as
    # krb5cc_1000, and keeps that if its copy has another mark.
    found = {path}
    for original in chain(_strip_all(path), _strip_each(path)):
        if original not in found:
            found.add(original)
            yield original


def _strip_all(path: str) -> Iterator[str]:
    """Yield a path without its outermost marks, then without the next ones, and so on."""
    for _ in range(_MAX_LAYERS):
        swapped = _SWAP_FILE.sub(r"\1", path)
        if swapped != path:
            yield swapped

        original = _MARKS.sub("", path)
        if original == path:
            return

        yield original
        path = original


def _strip_each(path: str) -> Iterator[str]:
    """Yield a path without any one of its marks, then those without any two, and so on."""
    originals = [path]

    for original in originals:
        for mark in _MARKS.finditer(original):
            stripped = original[: mark.start()] + original[mark.end() :]
            if stripped in originals or len(originals) > _MAX_ORIGINALS:
                continue

            originals.append(stripped)
            yield stripped


def shorten(name: str) -> str:
    """Return a name as short names of FAT and NTFS have it, without their number.

    >>> shorten(".git"), shorten("service-account.json")
    ('git', 'servic.jso')
    """
    spaceless = name.lstrip(".").replace(" ", "")
    stem, dot, ending = spaceless.rpartition(".")
    if not dot:
        stem, ending = ending, ""

    stem = _NOT_IN_SHORT_NAMES.sub("_", stem.replace(".", ""))
    return stem[:6] + dot + ending[:3]


def parse_short_name(name: str) -> tuple[str, str] | None:
    """Return stem and ending of a short name such as ``git~1``; None for any other name."""
    match = _SHORT_NAME.fullmatch(name)
    if match is None:
        return None

    return match[1], match[2] or ""


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


_REMEMBERED = 1_024
"""Paths whose answer is remembered: those of a batch that is continued come again and again."""


class DenyList:
    """Names that are never shared with an agent, matched at any depth and in any spelling.

    A pattern is one name, such as ``*.pem``, or several, such as ``.docker/config.json``. ``*``
    and ``?`` stay within a name, and ``{a,b}`` stands for either. Whatever lies beneath a match is
    denied too, and a trailing ``/**`` may say so; a pattern that begins with ``file:`` matches no
    folder. ``!name`` makes an exception: ``!.env.example`` is shared although ``.env.*`` is not. An
    exception of several names, such as ``!tests/*.pem``, holds for each of them.

    Copies and backups are denied like what they were made from, and so are the short names of
    FAT and NTFS.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        denied: list[str] = []
        spared: list[str] = []
        for pattern in patterns:
            if pattern.startswith("!"):
                spared.append(fold(pattern[1:]))
            else:
                denied.append(fold(pattern))

        self._denied = NamePatterns(denied)
        self._spared = NamePatterns(spared)
        self._remember = lru_cache(_REMEMBERED)(self._decide)

    def denies(self, path: str) -> bool:
        """Return whether a path, relative to its root, is on the list.

        The path of a folder ends in ``/``.
        """
        return self._remember(path)

    def _decide(self, path: str) -> bool:
        folded = fold(path)
        if self._denies_spelling(folded):
            return True

        return "~" in folded and self._denies_spelling(self._denied.lengthen(folded))

    def _denies_spelling(self, path: str) -> bool:
        """Return whether a folded path, or one that it may be a copy of, is on the list."""
        keys = self._denied.find_keys(path)
        if not keys:
            return False  # as nearly every path

        if self._matches(path, keys, frozenset()):
            return True

        # What is an exception under its own name is not denied as a copy of something else.
        spared = self._find_spared(path)
        return any(self._matches(original, keys, spared) for original in list_originals(path))

    def _matches(self, path: str, keys: list[str], spared: frozenset[int]) -> bool:
        """Return whether any name in a path is denied, and not spared by its index."""
        starts = {match.start for match in self._denied.find_matches(path, keys)}
        if not starts:
            return False

        return not starts <= spared | self._find_spared(path)

    def _find_spared(self, path: str) -> frozenset[int]:
        """Return the indexes of the names that are exceptions."""
        spared: set[int] = set()
        for match in self._spared.find_matches(path, self._spared.find_keys(path)):
            spared.update(match)

        return frozenset(spared)


@lru_cache(8)
def build_deny_list(patterns: tuple[str, ...]) -> DenyList:
    """Return the list of some patterns; who asks for the same ones again shares it."""
    return DenyList(patterns)
