"""Names that are never shared with an agent."""

import re
import unicodedata
from collections.abc import Iterable

_WILDCARDS = {"*": "[^/]*", "?": "[^/]"}

_INVISIBLE = "Cf"
"""The category of invisible characters, which some file systems ignore in names."""


class DenyList:
    """Names that are never shared with an agent, matched at any depth and in any case.

    A pattern is one name, such as ``*.pem``, or several, such as ``.docker/config.json``. ``*``
    and ``?`` stay within a name. Whatever lies beneath a match is denied too; a trailing ``/**``
    may say so. ``!name`` makes an exception: ``!.env.example`` is shared although ``.env.*`` is
    not.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        denied: list[str] = []
        spared: list[str] = []
        for pattern in patterns:
            if pattern.startswith("!"):
                spared.append(_translate(pattern[1:]))
            else:
                denied.append(_translate(pattern))

        self._denied = _compile(denied, spared)

    def denies(self, path: str) -> bool:
        """Return whether a path, relative to its root, is on the list."""
        return self._denied is not None and self._denied.search(_fold(path)) is not None


def _compile(denied: list[str], spared: list[str]) -> re.Pattern[str] | None:
    """Compile one expression that finds a denied name in a path; None if nothing is denied."""
    if not denied:
        return None

    exception = ""
    if spared:
        exception = rf"(?!(?:{'|'.join(spared)})(?:/|\Z))"

    return re.compile(rf"(?:\A|/){exception}(?:{'|'.join(denied)})(?:/|\Z)")


def _translate(pattern: str) -> str:
    """Translate a pattern into a regular expression."""
    names = pattern.removesuffix("/**").strip("/")
    expression = ""

    for char in _fold(names):
        expression += _WILDCARDS.get(char, re.escape(char))

    return expression


def _fold(path: str) -> str:
    """Return one spelling for all names that a file system may take for the same one.

    Letter case, Unicode normalization and invisible characters make no difference.
    """
    if path.isascii():
        return path.lower()

    folded = unicodedata.normalize("NFKC", path).casefold()
    visible = [char for char in folded if unicodedata.category(char) != _INVISIBLE]
    return "".join(visible)
