"""Names that are never shared with an agent."""

import re
import unicodedata
from collections.abc import Iterable


class DenyList:
    """Names that are never shared with an agent, matched at any depth and in any case.

    A pattern names a component or several (``.docker/config.json``); ``*`` stays within a component, a
    trailing ``/**`` covers what lies beneath as well, as any match does. ``!name`` is an exception.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        chosen = list(patterns)
        refused = [_pattern(p) for p in chosen if not p.startswith("!")]
        spared = [_pattern(p[1:]) for p in chosen if p.startswith("!")]
        spare = rf"(?!(?:{'|'.join(spared)})(?:/|\Z))" if spared else ""
        self._refused = (
            re.compile(rf"(?:\A|/){spare}(?:{'|'.join(refused)})(?:/|\Z)") if refused else None
        )

    def denies(self, path: str) -> bool:
        """Whether a path, relative to its root, is on the list."""
        return self._refused is not None and self._refused.search(_folded(path)) is not None


def _pattern(pattern: str) -> str:
    body = _folded(pattern.removesuffix("/**").strip("/"))
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in body)


def _folded(path: str) -> str:
    """One spelling for all that a file system may take for the same name: case, form, invisible characters."""
    if path.isascii():
        return path.lower()
    plain = unicodedata.normalize("NFKC", path).casefold()
    return "".join(c for c in plain if unicodedata.category(c) != "Cf")
