"""MemoryHelper: the one way to an agent's memory, its note files and its stored memories."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from abilities.declarations.base import Refused, as_object, parsed_json
from abilities.helpers.confine import Policy, Root
from abilities.helpers.file_reader import FileReader, FileText, Session
from abilities.helpers.paths import WHOLE, Range, Request, has_control, parse_range
from abilities.helpers.workers import Workers

_FIELDS = {"long_term": {"type"}, "short_term": {"type", "date"}, "stored": {"type", "key"}}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """Where an agent keeps its notes, beneath the agent directory; ``short_term`` is a strftime pattern."""

    long_term: str = "MEMORY.md"
    short_term: str = "memory/%Y-%m-%d.md"


@dataclass(frozen=True, slots=True)
class Target:
    """A memory that was asked for, its day resolved."""

    type: str
    filename: str
    range: Range
    day: date | None
    resume: str | None

    def again(self, resume: str | None = None) -> dict[str, Any]:
        """The target to send for the same memory, or for its rest."""
        day = {} if self.day is None else {"date": self.day.isoformat()}
        return {"type": self.type, **day, **({} if resume is None else {"resume": resume})}


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory that was read."""

    target: Target
    file: FileText


class MemoryHelper:
    """Reads memories by target: ``long_term`` and ``short_term`` notes from the agent directory."""

    def __init__(self, agent: Root, policy: Policy, workers: Workers, files: MemoryFiles, zone: tzinfo | None) -> None:
        self._reader = FileReader([agent], policy, workers)
        self._workers = workers
        self._files = files
        self._zone = zone

    async def read(self, targets: Sequence[object], max_chars: int) -> list[MemoryText | Exception]:
        """Read each target on its own: one outcome a target, in the order asked.

        An outcome is a MemoryText, a Refused (invalid_target, invalid_date, invalid_key, invalid_range,
        invalid_parameter, memory_file_not_found, undecodable, unavailable, or what `FileReader` refuses),
        or the unexpected exception that this target alone met.
        """
        today = datetime.now(self._zone).date()

        def one(session: Session, target: object) -> MemoryText:
            return _read(session, self._parse(target, today), max_chars)

        return await self._workers.map(self._reader.session, one, targets)

    def _parse(self, asked: object, today: date) -> Target:
        target = as_object(_unwrapped(asked)) or {}
        kind = target.get("type")
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise Refused("invalid_target")
        given = {name: value for name, value in target.items() if value is not None}
        if "date" in given and kind != "short_term":
            raise Refused("invalid_date")
        if given.keys() - _FIELDS[kind] - {"resume"}:
            raise Refused("invalid_parameter")
        if kind == "stored":
            check_key(given.get("key"))
            raise Refused("unavailable")
        resume = given.get("resume")
        part = _parse_resume(resume)
        if kind == "long_term":
            return Target(kind, self._files.long_term, part, None, resume)
        day = _parse_day(given.get("date", "today"), today)
        return Target(kind, day.strftime(self._files.short_term), part, day, resume)


def _unwrapped(target: object) -> object:
    """A target sent as a string that holds a JSON object is taken as that object."""
    if not isinstance(target, str):
        return target
    try:
        return parsed_json(target)
    except ValueError:
        return target


def check_key(key: object) -> str:
    """A memory's key as it was given. Raises Refused("invalid_key")."""
    if not isinstance(key, str) or not 1 <= len(key) <= 200 or key != key.strip() or "\ufffd" in key:
        raise Refused("invalid_key")
    if has_control(key) or any("\ud800" <= c <= "\udfff" for c in key):
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


def _read(session: Session, target: Target, max_chars: int) -> MemoryText:
    request = Request(
        target.filename, target.filename, target.filename, tuple(target.filename.split("/")), target.range
    )
    try:
        file = session.read(request, max_chars, text_offsets=True)
    except Refused as error:
        raise Refused(_OF_MEMORY.get(error.reason, error.reason)) from None
    if file.piece.raw is not None or file.piece.encoding.unit != 1:
        raise Refused("undecodable")
    return MemoryText(target, file)


_OF_MEMORY = {"not_found": "memory_file_not_found", "binary_file": "undecodable"}
