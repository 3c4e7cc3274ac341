"""Cursors: where an item that was not read to its end goes on."""

from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.text.ranges import WHOLE, Range, parse_range


class Cursor(NamedTuple):
    """A place in what an item brings, as ``RESUME/POSITION``.

    With a resume point, the item goes on within what is at the position, otherwise behind it. No
    resume point holds a slash, so the first one ends it.
    """

    position: str = ""
    resume: str = ""

    def format(self) -> str:
        """Return the cursor as it is sent."""
        return f"{self.resume}/{self.position}"

    def parse_resume(self) -> Range:
        """Return the range of the resume point; the whole without one. Raises Refused."""
        if not self.resume:
            return WHOLE

        return parse_range(self.resume)

    def find_range(self, position: str) -> Range:
        """Return which part of what is at a position is asked for. Raises Refused."""
        return self.parse_resume() if position == self.position else WHOLE


START = Cursor()


def parse_cursor(text: str | None) -> Cursor:
    """Return the cursor that was sent, or the start. Raises Refused: invalid_format."""
    if text is None:
        return START

    resume, slash, position = text.partition("/")
    cursor = Cursor(position, resume)
    is_resume = not resume or resume.startswith("byte=")
    if not slash or not is_resume:
        raise invalid_cursor()

    try:
        cursor.parse_resume()
    except Refused:
        raise invalid_cursor() from None

    return cursor


def invalid_cursor() -> Refused:
    """Return the refusal of a cursor that no answer can have handed out."""
    rule = {"format": "as next_request has it"}
    return Refused("invalid_format", "after", expected=rule)


def count_down(left: int | None, position: str) -> str:
    """Return a position with how many contents may come behind it; None is as many as asked."""
    return f"{'' if left is None else left}:{position}"


def parse_countdown(position: str, limit: int) -> tuple[int, str]:
    """Return how many contents may come behind a position, and itself. Raises Refused."""
    if not position:
        return limit, ""

    left, colon, rest = position.partition(":")
    if not colon or (left and not (left.isascii() and left.isdigit() and len(left) <= 3)):
        raise invalid_cursor()

    return min(int(left or limit), limit), rest


def format_place(place: int, version: str, end: int | None = None) -> str:
    """Return the position of a place in a list that has a version.

    ``end`` is the place before which the list ends, if an item's own limit ends it.
    """
    position = f"{place}.{version}"
    return position if end is None else f"{position}.{end}"


def parse_place(cursor: Cursor) -> int:
    """Return at which place of a list to begin. Raises Refused: invalid_format."""
    if not cursor.position:
        return 0

    place, _, _ = _split_place(cursor)
    return place if cursor.resume else place + 1


def check_place(cursor: Cursor, version: str) -> None:
    """Raise Refused("memories_changed") if a cursor is of a list with another version."""
    if cursor.position and _split_place(cursor)[1] != version:
        raise Refused("memories_changed")


def parse_end(cursor: Cursor) -> int | None:
    """Return the place before which a list ends; None if no cursor says so. Raises Refused."""
    if not cursor.position:
        return None

    return _split_place(cursor)[2]


def _split_place(cursor: Cursor) -> tuple[int, str, int | None]:
    place, _, rest = cursor.position.partition(".")
    version, _, end = rest.partition(".")
    if not _is_place(place) or not version or (end and not _is_place(end)):
        raise invalid_cursor()

    return int(place), version, int(end) if end else None


def _is_place(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def split_line(place: str) -> tuple[str, int]:
    """Return the file and the line of a place in a search, ``LINE:PATH``. Raises Refused."""
    if not place:
        return "", 0

    line, colon, path = place.partition(":")
    if not colon or not (line.isascii() and line.isdigit() and len(line) <= 12):
        raise invalid_cursor()

    return path, int(line)
