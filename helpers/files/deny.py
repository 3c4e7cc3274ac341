"""What is never shared with an agent: names on the deny list, and the package's own files.

Names are denied in any spelling and any copy.

Own files are recognized by device and inode, so a hard link, a link, another case or a bind mount
makes no difference. Files that are created or replaced later are found once their folder has
changed.
"""

import math
import os
import re
import stat
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from abilities.declarations.refusals import Refused
from abilities.helpers.threads.circuit_breaker import WorkPlace

_MAX_LAYERS = 4
"""Layers of copy marks that are removed one after the other: ``#.env.bak~#`` has three."""

_MAX_ORIGINALS = 24
"""Paths that are compared when marks are removed one at a time."""

_MOST_SHORTENED = 32
"""The most names that a pattern's braces may expand to if it also matches short names."""

_REMEMBERED = 1_024
"""Paths whose answer is cached, because a batch that is continued repeats its paths."""

_FREQUENT = frozenset(
    (
        "access", "account", "api", "app", "client", "conf", "config", "csv", "d", "data", "db",
        "default", "file", "google", "host", "ini", "json", "local", "network", "pip", "py", "rb",
        "registry", "run", "runtime", "service", "ssl", "state", "store", "support", "toml", "txt",
        "user", "users", "v1", "web", "xml", "yaml", "yml",
    )
)  # fmt: skip
"""Words of many ordinary paths: no pattern is indexed by one if it has another word."""

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
        | \.\#                              # Emacs: a lock
        | \._                               # macOS: attributes, on other file systems
        | ~\$                               # Office: a lock
        | [!%] [^/]* [!%] (?=[^/])          # Vim, Emacs: a whole path, in a backup folder
        | (?:copy|backup)[ ]of[ ]
    )
    | (?<=[^/]) (?:
        ~ | \# | \.~\d+~ | \.un~            # Emacs, Vim
        | \.sw[a-p]                         # Vim
        | [._-] (?:{_BACKUP}) \d*
        | - (?:{_DATABASE})                 # SQLite: files of a database
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

# Every mark contains one of these, and they are found far faster than the marks themselves.
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
    """Return one spelling for all names that a file system may treat as equal.

    Letter case, Unicode normalization and ignorable characters make no difference. HFS+, APFS and
    ext4 compare canonical forms. ZFS may compare compatibility forms (``normalization=formKC``), in
    which full-width letters equal ASCII.

    >>> fold("ÀB.Key") == fold("A\u0300b.KEY")
    True
    """
    if path.isascii():
        return path.lower()

    normalized = unicodedata.normalize("NFKC", path)
    visible = [char for char in normalized if unicodedata.category(char) != _FORMAT]
    folded = _IGNORABLE.sub("", "".join(visible)).casefold()
    return unicodedata.normalize("NFKC", folded)


def list_originals(path: str) -> list[str]:
    """Return the paths of which a folded path may be a copy.

    >>> list_originals("a/.env.bak"), list_originals("a/environment.md")
    (['a/.env'], [])
    """
    if not _HINTS.search(path):
        return []

    # Most copies have one or two marks, which are all removed, the outermost layer first.
    originals: list[str] = []
    layer = path
    for _ in range(_MAX_LAYERS):
        originals.append(_SWAP_FILE.sub(r"\1", layer))
        layer = _MARKS.sub("", layer)
        originals.append(layer)

    # But a name such as krb5cc_1000 ends like a copy, and must keep that ending if its own copy has
    # another mark. So marks are also removed one at a time: each one, each two, and so on.
    partly = [path]
    for original in partly:
        for mark in _MARKS.finditer(original):
            stripped = original[: mark.start()] + original[mark.end() :]
            if stripped not in partly and len(partly) <= _MAX_ORIGINALS:
                partly.append(stripped)

    originals += partly
    return [original for original in dict.fromkeys(originals) if original != path]


def shorten(name: str) -> str:
    """Return the short name of FAT and NTFS for a name, without the number.

    >>> shorten(".git"), shorten("service-account.json")
    ('git', 'servic.jso')
    """
    spaceless = name.lstrip(".").replace(" ", "")
    stem, dot, ending = spaceless.rpartition(".")
    if not dot:
        stem, ending = ending, ""

    stem = _NOT_IN_SHORT_NAMES.sub("_", stem.replace(".", ""))
    return stem[:6] + dot + ending[:3]


_BRACES = r"\{[^{}]*,[^{}]*\}"
_WILDCARD = re.compile(rf"{_BRACES}|[*?]")
_TOKEN = re.compile(rf"{_BRACES}|(?s:.)")
_FILES_ONLY = "file:"
_EXPRESSIONS = {"*": "[^/]*", "?": "[^/]"}

_WHOLE_WORD = re.compile(r"(?<![^\W_]|[*?])[^\W_]+(?![^\W_]|[*?])")
_SEPARATORS = {code: "/" for code in range(128) if not chr(code).isalnum()}


class NamePatterns:
    """Patterns of one or more names, which match whole names anywhere in a path.

    ``*`` and ``?`` stay within a name, and ``{a,b}`` matches either. A pattern that begins with
    ``file:`` matches no folder, whose path ends in ``/``. Patterns and paths are folded.

    Each pattern is indexed by a key: the word that is in the fewest other patterns, or a fragment
    if it has no whole word. Only the patterns whose key is in a path are matched.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        trimmed = [pattern.removesuffix("/**").strip("/") for pattern in patterns]
        names = [pattern.removeprefix(_FILES_ONLY) for pattern in trimmed]
        words_of: dict[str, list[str]] = {}
        for name in names:
            # The words that are in each name that matches, between two separators.
            words_of[name] = _WHOLE_WORD.findall(_WILDCARD.sub("*", name))

        counts = Counter(word for name in names for word in words_of[name])
        self._patterns: dict[str, list[str]] = {}
        self._expressions: dict[str, re.Pattern[str]] = {}
        self._fragments: set[str] = set()

        for pattern, name in zip(trimmed, names, strict=True):
            words = words_of[name]
            if words:
                key = min(words, key=lambda word: (word in _FREQUENT, counts[word], -len(word)))
            else:
                key = max(_WILDCARD.split(name), key=len)
                self._fragments.add(key)
            self._patterns.setdefault(key, []).append(pattern)

        self._names = names
        self._words = frozenset(self._patterns)

    @cached_property
    def _long_names(self) -> dict[str, str]:
        """The names in patterns by their short names; most processes see no path with one.

        Patterns of a single name come before those of several, and names that are too long for FAT
        before names that are short anyway.
        """
        long_names: dict[str, str] = {}
        short_anyway: dict[str, str] = {}

        parts: list[str] = []
        for pattern in sorted(self._names, key=lambda text: text.count("/")):
            parts += pattern.split("/")

        for part in parts:
            choices: list[list[str]] = []
            for token in _TOKEN.findall(part):
                choices.append(token[1:-1].split(",") if len(token) > 1 else [token])
            if math.prod(map(len, choices)) > _MOST_SHORTENED:
                continue

            for name in map("".join, product(*choices)):
                if re.fullmatch(r"\*\.[^.*?]{4,}", name):
                    long_names.setdefault(name[1:5], name[1:])
                elif not name.startswith("*"):
                    literal = _WILDCARD.sub("", name)
                    short = shorten(literal)
                    names = short_anyway if short == literal else long_names
                    names.setdefault(short, literal)

        return short_anyway | long_names

    def find_keys(self, path: str) -> list[str]:
        """Return the keys of patterns that are in a path; without any, no pattern matches."""
        keys: list[str] = []
        words = path.translate(_SEPARATORS).split("/")
        if not self._words.isdisjoint(words):
            keys.extend(self._words.intersection(words))

        if self._fragments:
            keys += [fragment for fragment in self._fragments if fragment in path]

        return keys

    def find_matches(self, path: str, keys: Iterable[str]) -> Iterator[range]:
        """Yield the indices of the names that each match covers.

        ``keys`` are the path's, or those of a path of which this one is the original.
        """
        for key in keys:
            expression = self._expressions.get(key)
            if expression is None:
                # The longest first, because a match of many names covers what others would.
                patterns = self._patterns[key]
                patterns = sorted(patterns, key=lambda text: text.count("/"), reverse=True)
                alternatives = "|".join(_translate(pattern) for pattern in patterns)
                expression = re.compile(rf"(?<![^/])(?=({alternatives})(?:/|\Z))")
                self._expressions[key] = expression

            for match in expression.finditer(path):
                start = path.count("/", 0, match.start(1))
                yield range(start, start + match[1].count("/") + 1)

    def lengthen(self, path: str) -> str:
        """Return a path with the patterns' full names in place of short ones such as ``git~1``."""
        names = path.split("/")
        for index, name in enumerate(names):
            match = _SHORT_NAME.fullmatch(name)
            if match is None:
                continue

            stem, ending = match[1], match[2] or ""
            for key in (stem + ending, stem, ending):
                if key in self._long_names:
                    names[index] = self._long_names[key]
                    break

        return "/".join(names)


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


class DenyList:
    """Names that are never shared with an agent, matched at any depth and in any spelling.

    A pattern is one name, such as ``*.pem``, or several, such as ``.docker/config.json``. ``*``
    and ``?`` stay within a name, and ``{a,b}`` matches either. Everything beneath a match is denied
    too, which a trailing ``/**`` may say explicitly. A pattern that begins with ``file:`` matches
    no folder. ``!name`` makes an exception: ``!.env.example`` is shared although ``.env.*`` is not.
    An exception of several names, such as ``!tests/*.pem``, applies to each of them.

    Copies and backups are denied like their originals, and so are the short names of FAT and NTFS.

    >>> denied = DenyList(["*.pem", "!tests/*.pem"])
    >>> [denied.denies(path) for path in ("a/KEY.pem", "a/key.pem.bak", "tests/key.pem")]
    [True, True, False]
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._listed = tuple(patterns)
        self._decide_once = lru_cache(_REMEMBERED)(self._decide)

    # Short commands open no file, and need not wait for these.

    @cached_property
    def _denied(self) -> NamePatterns:
        return NamePatterns(
            [fold(pattern) for pattern in self._listed if not pattern.startswith("!")]
        )

    @cached_property
    def _spared(self) -> NamePatterns:
        return NamePatterns(
            [fold(pattern[1:]) for pattern in self._listed if pattern.startswith("!")]
        )

    def denies(self, path: str) -> bool:
        """Return whether a path, relative to its root, is on the list.

        The path of a folder ends in ``/``.
        """
        return self._decide_once(path)

    def _decide(self, path: str) -> bool:
        folded = fold(path)
        if self._denies_spelling(folded):
            return True

        return "~" in folded and self._denies_spelling(self._denied.lengthen(folded))

    def _denies_spelling(self, path: str) -> bool:
        """Return whether a folded path, or one that it may be a copy of, is on the list."""
        keys = self._denied.find_keys(path)
        if not keys:
            return False  # nearly every path

        if self._matches(path, keys, frozenset()):
            return True

        # An exception under its own name is not denied as a copy of another file.
        spared = self._find_spared(path)
        return any(self._matches(original, keys, spared) for original in list_originals(path))

    def _matches(self, path: str, keys: list[str], spared: frozenset[int]) -> bool:
        """Return whether any name in a path is denied, and its index is not spared."""
        starts = {match.start for match in self._denied.find_matches(path, keys)}
        if not starts:
            return False

        return not starts <= spared | self._find_spared(path)

    def _find_spared(self, path: str) -> frozenset[int]:
        """Return the indices of the names that are exceptions."""
        spared: set[int] = set()
        for match in self._spared.find_matches(path, self._spared.find_keys(path)):
            spared.update(match)

        return frozenset(spared)


@lru_cache(8)
def build_deny_list(patterns: tuple[str, ...]) -> DenyList:
    """Return the deny list for patterns, cached, so that equal patterns share one list."""
    return DenyList(patterns)


SETTLED_SECONDS = 2.0
"""The coarsest resolution of a file system's time stamps (FAT)."""

FRESH_SECONDS = 1.0
"""The age up to which a snapshot is used without another look, unless a file has changed since."""

HEADER_BYTES = 100
"""The length of an SQLite database's header."""

PAGE_BYTES = 512
"""The smallest page of an SQLite database, whose size is a multiple of its page size."""

MIN_STORE_BYTES = 8 * PAGE_BYTES
"""A store is larger, because each of its tables has at least one page."""

Identity = tuple[int, int]
"""Device and inode of a file."""

Stamp = tuple[int, ...]

_PLACE = "own files"


class OwnPlace(NamedTuple):
    """A file of the package, by its absolute path, and the suffixes of related files.

    For example, the suffix ``-`` of ``memory.db`` also covers ``memory.db-wal``.
    """

    path: str
    suffixes: tuple[str, ...] = ()


class Snapshot(NamedTuple):
    """The package's files at one time, and the stamps of the folders they were found in.

    If a file's status has changed (``st_ctime``) after ``known_until``, the file may have been
    created or renamed after the snapshot was taken.
    """

    identities: frozenset[Identity] = frozenset()
    taken_at: float = 0.0
    known_until: float = 0.0
    stamps: tuple[tuple[str, Stamp], ...] = ()
    is_settled: bool = False


@dataclass(slots=True)
class OwnFiles:
    """The package's own files: settings, tokens, the store and related files beside them.

    ``is_store`` returns whether a file's header is that of a store, or of a copy anywhere. Threads
    may share an object, because its snapshot is replaced in one assignment.
    """

    places: Sequence[OwnPlace] = ()
    is_store: Callable[[bytes], bool] = lambda _: False
    _snapshot: Snapshot = field(default_factory=Snapshot)

    def find(self, enter: Callable[[WorkPlace], None]) -> Snapshot:
        """Return the own files, as of one second ago at the earliest; ``enter`` as in `refresh`."""
        if abs(time.time() - self._snapshot.taken_at) < FRESH_SECONDS:
            return self._snapshot

        return self.refresh(enter)

    def refresh(self, enter: Callable[[WorkPlace], None]) -> Snapshot:
        """Return the own files as they are now.

        ``enter`` is called before the disk is touched, and may raise Refused if the disk does not
        answer. Then the last snapshot is returned, because no file on such a disk can be read.
        """
        if not self.places:
            return self._snapshot

        try:
            enter(WorkPlace(_PLACE, (self.places[0].path,)))
        except Refused:
            return self._snapshot

        now = time.time()
        known = self._snapshot
        is_same = all(_stamp(path) == stamp for path, stamp in known.stamps)

        known_until = now - SETTLED_SECONDS
        if known.is_settled and is_same:
            self._snapshot = known._replace(taken_at=now, known_until=known_until)
            return self._snapshot

        identities: set[Identity] = set()
        watched: dict[str, Stamp] = {}
        for place in self.places:
            real_path = os.path.realpath(place.path)
            if real_path != place.path:
                watched[place.path] = _stamp(place.path)  # a link may lead elsewhere later

            for path in {place.path, real_path}:
                folder, name = os.path.split(path)
                watched[folder] = _stamp(folder)  # before it is read, so that later changes show
                identities |= _find_family(folder, name, place.suffixes)

        newest = max((stamp[-1] for stamp in watched.values() if stamp), default=0)
        is_settled = newest / 1e9 < known_until
        stamps = tuple(watched.items())
        self._snapshot = Snapshot(frozenset(identities), now, known_until, stamps, is_settled)
        return self._snapshot

    def is_copy(self, descriptor: int, size: int) -> bool:
        """Return whether an open file of a size is a store or a copy of one. Raises OSError."""
        if size < MIN_STORE_BYTES or size % PAGE_BYTES:
            return False

        return self.is_store(os.pread(descriptor, HEADER_BYTES, 0))


def _find_family(folder: str, name: str, suffixes: tuple[str, ...]) -> set[Identity]:
    """Return the identities of a file and of its related files."""
    beginnings = tuple(name + suffix for suffix in suffixes)
    identities: set[Identity] = set()

    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == name or entry.name.startswith(beginnings):
                with suppress(OSError):
                    status = entry.stat()
                    identities.add((status.st_dev, status.st_ino))

    # If the file system ignores case, the setting may spell the name in another case.
    with suppress(OSError):
        status = os.stat(os.path.join(folder, name))
        identities.add((status.st_dev, status.st_ino))

    return identities


def _stamp(path: str) -> Stamp:
    """Return a value that differs once a folder's names change, or a link leads elsewhere."""
    try:
        status = os.stat(path)
    except OSError:
        return ()

    identity = (status.st_dev, status.st_ino)
    if not stat.S_ISDIR(status.st_mode):
        return (*identity, 0)

    return (*identity, status.st_mtime_ns)
