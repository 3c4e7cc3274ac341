"""How calls name notes and memories: by target, key or id; and notes divided by their headings."""

import asyncio
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal, get_args

from abilities.declarations.memory import KEY_RULE, TARGET_SCHEMA, is_key, parse_namespace
from abilities.declarations.refusals import MAX_MISTAKES, Mistake, Refused, explain_unknown
from abilities.declarations.suggestions import suggest_argument, suggest_value
from abilities.declarations.values import JsonObject, as_object, drop_empty, unwrap_json
from abilities.helpers.files.confinement import PathRequest
from abilities.helpers.files.files import Files
from abilities.helpers.files.reader import FileText, ReadingSession
from abilities.helpers.search.passages import Section, split_sections
from abilities.helpers.search.terms import Language, weigh_text
from abilities.helpers.store.history import MemoryName
from abilities.helpers.text import WHOLE, Piece, Range, parse_range, replace_markers

TargetType = Literal["long_term", "short_term", "stored"]

_FIELDS: JsonObject = TARGET_SCHEMA["properties"]

_OWN_FIELDS: dict[TargetType, tuple[str, ...]] = {
    "long_term": (),
    "short_term": ("date",),
    "stored": ("key", "from"),
}
"""The fields of each type besides ``resume``, which every type has."""

_DIRECTIVE = re.compile(r"%.", re.DOTALL)

RECENT_DAYS = 30
"""Days whose notes a recall searches, including today."""

MAX_NOTE_CHARS = 20_000
"""Characters of one note that a recall searches."""

MAX_NOTES_CHARS = 100_000
"""Characters of all notes that a recall searches: the long-term ones first, then day by day."""

NOTES_SECONDS = 3.0
"""Seconds that a recall waits for all notes; a stuck read is given up after 2."""

_WEIGHED_PARTS = 1_024
"""Parts whose words are cached, because the next questions mostly search the same notes."""

_DAY_CHARS = len("YYYY-MM-DD")

_weigh_text = lru_cache(maxsize=_WEIGHED_PARTS)(weigh_text)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The names of notes in the agent directory; ``short_term`` is a strftime pattern."""

    long_term: str = "MEMORY.md"
    short_term: str = "memory/%Y-%m-%d.md"

    def name_day(self, day: date) -> str:
        """Return the name of a day's notes; a year always has four digits.

        >>> MemoryFiles().name_day(date(2025, 12, 24))
        'memory/2025-12-24.md'
        """

        # strftime of glibc does not pad a year before 1000.
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
"""The names of an agent's notes, by the name of the layout."""


@dataclass(frozen=True, slots=True)
class Target:
    """A requested note or memory.

    A note has a ``filename``, and a short-term one also a ``day``; a stored memory has a ``key``
    instead, and an ``origin`` if it is in another namespace. ``range`` is the part to read, and
    ``resume`` the same as it was sent.
    """

    type: TargetType
    range: Range
    filename: str = ""
    day: date | None = None
    key: str | None = None
    resume: str | None = None
    origin: str = ""

    def to_target(self, resume: str | None = None) -> JsonObject:
        """Return the target that requests the same memory, from a resume point if one is given."""
        day = None if self.day is None else self.day.isoformat()
        names = {"type": self.type, "date": day, "key": self.key, "from": self.origin}
        return drop_empty({**names, "resume": resume})


def parse_target(target: object, files: MemoryFiles, today: date) -> Target:
    """Return the target that a caller sent, as an object or as its JSON in a string.

    Fields that are None count as absent. Raises Refused, with all fields at fault:
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

    mistakes: list[Mistake] = []
    day: date | None = None
    key: str | None = None
    filename = ""
    if kind == "long_term":
        filename = files.long_term
        if "date" in fields:
            mistakes.append(Mistake(field="date", reason="date_not_allowed"))
    elif kind == "short_term":
        with _collect(mistakes):
            day = _parse_date(fields.get("date", "today"), today)
            filename = files.name_day(day)
    elif "key" not in fields:
        key_rule: JsonObject = {"type": "string", **KEY_RULE}
        mistakes.append(Mistake(field="key", reason="missing_argument", expected=key_rule))
    elif not isinstance(fields["key"], str) or not is_key(fields["key"]):
        mistakes.append(Mistake(field="key", reason="invalid_key", expected=KEY_RULE))
    else:
        key = fields["key"]

    origin = ""
    if kind == "stored" and "from" in fields:
        with _collect(mistakes):
            origin = _parse_origin(fields["from"])

    resume = fields.get("resume")
    part = WHOLE
    if resume is not None:
        with _collect(mistakes):
            part = parse_resume(resume)

    # A required field with a misspelled name is not missing.
    unknown = _list_unknown(kind, fields)
    found = {mistake.did_you_mean for mistake in unknown}
    mistakes = [
        mistake
        for mistake in (*mistakes, *unknown)
        if mistake.reason != "missing_argument" or mistake.field not in found
    ]
    if mistakes:
        raise Refused.from_mistakes(mistakes[:MAX_MISTAKES])

    return Target(kind, part, filename, day, key, resume, origin)


@contextmanager
def _collect(mistakes: list[Mistake]) -> Generator[None]:
    """Catch the refusal of a field, and add it to the mistakes."""
    try:
        yield
    except Refused as error:
        mistakes.append(error.to_mistake())


def _list_unknown(kind: TargetType, fields: JsonObject) -> list[Mistake]:
    """Return the mistakes of fields that do not belong to a type."""
    allowed = {name: _FIELDS[name] for name in ("type", *_OWN_FIELDS[kind], "resume")}
    mistakes: list[Mistake] = []

    for name in fields:
        # The date of a long-term note has another reason.
        if name in allowed or (kind == "long_term" and name == "date"):
            continue

        if len(mistakes) == MAX_MISTAKES:
            break

        suggestion = suggest_argument(str(name), allowed)
        mistakes.append(explain_unknown(str(name), allowed, suggestion))

    return mistakes


def _parse_origin(origin: object) -> str:
    try:
        return parse_namespace(origin)
    except ValueError:
        rule = {"format": "a namespace, as 'from' names it"}
        raise Refused("invalid_format", "from", expected=rule) from None


def _parse_date(day: object, today: date) -> date:
    if day == "today":
        return today

    if day == "yesterday":
        return today - timedelta(days=1)

    parsed = parse_day(day) if isinstance(day, str) else None
    if parsed is None:
        raise Refused("invalid_date", "date", expected={"format": "YYYY-MM-DD"})

    return parsed


def parse_day(text: str) -> date | None:
    """Return the day of a text such as "2027-01-31"; None for any other text."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None

    # Python accepts other forms too, such as 20240229.
    return day if day.isoformat() == text else None


def parse_resume(resume: object) -> Range:
    """Return the range that a resume point names. Raises Refused: invalid_range.

    >>> parse_resume("byte=120-480").start
    120
    """
    # A path may also name lines, but a target may not.
    rule: JsonObject = {"format": "byte=START[-END][@VERSION]"}
    refusal = Refused("invalid_range", "resume", expected=rule)
    if not isinstance(resume, str) or not resume.startswith("byte="):
        raise refusal

    try:
        return parse_range(resume)
    except Refused:
        raise refusal from None


def require_name(arguments: JsonObject) -> MemoryName:
    """Return the name of a memory in arguments: its ``key``, its ``id`` or both.

    Raises Refused: missing_argument.
    """
    name = MemoryName(id=arguments.get("id"), key=arguments.get("key"))
    if name.id is None and name.key is None:
        raise Refused("missing_argument", "key", expected={"one_of": ["key", "id"]})

    return name


@dataclass(frozen=True, slots=True)
class NotePart:
    """A part of a note: its text, the day of the note, and its terms with their weights."""

    target: Target
    day: str
    piece: Piece
    section: Section
    terms: Mapping[str, int]

    @property
    def name(self) -> str:
        """A unique name, such as "MEMORY.md#120-480"."""
        return f"{self.target.filename}#{self.section.start}-{self.section.end}"

    @property
    def heading(self) -> str:
        """The headings above this part, in one line."""
        return " > ".join(self.section.headings)

    @property
    def content(self) -> str:
        """The text as answers show it."""
        return replace_markers(self.piece.text[self.section.start : self.section.end])

    def build_next(self, chars: int) -> JsonObject | None:
        """Return the target that reads on after ``chars`` characters; None at the note's end."""
        place = self.section.start + chars
        if not self.piece.rest and not self.piece.text[place:].strip():
            return None

        # A long line may have been divided at a place where a text cannot be cut.
        return self.target.to_target(self.piece.resume(self.piece.find_cut(place)))


async def read_note_parts(
    reader: Files, files: MemoryFiles, today: date, since: date | None, language: Language
) -> list[NotePart]:
    """Return the parts of the long-term notes and of the last 30 days' notes.

    With ``since``, notes from before that day are left out. Unreadable notes are always left out.
    If reading takes longer than 3 seconds, there are no parts.
    """
    targets = [Target("long_term", WHOLE, files.long_term)]
    names = {files.long_term}
    for ago in range(RECENT_DAYS):
        day = today - timedelta(days=ago)
        if since is not None and day < since:
            break

        # The settings may name one file for all days of a month.
        name = files.name_day(day)
        if name not in names:
            names.add(name)
            targets.append(Target("short_term", WHOLE, name, day))

    # Dividing and weighing take longer than reading, and run on the reader's thread too.
    def read(session: ReadingSession, target: Target) -> list[NotePart]:
        file = read_note_file(session, target.filename, WHOLE, MAX_NOTE_CHARS)
        return _divide(target, file, language)

    try:
        async with asyncio.timeout(NOTES_SECONDS):
            outcomes = await reader.map(read, targets)
    except TimeoutError:
        return []

    parts: list[NotePart] = []
    room = MAX_NOTES_CHARS
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            continue
        if isinstance(outcome, Exception):
            raise outcome

        for part in outcome:
            room -= part.section.end - part.section.start
            if room >= 0 and (since is None or part.day >= since.isoformat()):
                parts.append(part)

    return parts


def _divide(target: Target, file: FileText, language: Language) -> list[NotePart]:
    day = file.modified_at[:_DAY_CHARS]
    if target.day is not None:
        day = target.day.isoformat()

    parts: list[NotePart] = []
    for section in split_sections(file.piece.text):
        part = NotePart(target, day, file.piece, section, {})
        terms = _weigh_text(f"{part.heading}\n{part.content}", language)
        parts.append(replace(part, terms=terms))

    return parts


def read_note_file(session: ReadingSession, name: str, part: Range, max_chars: int) -> FileText:
    """Read a file of notes. Raises Refused."""
    # The name comes from the settings, so a '#' in it does not begin a range.
    request = PathRequest(name, name, name, tuple(name.split("/")), part)
    return session.read(request, max_chars, text_offsets=True)
