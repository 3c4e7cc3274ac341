"""Write `docs/python.md` from the docstrings of the public names, as `make write` does."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import abilities

PAGE = Path(__file__).parent.parent / "docs" / "python.md"

INTRODUCTION = """\
# The Python API

What `from abilities import …` gives, from the docstrings of the code: `make write` writes this
page. [Abilities of your own](plugins.md) shows how the names belong together, and the
[reference](reference.md) has the arguments and answers of the built-in abilities. The loaders of
frameworks are on [their own pages](frameworks/langchain.md).
"""

_ORDER = (
    "Abilities",
    "Settings",
    "ability",
    "Context",
    "Ability",
    "AbilityRegistry",
    "Arguments",
    "Model",
    "Record",
    "Fault",
    "Refused",
    "AbilityError",
    "FileText",
    "render",
    "parse_text",
)
"""What an application needs first, then what a plugin does."""

_REFERENCE = re.compile(r"`?`([^`]+)``?")
_DOCTEST = re.compile(r"(?:^>>> .*\n(?:^(?!>>>).+\n?)*)+", re.M)


def page() -> str:
    """Return the page. Raises ValueError if a public name has no place in it."""
    missing = set(abilities.__all__).symmetric_difference(_ORDER)
    if missing:
        raise ValueError(f"the page names other things than the package: {sorted(missing)}")

    parts = [INTRODUCTION]
    for name in _ORDER:
        value = getattr(abilities, name)
        parts.append(f"## {name}\n\n{_describe(name, value)}")
        if inspect.isclass(value):
            parts += [f"### {name}.{member}\n\n{words}" for member, words in _list_members(value)]

    return "\n".join(parts)


def _list_members(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties that a class itself defines, with their words."""
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield name, _format_words(inspect.getdoc(member.fget) or "")
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            yield name, _describe(name, getattr(owner, name))


def _describe(name: str, value: object) -> str:
    """Return what stands below the heading of a name: how it is called, and its docstring."""
    words = _format_words(inspect.getdoc(value) or "")
    if inspect.isclass(value) and name != "AbilityRegistry":
        return words  # the fields of a model are in its own words

    assert callable(value)
    signature = str(inspect.signature(value)).replace("(self, ", "(").replace("(self)", "()")
    shown = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", signature.replace("'", ""))
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
