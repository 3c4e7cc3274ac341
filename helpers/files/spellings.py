"""Spellings of a name: all that a file system, an editor or a copy may make of it.

`fold` returns one spelling for all names that some file system takes for the same one, and
`list_originals` the names that a copy or backup was made from.
"""

import re
import unicodedata
from collections.abc import Iterator
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
