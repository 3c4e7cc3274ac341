"""Remarks of an import: what became of memories that were not simply added."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from abilities.cli.text import echo, format_count
from abilities.helpers.transfer.importing import ImportNote

SHOWN_REMARKS = 20
"""Remarks printed before only new ones are; a million of them would bury the summary."""


class _Remarks:
    """Prints the first remarks of an import and the first of each further sentence.

    Of up to 20 sentences it counts how often each was not printed, and all others together.
    Remarks on kinds of rows are few and come last, so they are all printed.
    """

    def __init__(self) -> None:
        self._printed = 0
        self._left: dict[str, int] = {}
        self._others = 0

    def add(self, note: ImportNote) -> None:
        """Print a remark, or count it."""
        if note.rows is not None:
            echo(_format_note(note), err=True)
            return

        is_new = note.words not in self._left and len(self._left) < SHOWN_REMARKS
        if is_new:
            self._left[note.words] = 0

        if is_new or self._printed < SHOWN_REMARKS:
            self._printed += 1
            echo(_format_note(note), err=True)
        elif note.words in self._left:
            self._left[note.words] += 1
        else:
            self._others += 1

    def print_rest(self, hint: str) -> None:
        """Print how many remarks were not printed, by their sentence."""
        for words, count in self._left.items():
            if count:
                echo(f"... and {count:,} more of: {words}", err=True)

        if self._others:
            echo(f"... and {format_count(self._others, 'other remark')}.", err=True)
        if self._others or any(self._left.values()):
            echo(hint, err=True)


@contextmanager
def report_notes(report: Path | None) -> Generator[Callable[[ImportNote], None]]:
    """Print remarks, equal ones up to a number, and write all of them to ``report`` if given.

    The block calls what it gets with each remark. Raises OSError if the report cannot be written.
    """
    # Opened before the import begins, so that a wrong path costs nothing.
    file = report.open("w", encoding="utf-8") if report else None
    remarks = _Remarks()

    def report_note(note: ImportNote) -> None:
        if file:
            file.write(json.dumps(note._asdict(), ensure_ascii=False) + "\n")

        remarks.add(note)

    try:
        yield report_note
    finally:
        if file:
            file.close()

    hint = f"All of them are in {report}." if report else "--report FILE writes all of them."
    remarks.print_rest(hint)


def _format_note(note: ImportNote) -> str:
    place = note.place

    if note.key:
        place = f"{place} ({note.key})"

    return f"{place}: {note.words}"
