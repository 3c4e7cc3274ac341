"""Targets: which note or memory a caller asks for."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from abilities.declarations.faults import Refused
from abilities.declarations.memory import is_key
from abilities.declarations.values import parse_json
from abilities.helpers.text.ranges import WHOLE, Range, parse_range

_FIELDS = {"long_term": {"type"}, "short_term": {"type", "date"}, "stored": {"type", "key"}}

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """Where an agent keeps its notes, beneath the agent directory; ``short_term`` is a strftime pattern."""

    long_term: str = "MEMORY.md"
    short_term: str = "memory/%Y-%m-%d.md"


@dataclass(frozen=True, slots=True)
class Target:
    """A memory that was asked for, its day resolved; ``filename`` is empty for a stored one."""

    type: str
    range: Range
    filename: str = ""
    day: date | None = None
    key: str | None = None
    resume: str | None = None

    def to_target(self, resume: str | None = None) -> dict[str, Any]:
        """The target to send for the same memory, or for its rest."""
        day = {} if self.day is None else {"date": self.day.isoformat()}
        key = {} if self.key is None else {"key": self.key}
        return {"type": self.type, **day, **key, **({} if resume is None else {"resume": resume})}


def _unwrapped(target: object) -> object:
    """A target sent as a string that holds a JSON object is taken as that object."""
    if not isinstance(target, str):
        return target
    try:
        return parse_json(target)
    except ValueError:
        return target


def _check_key(key: object) -> str:
    if not isinstance(key, str) or not is_key(key):
        raise Refused("invalid_key")
    return key


def _parse_resume(resume: object) -> Range:
    if resume is None:
        return WHOLE
    if not isinstance(resume, str) or not resume.startswith("byte="):
        raise Refused("invalid_range")
    return parse_range(resume)


def _parse_day(day: object, today: date) -> date:
    if day == "today":
        return today
    if day == "yesterday":
        return today - timedelta(days=1)
    if not isinstance(day, str) or not _DAY.fullmatch(day):
        raise Refused("invalid_date")
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise Refused("invalid_date") from None
