"""Catching up: what an agent should know from earlier sessions, as labeled data within a bound.

It has the long-term notes, the notes of the last days, and memories: the important ones first, then
the latest changes. Each of the three gets a third of the room; unused room goes to the others.
Notes and memories that do not fit are cut.

A question that names nothing, such as "What do you remember about me?", is answered with the same
in short: an overview.
"""

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.recall import RecallInput
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject, drop_empty, json_size
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.memory.recall_answers import format_target
from abilities.helpers.memory.recalling import RecallResult, build_filters
from abilities.helpers.memory.records import name_target
from abilities.helpers.reply.budget import MIN_SHARE, Bound, find_level
from abilities.helpers.reply.formats import format_text
from abilities.helpers.store.model import Query, StoredMemory
from abilities.helpers.text import Piece, replace_markers

OVERVIEW_BYTES = 300 * TOKEN_BYTES
"""The most bytes of an overview as JSON, about 300 tokens."""

RECENT_DAYS = 7
"""Days whose notes are shown, including today."""

MAX_IMPORTANT = 20
"""Memories of high importance that are considered, the latest changes first."""

MAX_LATEST = 20
"""Memories of any importance that are considered, the latest changes first."""

HIGH_SCORE = 0.8
"""The lowest score at which a memory counts as important, whatever its importance is."""

MAX_MEMORY_BYTES = 1_000
"""Bytes of one memory's content; a longer one is cut."""

_OVERVIEW_MEMORY_BYTES = 300
"""Bytes of one memory's content in an overview, so that it shows several."""

_OVERVIEW_NOTE_CHARS = 2_000
"""Characters of a note that are read for an overview, which never shows more."""

_ENVELOPE_OVERHEAD = 64
"""The first line without its failures: the day, and two counts."""

_RECORD_OVERHEAD = 12
"""The parts of a record around its label and its content: a boundary, a space, two line ends."""

_END = "end of the data"
_BOUNDARY_CHARS = 6


class Finding(NamedTuple):
    """A note or a memory: its label, the text that was read, and the most bytes to show of it.

    ``content`` is the text as it is shown, or its beginning.
    """

    label: JsonObject
    piece: Piece
    content: str
    max_bytes: int

    @property
    def overhead(self) -> int:
        """The bytes of its record around the content, if that is cut."""
        return json_size({**self.label, "truncated": True}) + _RECORD_OVERHEAD

    @property
    def size(self) -> int:
        """The bytes of its record."""
        return self.overhead + min(len(self.content.encode()), self.max_bytes)

    @property
    def is_cut(self) -> bool:
        """Whether a part of the note or memory is missing."""
        return self.piece.rest or len(self.content) < len(self.piece.text)


@dataclass(slots=True)
class Findings:
    """The notes and memories to show, each list with the most important first.

    ``failures`` name the sources that could not be read.
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
        """Return the number of notes and memories."""
        return len(self.lasting) + len(self.days) + len(self.memories)


async def gather_findings(
    memory: MemoryHelper, max_bytes: int, *, notes: bool, memories: bool
) -> Findings:
    """Return the findings that a caller may read, of no note more than ``max_bytes`` characters.

    What cannot be read is among the failures.
    """
    findings = Findings(memory.today)

    if notes:
        await _add_notes(memory, findings, max_bytes)
    if memories:
        await _add_memories(memory, findings)

    return findings


async def _add_notes(memory: MemoryHelper, findings: Findings, max_bytes: int) -> None:
    targets: list[JsonObject] = [{"type": "long_term"}]
    for ago in range(RECENT_DAYS):
        day = findings.today - timedelta(days=ago)
        targets.append({"type": "short_term", "date": day.isoformat()})

    shown: set[str] = set()
    notes = await memory.read(targets, max_bytes)
    for target, note in zip(targets, notes, strict=True):
        if isinstance(note, Exception):
            _add_failure(findings, target, note)
            continue

        # The settings may name one file for all days of a month.
        name = note.target.filename
        if name in shown or not note.piece.text.strip():
            continue

        shown.add(name)
        label = {**note.target.to_target(), "filename": name}
        content = replace_markers(note.piece.text)
        section = findings.days if note.target.day else findings.lasting
        section.append(Finding(label, note.piece, content, len(content.encode())))


async def _add_memories(memory: MemoryHelper, findings: Findings) -> None:
    important = Query(importance="high", limit=MAX_IMPORTANT, sort_by="updated_at")
    latest = Query(limit=MAX_LATEST, sort_by="updated_at")

    found: dict[tuple[str, str], StoredMemory] = {}
    for query in (important, latest):
        try:
            page = await memory.query(query)
        except Exception as error:
            _add_failure(findings, {"type": "stored"}, error)
            return

        for outcome in page.memories:
            if isinstance(outcome, StoredMemory):
                found[outcome.row.namespace, outcome.row.key] = outcome

    chosen = sorted(found.values(), key=lambda one: (one.row.updated_at, one.row.version))
    chosen.reverse()
    chosen.sort(key=lambda one: one.row.importance != "high" and one.row.score < HIGH_SCORE)
    for stored in chosen:
        row = stored.row
        label: JsonObject = {**name_target(stored), "date": row.updated_at[:10]}
        if row.importance != "medium":
            label["importance"] = row.importance
        finding = Finding(label, Piece(row.content), row.content, MAX_MEMORY_BYTES)
        findings.memories.append(finding)


def _add_failure(findings: Findings, target: JsonObject, error: Exception) -> None:
    """Add a failure, unless it only means that there are no such notes."""
    fault = Fault.from_exception(error, "catching up")
    if fault.code != "NOT_FOUND":
        findings.failures.append({**target, "reason": fault.reason})


def format_findings(findings: Findings, opening: str, max_bytes: int) -> str:
    """Return the findings in the text format, after an opening, within ``max_bytes``.

    Unlike a reply, the text also ends with the boundary, so that no content can pass for the text
    after it.
    """
    room = max_bytes - len(opening.encode()) - _RECORD_OVERHEAD - len(_END)
    room -= _ENVELOPE_OVERHEAD + json_size(findings.failures)

    chosen = choose_findings(findings, room)
    records: list[JsonObject] = []
    for finding in chosen:
        cut = drop_empty({"truncated": finding.is_cut})
        records.append({"success": True, **finding.label, **cut, "content": finding.content})

    left_out = findings.count() - len(chosen)
    missing = drop_empty({"left_out": left_out, "failed": findings.failures})
    envelope = {"today": findings.today.isoformat(), **missing, "results": records}
    return format_data(opening, envelope)


def format_data(opening: str, envelope: JsonObject) -> str:
    """Return records in the text format, after an opening, and a boundary at their end."""
    text = format_text(envelope)
    if not envelope["results"]:
        return f"{opening}\n{text}\n"

    # The second line begins with the boundary, which no content contains.
    boundary = text.partition("\n")[2][:_BOUNDARY_CHARS]
    return f"{opening}\n{text}{boundary} {_END}\n"


def choose_findings(findings: Findings, room: int) -> list[Finding]:
    """Return the findings to show within ``room`` bytes, a third of it for each kind.

    Of each kind they are the first ones, of which the last may be cut.
    """
    sections = (findings.lasting, findings.days, findings.memories)
    sizes = [sum(finding.size for finding in section) for section in sections]
    level = find_level(sizes, max(room, 0))

    chosen: list[Finding] = []
    for section in sections:
        left = level
        for finding in section:
            if finding.size <= left:
                left -= finding.size
                chosen.append(_cut(finding, finding.max_bytes))
                continue

            share = left - finding.overhead
            if share >= MIN_SHARE:
                chosen.append(_cut(finding, share))
            break

    return chosen


def _cut(finding: Finding, max_bytes: int) -> Finding:
    """Return a finding with as much of its content as fits into ``max_bytes``."""
    content = finding.content
    if len(content.encode()) <= max_bytes:
        return finding

    fitting = Bound(max_bytes, "text").count_fitting_chars(content, max_bytes)
    return finding._replace(content=content[: finding.piece.find_cut(fitting)])


async def build_overview(
    memory: MemoryHelper, arguments: RecallInput, result: RecallResult, max_bytes: int
) -> list[JsonObject]:
    """Return the records of an overview; none if one of the questions names something.

    There are none either if filters request only some memories. The records are like those of
    recalled memories, without scores.
    """
    is_filtered = arguments.within_days is not None or not build_filters(arguments, None).pass_all
    if result.names_something or is_filtered:
        return []
    if any(ranking.entries for ranking in result.rankings):
        return []  # found by their meaning

    findings = await gather_findings(
        memory, _OVERVIEW_NOTE_CHARS, notes=arguments.notes, memories=True
    )
    short = [finding._replace(max_bytes=_OVERVIEW_MEMORY_BYTES) for finding in findings.memories]
    findings.memories = short

    # The sizes of findings are those of the text format, so JSON may need another attempt.
    is_full = arguments.detail == "full"
    max_bytes = room = min(max_bytes, OVERVIEW_BYTES)
    while True:
        records = [_build_line(finding, is_full) for finding in choose_findings(findings, room)]
        excess = json_size(records) - max_bytes
        if excess <= 0:
            return records
        room -= excess


def _build_line(finding: Finding, is_full: bool) -> JsonObject:
    label = finding.label
    names = ("key", "from", "filename")
    record: JsonObject = {name: label[name] for name in names if name in label}
    record["content"] = finding.content
    if "date" in label:
        record["date"] = label["date"]

    if finding.is_cut:
        names = ("type", "key", "from")
        target: JsonObject = {name: label[name] for name in names if name in label}
        if label["type"] == "short_term":
            target["date"] = label["date"]
        target["resume"] = finding.piece.resume(len(finding.content))
        record["next"] = format_target(target, is_full)

    return record
