"""Join the lines that match with the lines around them to blocks, none of which overlap."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from abilities.helpers.files.matching import find_line_end, find_line_start
from abilities.helpers.text.cutting import back_off

MAX_BLOCK = 2_000
"""Characters that are shown of a block. It has several matching lines only if it is no longer."""

_BEFORE_MATCH = 500  # characters that are shown before the match in a line that is cut


@dataclass
class Block:
    """Lines of a text from the byte ``start`` to ``end``; ``matches`` are positions in them."""

    start: int
    end: int
    matches: list[int]


def find_blocks(text: bytes, matches: Iterable[int], context: int, start: int) -> Iterator[Block]:
    """Yield the blocks of lines that match, with ``context`` lines before and after each.

    ``matches`` has a position per matching line, in order. No block begins before ``start``. Blocks
    that would touch are one, unless it would be too long to be shown; then the next one begins
    behind it, so that a search may go on there and find the same.
    """
    block: Block | None = None

    for match in matches:
        line = find_line_start(text, match)
        first = max(_go_back(text, line, context), start)
        end = _go_forward(text, match, context + 1)

        if block is not None:
            touches = first <= block.end
            if touches and end - block.start <= MAX_BLOCK:
                block.end = end
                block.matches.append(match)
                continue

            block.end = min(block.end, line)
            yield block
            first = max(first, block.end)

        block = Block(first, end, [match])

    if block is not None:
        yield block


def cut_block(text: bytes, block: Block) -> tuple[str, bool]:
    """Return what is shown of a block, and whether that is less than the block.

    Of a block that is too long, it is the first matching line, or the part of it around the match.
    """
    shown = text[block.start : block.end].decode()
    if len(shown) <= MAX_BLOCK:
        return shown, False

    match = block.matches[0]
    line = text[find_line_start(text, match) : find_line_end(text, match)].decode()
    if len(line) <= MAX_BLOCK:
        return line, True

    chars_before = text[find_line_start(text, match) : match].decode(errors="ignore")
    start = 0
    if len(chars_before) > _BEFORE_MATCH:
        start = back_off(line, len(chars_before) - _BEFORE_MATCH)

    part = line[start : start + MAX_BLOCK + 1]
    return part[: back_off(part, MAX_BLOCK)], True


def _go_back(text: bytes, line: int, count: int) -> int:
    """Return where the line begins that stands ``count`` lines before another."""
    for _ in range(count):
        if line == 0:
            break
        line = find_line_start(text, line - 1)

    return line


def _go_forward(text: bytes, place: int, count: int) -> int:
    """Return the end of a line that stands ``count`` - 1 lines behind that of a position."""
    for _ in range(count):
        place = find_line_end(text, place)

    return place
