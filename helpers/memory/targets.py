"""Targets: which note or memory a caller asks for."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from abilities.declarations.faults import Refused
from abilities.declarations.memory import is_key
from abilities.declarations.values import JsonObject, as_object, parse_json
from abilities.helpers.text.ranges import WHOLE, Range, parse_range

TargetType = Literal["long_term", "short_term", "stored"]

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """Where in the agent directory its notes are; ``short_term`` is a strftime pattern."""

    long_term: str = "MEMORY.md"
    short_term: str = "memory/%Y-%m-%d.md"


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

    Fields that are None are taken as absent. Raises Refused: invalid_target, invalid_parameter (a
    field that does not belong to the type), invalid_date (also for a date that does not belong to
    the type), invalid_key, invalid_range.
    """
    # Some clients send null for a field that they leave out.
    sent = as_object(_unwrap_json(target)) or {}
    fields = {name: value for name, value in sent.items() if value is not None}
    kind = fields.pop("type", None)

    if kind == "long_term":
        _check_fields(fields, ())
        part, resume = _parse_resume(fields)
        return Target(kind, part, files.long_term, resume=resume)

    if kind == "short_term":
        _check_fields(fields, ("date",))
        part, resume = _parse_resume(fields)
        day = _parse_day(fields.get("date", "today"), today)
        return Target(kind, part, day.strftime(files.short_term), day, resume=resume)

    if kind == "stored":
        _check_fields(fields, ("key",))
        key = _check_key(fields.get("key"))
        part, resume = _parse_resume(fields)
        return Target(kind, part, key=key, resume=resume)

    raise Refused("invalid_target")


def _unwrap_json(target: object) -> object:
    # Some clients send an object within a list as JSON text.
    if not isinstance(target, str):
        return target

    try:
        return parse_json(target)
    except ValueError:
        return target


def _check_fields(fields: JsonObject, own: tuple[str, ...]) -> None:
    """Refuse fields besides a type's own ones and ``resume``, which every type has."""
    if "date" in fields and "date" not in own:
        raise Refused("invalid_date")

    if fields.keys() - {*own, "resume"}:
        raise Refused("invalid_parameter")


def _check_key(key: object) -> str:
    if not isinstance(key, str) or not is_key(key):
        raise Refused("invalid_key")

    return key


def _parse_resume(fields: JsonObject) -> tuple[Range, str | None]:
    """Return the range that the field ``resume`` names, and the field itself."""
    resume: object = fields.get("resume")
    if resume is None:
        return WHOLE, None

    if not isinstance(resume, str) or not resume.startswith("byte="):
        raise Refused("invalid_range")

    return parse_range(resume), resume


def _parse_day(day: object, today: date) -> date:
    if day == "today":
        return today

    if day == "yesterday":
        return today - timedelta(days=1)

    # `fromisoformat` alone would take other forms too, such as 20240229.
    if not isinstance(day, str) or not _DAY.fullmatch(day):
        raise Refused("invalid_date")

    try:
        return date.fromisoformat(day)
    except ValueError:
        raise Refused("invalid_date") from None
