"""Glob patterns over relative paths, matched a component at a time, so that whole folders can be passed over.

``*``, ``?`` and ``[…]`` stay within a component (as Python's fnmatch has them), ``**`` stands for any number
of components, and ``{a,b}`` for either. As in a shell, matching is case-sensitive, and a name that begins with a
dot is matched only where the pattern says that dot.
"""

import re
from fnmatch import translate
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.values import has_control_character
from abilities.helpers.files.paths import MAX_COMPONENTS, MAX_PATH_CHARS

MAX_ALTERNATIVES = 32
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


class State(NamedTuple):
    """A place in one alternative of a pattern: what lies before it has been matched."""

    alternative: int
    component: int


States = frozenset[State]


class Glob:
    """A pattern; `start` is where a path begins, `step` goes on by one name, `accepts` says that it may end there."""

    def __init__(self, pattern: str) -> None:
        """Raises Refused for what can match no path, with the reason that such a path has."""
        _check(pattern)
        self._alternatives = [_components(text) for text in _expanded(pattern)]
        self.start: States = self._closed({State(n, 0) for n in range(len(self._alternatives))})

    def step(self, states: States, name: str) -> States:
        """The states after one more component; empty where nothing beneath it can match."""
        after: set[State] = set()
        for state in states:
            components = self._alternatives[state.alternative]
            if state.component == len(components):
                continue
            matcher = components[state.component]
            if matcher is None:
                if not name.startswith("."):
                    after.add(state)
            elif matcher.match(name):
                after.add(State(state.alternative, state.component + 1))
        return self._closed(after)

    def accepts(self, states: States) -> bool:
        """Whether a path that led to these states matches."""
        return any(
            state.component == len(self._alternatives[state.alternative]) for state in states
        )

    def _closed(self, states: set[State]) -> States:
        """The states, and those behind a ``**``, which may stand for nothing."""
        found: set[State] = set()
        for state in states:
            components = self._alternatives[state.alternative]
            place = state.component
            found.add(state)
            while place < len(components) and components[place] is None:
                place += 1
                found.add(State(state.alternative, place))
        return frozenset(found)


def _check(pattern: str) -> None:
    if len(pattern) > MAX_PATH_CHARS:
        raise Refused("path_too_long")
    if has_control_character(pattern) or any("\ud800" <= c <= "\udfff" for c in pattern):
        raise Refused("control_character")
    if "\\" in pattern:
        raise Refused("backslash")
    if pattern.startswith("/"):
        raise Refused("absolute_path")
    if ".." in pattern.split("/"):
        raise Refused("parent_traversal")


def _expanded(pattern: str) -> list[str]:
    """The patterns that braces stand for, the innermost first."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        text = todo.pop()
        if (found := _BRACES.search(text)) is None:
            done.append(text)
        else:
            todo += [
                text[: found.start()] + part + text[found.end() :] for part in found[1].split(",")
            ]
        if len(todo) + len(done) > MAX_ALTERNATIVES:
            raise Refused("invalid_parameter")
    return done


def _components(text: str) -> list[re.Pattern[str] | None]:
    """A matcher for each component, None for ``**``; a trailing ``/`` asks for all that lies beneath."""
    names = [name for name in text.split("/") if name not in ("", ".")]
    if ".." in names:
        raise Refused("parent_traversal")
    if text.endswith("/") or not names:
        names.append("**")
    if len(names) > MAX_COMPONENTS:
        raise Refused("path_too_deep")
    return [None if name == "**" else _matcher(name) for name in names]


def _matcher(name: str) -> re.Pattern[str]:
    hidden = "" if name.startswith(".") else r"(?!\.)"
    return re.compile(hidden + translate(name))
