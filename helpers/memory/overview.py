"""The overview that a question gets which names nothing, such as "What do you remember about me?".

It shows what catching up would, in short: the long-term notes, the notes of the last days, and the
memories that are important or changed last.

Catching up: what an agent should know from earlier sessions, as labelled data within a bound.

It is made of the long-term notes, the notes of the last days, and memories: the important ones
first, then those that changed last. A third of the room is each one's, and what one does not need
is the others'. Of notes and memories that do not fit, the beginning is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.recall import RecallInput
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.helper import MemoryHelper, MemoryText
from abilities.helpers.memory.recall_answers import format_target
from abilities.helpers.memory.recalling import RecallResult, has_filters
from abilities.helpers.reply.budget import MIN_SHARE, Bound, find_level
from abilities.helpers.reply.formats import format_text
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.query import Query
from abilities.helpers.text.codec import replace_markers
from abilities.helpers.text.pieces import Piece

RECENT_DAYS = 7
"""Days whose notes are shown, today included."""

MAX_IMPORTANT = 20
"""Memories of high importance that are looked at; those that changed last."""

MAX_LATEST = 20
"""Memories of any importance that are looked at; those that changed last."""

HIGH_SCORE = 0.8
"""From this score on, a memory counts as important whatever its importance is."""

MAX_MEMORY_BYTES = 1_000
"""Bytes of one memory's content; a longer one is cut."""

_FRAME_BYTES = 64
"""The first line without its failures: the day, and two counts."""

_RECORD_BYTES = 12
"""What a record takes beyond its label and its content: a boundary, a space and two line ends."""

_END = "end of the data"
_BOUNDARY_CHARS = 8


class Sources(NamedTuple):
    """What a caller may read."""

    notes: bool
    memories: bool


class Finding(NamedTuple):
    """A note or a memory: its label, what was read of it, and how many bytes may be shown."""

    label: JsonObject
    piece: Piece
    content: str
    max_bytes: int

    @property
    def size(self) -> int:
        """The bytes of its record."""
        size = min(len(self.content.encode()), self.max_bytes)
        return _measure_label(self.label) + size


class Shown(NamedTuple):
    """A finding with the beginning of its content that is shown: so many of its characters."""

    finding: Finding
    chars: int

    @property
    def content(self) -> str:
        """The text that is shown."""
        return self.finding.content[: self.chars]

    @property
    def is_cut(self) -> bool:
        """Whether a part of the note or memory is missing."""
        return self.finding.piece.rest or self.chars < len(self.finding.content)


@dataclass(slots=True)
class Findings:
    """What there is to know, each list with the most important first.

    ``failures`` say what could not be read.
    """

    today: date
    lasting: list[Finding] = field(default_factory=list[Finding])
    days: list[Finding] = field(default_factory=list[Finding])
    memories: list[Finding] = field(default_factory=list[Finding])
    failures: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.count() or self.failures)

    def count(self) -> int:
        """Return how many notes and memories there are."""
        return len(self.lasting) + len(self.days) + len(self.memories)


async def gather_findings(memory: MemoryHelper, sources: Sources, max_bytes: int) -> Findings:
    """Return what there is to know, of no note more than ``max_bytes`` characters.

    Whatever cannot be read is among the failures.
    """
    findings = Findings(memory.today)

    if sources.notes:
        await _add_notes(memory, findings, max_bytes)
    if sources.memories:
        await _add_memories(memory, findings)

    return findings


async def _add_notes(memory: MemoryHelper, findings: Findings, max_bytes: int) -> None:
    targets: list[JsonObject] = [{"type": "long_term"}]
    for ago in range(RECENT_DAYS):
        day = findings.today - timedelta(days=ago)
        targets.append({"type": "short_term", "date": day.isoformat()})

    shown: set[str] = set()
    outcomes = await memory.read(targets, max_bytes)
    for target, outcome in zip(targets, outcomes, strict=True):
        if isinstance(outcome, Exception):
            _add_failure(findings, target, outcome)
            continue

        # The settings may name one file for all days of a month.
        name = outcome.target.filename
        if name in shown or not outcome.piece.text.strip():
            continue

        shown.add(name)
        section = findings.days if outcome.target.day else findings.lasting
        section.append(_to_note(outcome))


def _to_note(note: MemoryText) -> Finding:
    label = note.target.to_target()
    label["filename"] = note.target.filename
    content = replace_markers(note.piece.text)
    return Finding(label, note.piece, content, len(content.encode()))


async def _add_memories(memory: MemoryHelper, findings: Findings) -> None:
    important = Query(importance="high", limit=MAX_IMPORTANT, sort_by="updated_at")
    latest = Query(limit=MAX_LATEST, sort_by="updated_at")

    found: dict[str, StoredMemory] = {}
    for query in (important, latest):
        try:
            page = await memory.query(query)
        except Exception as error:
            _add_failure(findings, {"type": "stored"}, error)
            return

        for outcome in page.memories:
            if isinstance(outcome, StoredMemory):
                found[outcome.row.key] = outcome

    latest_first = sorted(found.values(), key=_get_moment, reverse=True)
    for stored in sorted(latest_first, key=_is_ordinary):
        findings.memories.append(_to_memory(stored))


def _get_moment(stored: StoredMemory) -> tuple[str, int]:
    return stored.row.updated_at, stored.row.version


def _is_ordinary(stored: StoredMemory) -> bool:
    return stored.row.importance != "high" and stored.row.score < HIGH_SCORE


def _to_memory(stored: StoredMemory) -> Finding:
    row = stored.row
    label: JsonObject = {"type": "stored", "key": row.key, "date": row.updated_at[:10]}
    if row.importance != "medium":
        label["importance"] = row.importance

    return Finding(label, Piece(row.content), row.content, MAX_MEMORY_BYTES)


def _add_failure(findings: Findings, target: JsonObject, error: Exception) -> None:
    """Add a failure, unless it only says that there are no such notes."""
    fault = Fault.from_exception(error, "catching up")
    if fault.code != "NOT_FOUND":
        findings.failures.append({**target, "reason": fault.reason})


def format_findings(findings: Findings, opening: str, max_bytes: int) -> str:
    """Return what was found in the text format, after an opening, within ``max_bytes``.

    Unlike a reply it ends with the boundary too, so that no content can pass for what follows.
    """
    room = max_bytes - len(opening.encode()) - _RECORD_BYTES - len(_END)
    room -= _FRAME_BYTES + json_size(findings.failures)

    chosen = choose_findings(findings, room)
    records = [_build_record(shown) for shown in chosen]
    return _format(findings, opening, records, findings.count() - len(chosen))


def choose_findings(findings: Findings, room: int) -> list[Shown]:
    """Return what is shown of the findings within ``room`` bytes, a third of it of each kind."""
    sections = (findings.lasting, findings.days, findings.memories)
    sizes = [sum(finding.size for finding in section) for section in sections]
    level = find_level(sizes, max(room, 0))

    chosen: list[Shown] = []
    for section in sections:
        chosen += _choose(section, level)

    return chosen


def _format(findings: Findings, opening: str, records: Sequence[JsonObject], left_out: int) -> str:
    frame: JsonObject = {"today": findings.today.isoformat()}
    if left_out:
        frame["left_out"] = left_out
    if findings.failures:
        frame["failed"] = findings.failures
    frame["results"] = records

    text = format_text(frame)
    if not records:
        return f"{opening}\n{text}\n"

    # The second line begins with the boundary, which stands in no content.
    boundary = text.partition("\n")[2][:_BOUNDARY_CHARS]
    return f"{opening}\n{text}{boundary} {_END}\n"


def _choose(section: Sequence[Finding], room: int) -> list[Shown]:
    """Return what fits of a section, from the front; the last may be cut."""
    chosen: list[Shown] = []

    for finding in section:
        if finding.size <= room:
            room -= finding.size
            chosen.append(_cut(finding, finding.max_bytes))
            continue

        fitting = room - _measure_label(finding.label)
        if fitting >= MIN_SHARE:
            chosen.append(_cut(finding, fitting))
        break

    return chosen


def _measure_label(label: JsonObject) -> int:
    """Return what a record takes beyond its content, if that is cut."""
    return json_size({**label, "truncated": True}) + _RECORD_BYTES


def _cut(finding: Finding, max_bytes: int) -> Shown:
    """Return a finding with as much of its content as fits into ``max_bytes``."""
    content = finding.content
    if len(content.encode()) <= max_bytes:
        return Shown(finding, len(content))

    fitting = Bound(max_bytes, "text").count_fitting_chars(content, max_bytes)
    return Shown(finding, finding.piece.find_cut(fitting))


def _build_record(shown: Shown) -> JsonObject:
    record: JsonObject = {"success": True, **shown.finding.label}
    if shown.is_cut:
        record["truncated"] = True

    record["content"] = shown.content
    return record


OVERVIEW_BYTES = 300 * TOKEN_BYTES
"""The most bytes of an overview as JSON, about 300 tokens."""

_MEMORY_BYTES = 300
"""Bytes of one memory's content in an overview, so that it shows several."""

_NOTE_CHARS = 2_000
"""Characters of a note that are read; no overview shows more."""


async def build_overview(
    memory: MemoryHelper, arguments: RecallInput, result: RecallResult, max_bytes: int
) -> list[JsonObject]:
    """Return the records of an overview; none if one of the questions names something.

    There are none either if filters ask for some memories only. The records are like those of
    recalled memories, without scores.
    """
    if result.names_something or has_filters(arguments):
        return []
    if any(ranking.entries for ranking in result.rankings):
        return []  # found by their meaning

    sources = Sources(notes=arguments.notes, memories=True)
    findings = await gather_findings(memory, sources, _NOTE_CHARS)
    findings.memories = [finding._replace(max_bytes=_MEMORY_BYTES) for finding in findings.memories]
    return _fit(findings, min(max_bytes, OVERVIEW_BYTES), is_full=arguments.detail == "full")


def _fit(findings: Findings, max_bytes: int, *, is_full: bool) -> list[JsonObject]:
    """Return records of as many findings as fit."""
    room = max_bytes

    while True:
        records = [_build_line(shown, is_full) for shown in choose_findings(findings, room)]
        excess = json_size(records) - max_bytes
        if excess <= 0:
            return records
        room -= excess


def _build_line(shown: Shown, is_full: bool) -> JsonObject:
    label = shown.finding.label
    record: JsonObject = {name: label[name] for name in ("key", "filename") if name in label}
    record["content"] = shown.content
    if "date" in label:
        record["date"] = label["date"]

    if shown.is_cut:
        target: JsonObject = {name: label[name] for name in ("type", "key") if name in label}
        if label["type"] == "short_term":
            target["date"] = label["date"]
        target["resume"] = shown.finding.piece.resume(shown.chars)
        record["next"] = format_target(target, is_full)

    return record
