"""An ability that tells what is where in files, without their contents."""

import json
import re
from typing import Annotated, NamedTuple

from pydantic import Field

from abilities import Arguments, Context, Fault, FileText, Model, Record, ability

_HEADING = re.compile(r"(#{1,6})\s+(.+)|(\s*)(?:async\s+)?(?:def|class)\s+(\w+)")
_LONGEST = 80


class OutlineInput(Arguments):
    """What the ability takes. Descriptions are for the model that calls it."""

    paths: Annotated[list[str], Field(min_length=1, max_length=25)] = Field(
        description="1 to 25 relative paths of Markdown or Python files."
    )


class Part(Model):
    """A heading, class or function, and the lines that belong to it."""

    name: str = Field(description="Its text or name.")
    level: int = Field(description="How deep it stands; 1 is the top.")
    lines: str = Field(description="Append it to the path for file_read_bulk, as 'notes.md#L3-L9'.")


class Outline(Model):
    """The parts of one file."""

    parts: list[Part] = Field(description="The parts, in the order of the file.")
    more: bool = Field(
        default=False, description="Whether parts were left out to bound the answer; default false."
    )


class OutlineAnswer(Model):
    """One record per path, in the order of the request; a file that cannot be read fails alone."""

    results: list[Record[Outline]] = Field(description="One record per path.")


@ability(
    title="Outline files",
    description="List the headings, classes and functions of up to 25 files with their lines; "
    "use it to find what to read, then send 'path#L3-L9' to file_read_bulk. Nothing is changed.",
    read_only=True,
    idempotent=True,
)
async def file_outline(context: Context, arguments: OutlineInput) -> OutlineAnswer:
    """Read through the shared reader, so that confinement, limits and deny list hold."""
    room = context.max_response_bytes // 2  # paths and records take the rest
    results: list[Record[Outline]] = []
    outcomes = await context.files.read(arguments.paths, max_chars=100_000)

    for path, outcome in zip(arguments.paths, outcomes, strict=True):
        if isinstance(outcome, FileText):
            parts = _find_parts(outcome.piece.text)
            outline, room = _fit_outline(parts, room)
            results.append(Record(input=path, success=True, data=outline))
        else:
            fault = Fault.from_exception(outcome)
            results.append(Record(input=path[:200], success=False, error=fault))

    return OutlineAnswer(results=results)


class _Start(NamedTuple):
    """The line at which a part begins, counted from 1."""

    line: int
    level: int
    name: str


def _find_parts(text: str) -> list[Part]:
    """Return the parts of a text; each ends before the next one of its level or above."""
    lines = text.splitlines()
    starts: list[_Start] = []

    for number, line in enumerate(lines, 1):
        match = _HEADING.match(line)
        if match:
            starts.append(_read_start(number, match))

    parts: list[Part] = []
    for index, start in enumerate(starts):
        following = starts[index + 1 :]
        end = next(
            (other.line - 1 for other in following if other.level <= start.level), len(lines)
        )
        name = start.name[:_LONGEST]
        parts.append(Part(name=name, level=start.level, lines=f"#L{start.line}-L{end}"))

    return parts


def _read_start(line: int, match: re.Match[str]) -> _Start:
    hashes, heading, indent, name = match.groups()
    if hashes:
        return _Start(line, len(hashes), heading)

    return _Start(line, 1 + len(indent) // 4, name)


def _fit_outline(parts: list[Part], room: int) -> tuple[Outline, int]:
    """Return as many parts as there is room for, and the room that is left, in bytes."""
    fitting: list[Part] = []

    for part in parts:
        room -= len(json.dumps(part.model_dump(), ensure_ascii=False).encode()) + 1
        if room < 0:
            return Outline(parts=fitting, more=True), 0

        fitting.append(part)

    return Outline(parts=fitting), room
