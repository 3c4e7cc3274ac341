"""The terms of a recent memory as one text, from which they move to the blocks of the recall index.

Each term is a line: the term, a tab, and a character that stands for its weight.
"""

from collections.abc import Mapping

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
    """Return the terms of a text from `pack_terms` with their weights."""
    weights: dict[str, int] = {}
    for line in text.split("\n")[1:]:
        term, _, weight = line.partition("\t")
        weights[term] = ord(weight) - _NO_WEIGHT

    return weights


def find_weight(text: str, term: str) -> int:
    """Return the weight of a term in a text from `pack_terms`; 0 if it is not there."""
    line = f"\n{term}\t"
    start = text.find(line)
    if start < 0:
        return 0

    return ord(text[start + len(line)]) - _NO_WEIGHT
