"""Notes divided by their headings into the parts that a recall scores and shows."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache

from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.files.confinement import PathRequest
from abilities.helpers.files.files import Files
from abilities.helpers.files.reader import FileText, ReadingSession
from abilities.helpers.memory.targets import MemoryFiles, Target
from abilities.helpers.search.passages import Section, split_sections
from abilities.helpers.search.terms import Language, weigh_text
from abilities.helpers.text import WHOLE, Piece, Range, replace_markers

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
