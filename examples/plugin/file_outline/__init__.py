"""An ability that lists what is where in files, without their contents."""

import json
import re
from typing import Annotated

from pydantic import Field

from abilities import Arguments, Context, Fault, FileText, Model, Record, ability

_HEADING = re.compile(r"(#{1,6})\s+(.+)|(\s*)(?:async\s+)?(?:def|class)\s+(\w+)")
_MAX_NAME_CHARS = 80


class OutlineInput(Arguments):
    """The arguments. A model that calls the ability reads the descriptions."""

    paths: Annotated[list[str], Field(min_length=1, max_length=25)] = Field(
        description="1 to 25 relative paths of Markdown or Python files."
    )


class Part(Model):
    """A heading, class or function, and the lines that belong to it."""

    name: str = Field(description="The text of the heading, or the name.")
    level: int = Field(description="Its depth; 1 is the top level.")
    lines: str = Field(
        description="Append it to the path for file_read_bulk, for example 'notes.md#L3-L9'."
    )


class Outline(Model):
    """The parts of one file."""

    parts: list[Part] = Field(description="The parts, in the order of the file.")
    more: bool = Field(
        default=False, description="Whether parts were left out to limit the answer; default false."
    )


class OutlineAnswer(Model):
    """One record per path, in the order requested; a file that cannot be read fails alone."""

    results: list[Record[Outline]] = Field(description="One record per path.")


@ability(
    title="Outline files",
    description="List the headings, classes and functions of up to 25 files with their lines; use "
    "it to find what to read, then send 'path#L3-L9' to file_read_bulk. It changes nothing.",
    read_only=True,
    idempotent=True,
)
async def file_outline(context: Context, arguments: OutlineInput) -> OutlineAnswer:
    """Read through the shared reader, so that confinement, limits and deny list hold."""
    room = context.max_response_bytes // 2  # the rest is for paths and records
    results: list[Record[Outline]] = []

    outcomes = await context.files.read(arguments.paths, max_chars=100_000)
    for path, outcome in zip(arguments.paths, outcomes, strict=True):
        if isinstance(outcome, FileText):
            outline = _fit(_find_parts(outcome.piece.text), room)
            room -= sum(_measure(part) for part in outline.parts)
            if outline.more:
                room = 0  # a later file gets no parts either, even if they are small

            results.append(Record(input=path, success=True, data=outline))
        else:
            fault = Fault.from_exception(outcome)
            results.append(Record(input=path[:200], success=False, error=fault))

    return OutlineAnswer(results=results)


def _find_parts(text: str) -> list[Part]:
    """Return the parts of a text; each ends where the next one of its level or above begins."""
    lines = text.splitlines()
    starts: list[tuple[int, int, str]] = []
    for number, line in enumerate(lines, 1):
        match = _HEADING.match(line)
        if match is not None:
            starts.append((number, *_parse_heading(match)))

    parts: list[Part] = []
    for index, (start, level, name) in enumerate(starts):
        end = len(lines)
        for next_start, next_level, _ in starts[index + 1 :]:
            if next_level <= level:
                end = next_start - 1
                break

        parts.append(Part(name=name[:_MAX_NAME_CHARS], level=level, lines=f"#L{start}-L{end}"))

    return parts


def _parse_heading(match: re.Match[str]) -> tuple[int, str]:
    """Return the level of a heading, class or function, and its text or name."""
    hashes, heading, indent, name = match.groups()
    if hashes:
        return len(hashes), heading

    return 1 + len(indent) // 4, name


def _fit(parts: list[Part], room: int) -> Outline:
    """Return an outline of as many parts as there is room for, in bytes."""
    for index, part in enumerate(parts):
        room -= _measure(part)
        if room < 0:
            return Outline(parts=parts[:index], more=True)

    return Outline(parts=parts)


def _measure(part: Part) -> int:
    """Return the bytes of a part as JSON, with the comma after it."""
    return len(json.dumps(part.model_dump(), ensure_ascii=False).encode()) + 1
