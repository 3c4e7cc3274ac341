"""Glob patterns over relative paths.

``*``, ``?`` and ``[…]`` stay within a component, as in Python's fnmatch. ``**`` matches any number
of components, and ``{a,b}`` matches either. A pattern that ends in the name of a folder matches the
files in it: ``docs`` is ``docs/**``. As in a shell, matching is case-sensitive, and a name that
begins with a dot is matched only if the pattern has that dot.

A pattern is matched one component at a time, so that a walk can skip folders in which nothing can
match.
"""

import re
from collections.abc import Collection
from fnmatch import translate
from typing import NamedTuple

from abilities.declarations.limits import MAX_PATH_CHARS
from abilities.declarations.refusals import Refused
from abilities.declarations.values import BRACES_FORM, expand_braces, find_path_fault
from abilities.helpers.files.confinement import MAX_COMPONENTS

_WILDCARD = re.compile(r"[*?[]")


class _Component(NamedTuple):
    """One component of a pattern: its text, and its regular expression; None for ``**``."""

    text: str
    expression: re.Pattern[str] | None


_DOUBLE_STAR = _Component("**", None)


class GlobState(NamedTuple):
    """A position in one of a pattern's alternatives: the components before it have been matched.

    With ``names_skipped``, a folder above is one that is skipped unless a pattern names it.
    """

    alternative: int
    component: int
    names_skipped: bool = False


States = frozenset[GlobState]


class Glob:
    """A pattern, matched one component at a time.

    Begin with `start`, call `step` with each name of a path, and ask `accepts` at its end::

        states = glob.start
        for name in ("src", "app.py"):
            states = glob.step(states, name)
        glob.accepts(states)

    >>> Glob("src/**/*.{py,md}").matches("src/app.py"), Glob("*.py").matches(".app.py")
    (True, False)
    """

    def __init__(self, pattern: str) -> None:
        """Parse a pattern.

        Raises Refused if it could never match, with the reason that such a path would get
        (path_too_long, control_character, backslash, absolute_path, parent_traversal,
        path_too_deep), or invalid_format if its braces expand to too many patterns.
        """
        _check(pattern)
        alternatives: list[list[_Component]] = []

        expanded = expand_braces(pattern)
        if expanded is None:
            raise Refused("invalid_format", "pattern", expected={"format": BRACES_FORM})

        for text in expanded:
            names = [name for name in text.split("/") if name not in ("", ".")]
            if ".." in names:  # braces may have made one
                raise Refused("parent_traversal")

            if len(names) > MAX_COMPONENTS:
                raise Refused("path_too_deep")

            # A trailing '/' matches everything beneath. So does a last name without wildcards, if
            # it is the name of a folder.
            if text.endswith("/") or not names or not _WILDCARD.search(names[-1]):
                names.append("**")

            components: list[_Component] = []
            for name in names:
                if name == "**":
                    components.append(_DOUBLE_STAR)
                else:
                    components.append(_Component(name, _compile(translate(name), name)))
            alternatives.append(components)

        self._set_alternatives(alternatives)

    @classmethod
    def of_beginning(cls, beginning: str) -> "Glob":
        """Return the glob of all paths that begin with a text, in which no character is special.

        As in a pattern, a component that begins with a dot is matched only if the text has that
        dot. Raises Refused for the same reasons as a pattern.
        """
        _check(beginning)
        *folders, last = beginning.split("/")
        if len(folders) >= MAX_COMPONENTS:
            raise Refused("path_too_deep")

        components: list[_Component] = []
        for name in folders:
            components.append(_Component(name, re.compile(re.escape(name) + r"\Z")))
        components.append(_Component(last, _compile(re.escape(last) + "(?s:.*)", last)))

        glob = cls.__new__(cls)
        glob._set_alternatives([[*components, _DOUBLE_STAR]])
        return glob

    def _set_alternatives(self, alternatives: list[list[_Component]]) -> None:
        self._alternatives = alternatives
        beginnings = {GlobState(index, 0) for index in range(len(alternatives))}
        self.start: States = self._skip_double_stars(beginnings)

    def step(self, states: States, name: str, skip: Collection[str] = ()) -> States:
        """Return the states after one more component; empty if nothing beneath it can match.

        A name in ``skip`` is matched only if the pattern has this exact name, and then nothing
        beneath it is skipped.
        """
        after: set[GlobState] = set()

        for state in states:
            components = self._alternatives[state.alternative]
            if state.component == len(components):
                continue

            component = components[state.component]
            if name in skip:
                if not state.names_skipped and component.text != name:
                    continue
                state = state._replace(names_skipped=True)

            if component.expression is None:
                if not name.startswith("."):
                    after.add(state)
            elif component.expression.match(name):
                after.add(state._replace(component=state.component + 1))

        return self._skip_double_stars(after)

    def accepts(self, states: States) -> bool:
        """Return whether a path that led to these states matches."""
        for state in states:
            if state.component == len(self._alternatives[state.alternative]):
                return True

        return False

    def matches(self, path: str) -> bool:
        """Return whether a path matches."""
        states = self.start
        for name in path.split("/"):
            states = self.step(states, name)

        return self.accepts(states)

    def _skip_double_stars(self, states: set[GlobState]) -> States:
        """Add the states after each ``**``, which may match no component."""
        reachable: set[GlobState] = set()

        for state in states:
            components = self._alternatives[state.alternative]
            reachable.add(state)

            index = state.component
            while index < len(components) and components[index] is _DOUBLE_STAR:
                index += 1
                reachable.add(state._replace(component=index))

        return frozenset(reachable)


def parse_glob(pattern: str, field: str) -> Glob:
    """Return the pattern of a field. Raises Refused as `Glob` does, with the name of the field."""
    try:
        return Glob(pattern)
    except Refused as error:
        raise Refused(error.reason, field, expected=error.expected) from None


def _check(pattern: str) -> None:
    if len(pattern) > MAX_PATH_CHARS:
        raise Refused("path_too_long")

    fault = find_path_fault(pattern)
    if fault is not None:
        raise Refused(fault)


def _compile(expression: str, name: str) -> re.Pattern[str]:
    if not name.startswith("."):
        expression = r"(?!\.)" + expression  # hidden names match only a pattern with the dot

    return re.compile(expression)
