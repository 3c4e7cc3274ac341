"""An ability that tells what is where in files, without their contents."""

import json
import re
from typing import Annotated

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
    """One record a path, in the order asked; a file that cannot be read fails alone."""

    results: list[Record[Outline]] = Field(description="One record per path.")


@ability(
    title="Outline files",
    description="List the headings, classes and functions of up to 25 files with their lines; use it to find what to "
    "read, then send 'path#L3-L9' to file_read_bulk. Nothing is changed.",
    read_only=True,
    idempotent=True,
)
async def file_outline(context: Context, arguments: OutlineInput) -> OutlineAnswer:
    """Read through the shared reader, so that confinement, limits and deny list hold."""
    room = context.max_response_bytes // 2  # paths and records take the rest
    results: list[Record[Outline]] = []
    outcomes = await context.files.read(arguments.paths, max_chars=100_000)
    for path, found in zip(arguments.paths, outcomes, strict=True):
        if isinstance(found, FileText):
            outline, room = _fitted(_parts(found.piece.text), room)
            results.append(Record(input=path, success=True, data=outline))
        else:
            results.append(
                Record(input=path[:200], success=False, error=Fault.from_exception(found))
            )
    return OutlineAnswer(results=results)


def _parts(text: str) -> list[Part]:
    """The parts of a text; each ends where the next one of its level or above begins."""
    lines = text.splitlines()
    begun = [
        (n, *_told(match)) for n, line in enumerate(lines, 1) if (match := _HEADING.match(line))
    ]
    parts: list[Part] = []
    for place, (start, level, name) in enumerate(begun):
        end = next((n - 1 for n, other, _ in begun[place + 1 :] if other <= level), len(lines))
        parts.append(Part(name=name[:_LONGEST], level=level, lines=f"#L{start}-L{end}"))
    return parts


def _told(match: re.Match[str]) -> tuple[int, str]:
    hashes, heading, indent, name = match.groups()
    return (len(hashes), heading) if hashes else (1 + len(indent) // 4, name)


def _fitted(parts: list[Part], room: int) -> tuple[Outline, int]:
    """As many parts as there is room for, and the room that is left."""
    kept: list[Part] = []
    for part in parts:
        room -= len(json.dumps(part.model_dump(), ensure_ascii=False).encode()) + 1
        if room < 0:
            return Outline(parts=kept, more=True), 0
        kept.append(part)
    return Outline(parts=kept), room
