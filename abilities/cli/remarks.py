"""Remarks of an import: what became of memories that were not simply added."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from abilities.cli.text import echo, format_count
from abilities.helpers.transfer.importing import ImportNote

SHOWN_REMARKS = 20
"""Remarks printed per command; a million of them would bury the summary."""


@contextmanager
def report_notes(report: Path | None) -> Generator[Callable[[ImportNote], None]]:
    """Print the first remarks, count the others, and write all of them to ``report`` if given.

    Remarks on kinds of rows are few and come last, so they are all printed. The block calls what it
    gets with each remark. Raises OSError if the report cannot be written.
    """
    # Opened before the import begins, so that a wrong path costs nothing.
    file = report.open("w", encoding="utf-8") if report else None
    count = 0

    def tell(note: ImportNote) -> None:
        nonlocal count

        if file:
            file.write(json.dumps(note._asdict(), ensure_ascii=False) + "\n")

        if note.rows is None:
            count += 1
        if note.rows is not None or count <= SHOWN_REMARKS:
            echo(_format_note(note), err=True)

    try:
        yield tell
    finally:
        if file:
            file.close()

    if count > SHOWN_REMARKS:
        rest = format_count(count - SHOWN_REMARKS, "more remark")
        hint = f"all of them are in {report}" if report else "--report FILE writes all of them"
        echo(f"... and {rest}; {hint}.", err=True)


def _format_note(note: ImportNote) -> str:
    place = note.place

    if note.key:
        place = f"{place} ({note.key})"

    return f"{place}: {note.words}"
