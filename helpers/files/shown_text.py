"""The text of a file as a reader is shown it, in UTF-8, and which lines of the file are in it.

A secret may span lines of the file; its mark stands in one shown line. So a shown line may stand
for several lines of the file.
"""

from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.files.redaction import Secret, find_secrets, format_mark
from abilities.helpers.text.codec import Encoding, decode, replace_markers


class HiddenLines(NamedTuple):
    """How many line ends are behind marks in a shown line; shown lines count from 0."""

    line: int
    count: int


class ShownText(NamedTuple):
    """A file's text with marks in the place of secrets, and U+FFFD for what does not decode."""

    raw: bytes
    hidden: tuple[HiddenLines, ...] = ()

    def number_line(self, line: int) -> int:
        """Return the number, from 1, of the first line of the file that is in a shown line."""
        number = line + 1
        for hidden in self.hidden:
            if hidden.line < line:
                number += hidden.count

        return number

    def skip_lines(self, number: int) -> tuple[int, int]:
        """Return the place of the first shown line that begins behind a line of the file.

        That is its byte position, and its number among the shown lines, from 0.
        """
        if number == 0:
            return 0, 0

        line = number
        for hidden in self.hidden:
            if self.number_line(hidden.line) <= number:
                line = max(line - hidden.count, hidden.line + 1)

        skipped = self.raw.split(b"\n", line)
        if len(skipped) <= line:
            return len(self.raw), len(skipped)

        return len(self.raw) - len(skipped[line]), line


def show_text(raw: bytes, encoding: Encoding, *, redacts: bool) -> ShownText:
    """Return the text of a whole file as it is shown.

    Raises Refused: binary_file.
    """
    if encoding.unit == 1 and b"\0" in raw:
        raise Refused("binary_file")

    text, has_markers = decode(raw[encoding.bom :], encoding, final=True)
    if encoding.unit == 2 and "\0" in text:
        raise Refused("binary_file")

    secrets: list[Secret] = []
    if redacts:
        secrets = find_secrets(text)

    if secrets:
        return _hide_secrets(text, secrets)

    if has_markers or encoding.bom:
        return ShownText(replace_markers(text).encode())

    return ShownText(raw)


def _hide_secrets(text: str, secrets: list[Secret]) -> ShownText:
    parts: list[str] = []
    hidden: list[HiddenLines] = []
    position = line = 0

    for secret in secrets:
        before = text[position : secret.start]
        line += before.count("\n")
        parts += (before, format_mark(secret.kind))

        count = text.count("\n", secret.start, secret.end)
        if count:
            hidden.append(HiddenLines(line, count))

        position = secret.end

    parts.append(text[position:])
    return ShownText(replace_markers("".join(parts)).encode(), tuple(hidden))
