"""Targets: which note or memory a caller asks for.

How calls name memories: by key or by id.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, ParamSpec, TypeVar, get_args

from abilities.declarations.memory import KEY_RULE, is_key
from abilities.declarations.memory_read_bulk import TARGET_SCHEMA
from abilities.declarations.refusals import MAX_MISTAKES, Mistake, Refused, explain_unknown
from abilities.declarations.suggestions import suggest_argument, suggest_value
from abilities.declarations.values import JsonObject, as_object, unwrap_json
from abilities.helpers.store.history import MemoryName
from abilities.helpers.text.pieces import WHOLE, Range, parse_range


def require_name(arguments: JsonObject) -> MemoryName:
    """Return how arguments name a memory: by ``key``, ``id`` or both.

    Raises Refused: missing_argument.
    """
    name = MemoryName(id=arguments.get("id"), key=arguments.get("key"))
    if name.id is None and name.key is None:
        raise Refused("missing_argument", "key", expected={"one_of": ["key", "id"]})

    return name


TargetType = Literal["long_term", "short_term", "stored"]

_FIELDS: JsonObject = TARGET_SCHEMA["properties"]

_OWN_FIELDS: dict[TargetType, tuple[str, ...]] = {
    "long_term": (),
    "short_term": ("date",),
    "stored": ("key",),
}
"""The fields of each type besides ``resume``, which every type has."""

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

_DIRECTIVE = re.compile(r"%.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """Where in the agent directory its notes are; ``short_term`` is a strftime pattern."""

    long_term: str = "MEMORY.md"
    short_term: str = "memory/%Y-%m-%d.md"

    def name_day(self, day: date) -> str:
        """Return the name of a day's notes; a year has four digits, also before the year 1000."""

        # The C library decides whether strftime pads a year, and glibc does not.
        def pad_year(match: re.Match[str]) -> str:
            if match[0] == "%Y":
                return f"{day.year:04}"
            if match[0] == "%G":
                return f"{day.isocalendar().year:04}"
            if match[0] == "%F":
                return day.isoformat()

            return match[0]

        return day.strftime(_DIRECTIVE.sub(pad_year, self.short_term))


MEMORY_LAYOUTS = {
    "openclaw": MemoryFiles("MEMORY.md", "memory/%Y-%m-%d.md"),
    "clawpress": MemoryFiles("memory.md", "memory-%d%m%Y.md"),
}
"""How an agent's notes are named, by the name of the layout."""


@dataclass(frozen=True, slots=True)
class Target:
    """A requested note or memory.

    A note has a ``filename``, and a ``day`` if it is a day's; a stored memory has a ``key``
    instead. ``range`` is the part to read, and ``resume`` the same as it was sent.
    """

    type: TargetType
    range: Range
    filename: str = ""
    day: date | None = None
    key: str | None = None
    resume: str | None = None

    def to_target(self, resume: str | None = None) -> JsonObject:
        """Return the target to send for the same memory, from a resume point if one is given."""
        target: JsonObject = {"type": self.type}

        if self.day is not None:
            target["date"] = self.day.isoformat()
        if self.key is not None:
            target["key"] = self.key
        if resume is not None:
            target["resume"] = resume

        return target


def parse_target(target: object, files: MemoryFiles, today: date) -> Target:
    """Return the target that a caller sent, as an object or as a string that holds it as JSON.

    Fields that are None are taken as absent. Raises Refused, with all fields at fault:
    invalid_target, unknown_argument (a field that does not belong to the type), date_not_allowed,
    invalid_date, missing_argument, invalid_key, invalid_range.
    """
    # Some clients send null for a field that they leave out.
    sent = as_object(unwrap_json(target)) or {}
    fields = {name: value for name, value in sent.items() if value is not None}

    kind = fields.pop("type", None)
    if kind is None and "key" in fields:
        kind = "stored"  # only stored memories have keys
    if not isinstance(kind, str) or kind not in _OWN_FIELDS:
        rule = {"one_of": list(get_args(TargetType))}
        meant = suggest_value(kind, rule["one_of"])
        raise Refused("invalid_target", "type", expected=rule, did_you_mean=meant)

    checks = _Checks()
    day: date | None = None
    key: str | None = None

    if kind == "short_term":
        day = checks.run(_parse_day, fields.get("date", "today"), today)
    elif kind == "stored":
        key = checks.run(_check_key, fields.get("key"))
    elif "date" in fields:
        checks.mistakes.append(Mistake(field="date", reason="date_not_allowed"))

    place = checks.run(_parse_resume, fields) or (WHOLE, None)
    mistakes = _join_mistakes(checks.mistakes, _list_unknown(kind, fields))
    if mistakes:
        raise Refused.from_mistakes(mistakes)

    part, resume = place
    return Target(kind, part, _name_file(files, kind, day), day, key, resume)


def _name_file(files: MemoryFiles, kind: TargetType, day: date | None) -> str:
    """Return the name of the notes' file; empty for a stored memory, which has none."""
    if kind == "long_term":
        return files.long_term
    if day is not None:
        return files.name_day(day)

    return ""


class _Checks:
    """Checks the fields of one target, and collects all that is wrong with them."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def run(
        self,
        check: Callable[Parameters, Value],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Value | None:
        """Return what a check returns; None if it refuses."""
        try:
            return check(*args, **kwargs)
        except Refused as error:
            mistake = Mistake(
                field=error.field,
                reason=error.reason,
                expected=error.expected,
                did_you_mean=error.did_you_mean,
            )
            self.mistakes.append(mistake)
            return None


def _join_mistakes(wrong: Sequence[Mistake], unknown: Sequence[Mistake]) -> list[Mistake]:
    """Return the mistakes of a target: a field that is there under a wrong name is not missing."""
    meant = {mistake.did_you_mean for mistake in unknown}
    mistakes: list[Mistake] = []

    for mistake in (*wrong, *unknown):
        if mistake.reason != "missing_argument" or mistake.field not in meant:
            mistakes.append(mistake)

    return mistakes[:MAX_MISTAKES]


def _list_unknown(kind: TargetType, fields: JsonObject) -> list[Mistake]:
    """Return the mistakes of fields that a type does not have."""
    allowed = {name: _FIELDS[name] for name in ("type", *_OWN_FIELDS[kind], "resume")}
    mistakes: list[Mistake] = []

    for name in fields:
        # A date of long_term has a reason of its own.
        if name in allowed or (kind == "long_term" and name == "date"):
            continue

        if len(mistakes) == MAX_MISTAKES:
            break

        suggestion = suggest_argument(str(name), allowed)
        mistakes.append(explain_unknown(str(name), allowed, suggestion))

    return mistakes


def _check_key(key: object) -> str:
    if key is None:
        raise Refused("missing_argument", "key", expected={"type": "string", **KEY_RULE})

    if not isinstance(key, str) or not is_key(key):
        raise Refused("invalid_key", "key", expected=KEY_RULE)

    return key


def _parse_resume(fields: JsonObject) -> tuple[Range, str | None]:
    """Return the range that the field ``resume`` names, and the field itself."""
    resume: object = fields.get("resume")
    if resume is None:
        return WHOLE, None

    if not isinstance(resume, str):
        raise _invalid_resume()

    return parse_resume(resume), resume


def parse_resume(resume: str) -> Range:
    """Return the range that a resume point names. Raises Refused: invalid_range."""
    # A path may name lines as well, a target may not.
    if not resume.startswith("byte="):
        raise _invalid_resume()

    try:
        return parse_range(resume)
    except Refused:
        raise _invalid_resume() from None


def _invalid_resume() -> Refused:
    rule: JsonObject = {"format": "byte=START[-END][@VERSION]"}
    return Refused("invalid_range", "resume", expected=rule)


def _parse_day(day: object, today: date) -> date:
    if day == "today":
        return today

    if day == "yesterday":
        return today - timedelta(days=1)

    # `fromisoformat` alone would take other forms too, such as 20240229.
    if not isinstance(day, str) or not _DAY.fullmatch(day):
        raise _invalid_date()

    try:
        return date.fromisoformat(day)
    except ValueError:
        raise _invalid_date() from None


def _invalid_date() -> Refused:
    return Refused("invalid_date", "date", expected={"format": "YYYY-MM-DD"})
