"""Names that are never shared with an agent."""

from collections.abc import Iterable
from functools import lru_cache

from abilities.helpers.files.patterns import NamePatterns
from abilities.helpers.files.spellings import fold, list_originals

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
