"""Find secrets in a text, and put marks in their place.

A seat belt rather than a guarantee: it knows the shapes that `SHAPES` lists, and no others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.helpers.files.secret_shapes import SHAPES
from abilities.helpers.text.codec import Encoding, byte_length
from abilities.helpers.text.patterns import compile_pattern
from abilities.helpers.text.pieces import Mark

REACH = 16 * 1024
"""The longest secret in characters. So as many around a place tell whether it is part of one.

A longer key block is taken for a secret up to here; what follows is shown.
"""

_MIN_VARIETY = 6
"""A random token has more different characters than this; what has fewer is an example."""

_ANY_SHAPE = "|".join(shape.pattern for shape in SHAPES)

_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))  # of UTF-8: all but the first of a character

# What stands in documents in the place of a secret, as `xxxxxxxx` and `AKIA…EXAMPLE` do.
_PLACEHOLDER = (
    r"(?i:x{5}|0{7}|_{5}|\.{3}|\*{3}|1234567|abcdefg|example|placeholder|redacted"
    r"|your[_-]|change_?me|insert_?)"
)

# What documents have for a password: a few letters, a number, a variable, or a word for it.
_WEAK_LOGIN = (
    r"[^A-Z0-9]{0,15}|[^a-z0-9]{0,15}|\d*|[$%].*"
    r"|(?i:(?:my|the|your|user|db|database|root|admin|test)?[._-]?"
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|credential|token)s?[._-]?(?:here)?\d{0,4})"
)


class Secret(NamedTuple):
    """The place of a secret in a text: from ``start`` to ``end`` (exclusive), in characters."""

    start: int
    end: int
    kind: str


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in a text, in order; no two of them overlap.

    The time is linear in the length of the text.
    """
    # RE2 searches bytes; searching strings, it would encode them and map every position.
    raw = text.encode("utf-8", "surrogatepass")
    scanner = compile_pattern(_ANY_SHAPE, captures=False)  # finding alone is faster
    secrets: list[Secret] = []
    position = chars = counted = 0

    while (found := scanner.search(raw, position)) is not None:
        beginning, position = found.span()
        identified = _identify(raw, beginning)
        if identified is None:
            continue  # longer than any secret may be

        kind, (start, end), position = identified
        if _is_placeholder(kind, raw[start:end]):
            continue

        first = chars + _count_chars(raw[counted:start])
        chars, counted = first + _count_chars(raw[start:end]), end
        secrets.append(Secret(first, chars, kind))

    return secrets


def format_mark(kind: str) -> str:
    """Return what is shown in the place of a secret."""
    return f"[secret: {kind}]"


def redact(
    text: str, secrets: Sequence[Secret], encoding: Encoding
) -> tuple[str, tuple[Mark, ...]]:
    """Return a decoded text with a mark in the place of each secret, and the marks."""
    parts: list[str] = []
    marks: list[Mark] = []
    length = position = 0

    for secret in secrets:
        before = text[position : secret.start]
        shown = format_mark(secret.kind)
        start = length + len(before)
        length = start + len(shown)
        size = byte_length(text[secret.start : secret.end], encoding)

        parts += (before, shown)
        marks.append(Mark(start, length, size))
        position = secret.end

    parts.append(text[position:])
    return "".join(parts), tuple(marks)


def _identify(raw: bytes, position: int) -> tuple[str, tuple[int, int], int] | None:
    """Return what the first shape that matches at a position has found there.

    That is its kind, the place of the secret, and where the match ends.
    """
    for shape in SHAPES:
        match = compile_pattern(shape.pattern).match(raw, position, position + REACH)
        if match is not None:
            return shape.kind, match.span(1), match.span()[1]

    return None


def _count_chars(raw: bytes) -> int:
    """Return how many characters UTF-8 has, of which the last may be incomplete."""
    if raw.isascii():
        return len(raw)

    return len(raw.translate(None, _CONTINUATION_BYTES))


def _is_placeholder(kind: str, secret: bytes) -> bool:
    """Return whether what has a secret's shape is an example of one."""
    if kind == "private key":
        return False

    if compile_pattern(_PLACEHOLDER).search(secret) is not None:
        return True

    if kind == "password":
        return compile_pattern(_WEAK_LOGIN).fullmatch(secret) is not None

    return len(set(secret)) < _MIN_VARIETY
