"""Names of files: readable ones, which every file system can keep."""

import re
import unicodedata
from hashlib import blake2b

from abilities.helpers.files import deny
from abilities.helpers.store.names import make_key

SUFFIX = ".md"

_MAX_BYTES = 150
"""Bytes of a name without its mark and suffix; file systems that decompose need up to 255."""

_MAX_FOLDERS = 7

_DIGEST_BYTES = 6

_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"*/:<>?\\|#^\[\]%~]""")
"""Characters that Windows or Obsidian forbid in names, and the one that marks our own names."""

_UNSTORABLE = ("Cn", "Co", "Cs")
"""Categories of characters that some file systems refuse or replace."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.I)
"""Names of devices (learn.microsoft.com: Naming Files, Paths, and Namespaces)."""

_CONFLICT = re.compile(r"\.conflict(-[0-9a-f]{8})?$", re.I)


def fold(path: str) -> str:
    """Return a form that is equal for paths that some file system takes for the same.

    >>> fold("Stra\u00dfe.md") == fold("STRASSE.md")
    True
    """
    # A dotless i is an i to file systems that compare in capitals.
    return deny.fold(deny.fold(path).upper())


def is_conflict(path: str) -> bool:
    """Return whether a file holds a text that lost against the store."""
    return _CONFLICT.search(path.removesuffix(SUFFIX)) is not None


def name_conflict(path: str, mark: str) -> str:
    """Return the path for the text of a file that lost against the store."""
    suffix = f"-{mark}" if mark else ""
    return f"{path.removesuffix(SUFFIX)}.conflict{suffix}{SUFFIX}"


def name_file(key: str, *, marked: bool = False) -> str:
    """Return the path for a key's file.

    A name that some system forbids is replaced by a similar one with a mark: a hash of the original
    name. With ``marked``, the file is marked by its whole key, so that no other key has its path.

    >>> name_file("People/Ada"), name_file("who?")
    ('People/Ada.md', 'who_~2ee62cdc7d70.md')
    """
    *folders, last = key.split("/", _MAX_FOLDERS)
    names: list[str] = []
    for folder in folders:
        # The folder of the key "a.md/b" must not take the name of the file of "a".
        looks_like_file = folder.lower().endswith(SUFFIX)
        names.append(_name_part(folder, mark=folder if looks_like_file else ""))

    return "/".join([*names, _name_part(last, mark=key if marked else "") + SUFFIX])


def _name_part(part: str, *, mark: str) -> str:
    """Return a part of a path; with a ``mark``, the part ends with its hash."""
    safe = [
        "_" if _UNSAFE.match(char) or unicodedata.category(char) in _UNSTORABLE else char
        for char in unicodedata.normalize("NFC", part)
    ]
    name = "".join(safe).encode()[:_MAX_BYTES].decode(errors="ignore").strip(" .")
    if _RESERVED.fullmatch(name):
        name = f"_{name}"

    if not mark and name and name == part and not _CONFLICT.search(name):
        return name

    digest = blake2b((mark or part).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{name or '_'}~{digest}"


def make_key_of_path(path: str) -> str:
    """Return the key of a file that says none: its path without the suffix.

    >>> make_key_of_path("Ideas/Tea shop.md")
    'Ideas/Tea shop'
    """
    # Some file systems return decomposed names, whatever name the file was given.
    return make_key(unicodedata.normalize("NFC", path[: -len(SUFFIX)]))
