"""The terms of a recent memory as one text, from which they move to the blocks of the recall index.

Each term is a line: the term, a tab, and a character that stands for its weight.
"""

from collections.abc import Mapping

from abilities.helpers.search.ranking import HIGHEST_WEIGHT

_NO_WEIGHT = ord("0")


def pack_terms(weights: Mapping[str, int]) -> str:
    r"""Return terms with their weights as one text.

    >>> pack_terms({"tea": 1, "cup": 2})
    '\ntea\t1\ncup\t2'
    """
    lines: list[str] = []
    for term, weight in weights.items():
        lines.append(f"\n{term}\t{chr(_NO_WEIGHT + weight)}")

    return "".join(lines)


def unpack_terms(text: str) -> dict[str, int]:
    """Return the terms of a text from `pack_terms` with their weights, without damaged ones."""
    weights: dict[str, int] = {}
    for line in text.split("\n")[1:]:
        term, _, character = line.partition("\t")
        weight = _read_weight(character)
        if weight:
            weights[term] = weight

    return weights


def find_weight(text: str, term: str) -> int:
    """Return the weight of a term in a text from `pack_terms`; 0 if it is not there or damaged."""
    line = f"\n{term}\t"
    start = text.find(line)
    if start < 0:
        return 0

    end = start + len(line)
    return _read_weight(text[end : end + 1])


def _read_weight(character: str) -> int:
    """Return the weight that a character stands for; 0 if it stands for none."""
    if len(character) != 1:
        return 0

    weight = ord(character) - _NO_WEIGHT
    return weight if 0 < weight <= HIGHEST_WEIGHT else 0
