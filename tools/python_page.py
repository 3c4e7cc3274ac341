"""Write `docs/python.md` from the docstrings of the public names, as `make write` does."""

import inspect
import re
from pathlib import Path

import abilities

PAGE = Path(__file__).parent.parent / "docs" / "python.md"

INTRODUCTION = """\
# Python

The names that applications and plugins import from `abilities`. [Use it in an app](apps.md) and
[abilities of your own](plugins.md) show how the names belong together; the arguments and answers
of the built-in abilities are in [their reference](reference.md).
"""

_SHOWN: dict[str, tuple[str, ...]] = {
    "Abilities": ("open", "call", "for_namespace", "for_caller"),
    "Settings": ("for_namespace",),
    "ability": (),
    "Context": (),
    "Ability": (),
    "AbilityRegistry": ("get", "names", "only"),
    "Arguments": ("explicit_arguments",),
    "Model": (),
    "Record": (),
    "Fault": ("from_reason", "from_exception", "to_payload"),
    "Refused": (),
    "AbilityError": (),
    "FileText": ("text", "modified_at", "version", "to_data"),
    "render": (),
    "parse_text": (),
}
"""The public names, what an application needs first, each with the members that users call."""

_LONG_LITERAL = re.compile(r"Literal\[[^]]{200,}\]")
_REFERENCE = re.compile(r"`?`([^`]+)``?")
_DOCTEST = re.compile(r"(?:^>>> .*\n(?:^(?!>>>).+\n?)*)+", re.M)


def page() -> str:
    """Return the page. Raises ValueError if a public name has no place in it."""
    missing = set(abilities.__all__).symmetric_difference(_SHOWN)
    if missing:
        raise ValueError(f"the page names other things than the package: {sorted(missing)}")

    parts = [INTRODUCTION]
    for name, members in _SHOWN.items():
        value = getattr(abilities, name)
        parts.append(f"## {name}\n\n{_describe(name, value)}")
        parts += [f"### {name}.{each}\n\n{_describe_member(value, each)}" for each in members]

    return "\n".join(parts)


def _describe_member(owner: type, name: str) -> str:
    """Return what stands below the heading of a method or a property."""
    member = vars(owner)[name]
    if isinstance(member, property):
        return _format_words(inspect.getdoc(member) or "")

    return _describe(name, getattr(owner, name))


def _describe(name: str, value: object) -> str:
    """Return what stands below the heading of a name: how it is called, and its docstring."""
    words = _format_words(inspect.getdoc(value) or "")
    if inspect.isclass(value) and name != "AbilityRegistry":
        return words  # the fields of a model are in its own words

    assert callable(value)
    signature = str(inspect.signature(value)).replace("(self, ", "(").replace("(self)", "()")
    shown = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", signature.replace("'", ""))
    shown = _LONG_LITERAL.sub("str", shown)
    waits = "async " if inspect.iscoroutinefunction(value) else ""
    return f"```text\n{waits}{name}{shown}\n```\n\n{words}"


def _format_words(docstring: str) -> str:
    """Return a docstring as Markdown: names are code, and what is typed at a prompt a block."""
    parts: list[str] = []
    end = 0
    for match in _DOCTEST.finditer(docstring):
        parts.append(_REFERENCE.sub(r"`\1`", docstring[end : match.start()]))
        parts.append(f"```pycon\n{match[0].rstrip()}\n```\n")
        end = match.end()

    return "".join([*parts, _REFERENCE.sub(r"`\1`", docstring[end:])]).rstrip() + "\n"
