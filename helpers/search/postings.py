"""Postings: the memories of a block that contain a term, with the weight of the term in each.

A store numbers the memories of a namespace. 1,024 consecutive numbers are a block. For each term
and block, a store keeps the postings as bytes: two per memory, ``(number in the block) << 6 |
weight``, big endian and sorted. So the number of memories is half the number of bytes, and every
second byte has a weight.
"""

import sys
from array import array
from bisect import bisect_left

BLOCK_DOCS = 1_024
"""Memories in a block."""

POSTING_BYTES = 2

_WEIGHTS = bytes(byte & 63 for byte in range(256))


def block_of(doc: int) -> int:
    """Return the block of a memory's number."""
    return doc // BLOCK_DOCS


def pack(doc: int, weight: int) -> bytes:
    """Return the posting of a memory; the weight is from 1 to 63.

    >>> pack(2, 5).hex()
    '0085'
    """
    return (doc % BLOCK_DOCS << 6 | weight).to_bytes(POSTING_BYTES, "big")


def change(docs: bytes, doc: int, weight: int) -> bytes:
    """Return postings in which a memory has this weight; a weight of 0 removes the memory."""
    number = doc % BLOCK_DOCS
    low = 0
    high = len(docs) // POSTING_BYTES
    if int.from_bytes(docs[-POSTING_BYTES:], "big") >> 6 < number:  # a new memory has the highest
        low = high

    while low < high:
        middle = (low + high) // 2
        start = middle * POSTING_BYTES
        value = int.from_bytes(docs[start : start + POSTING_BYTES], "big")
        if value >> 6 < number:
            low = middle + 1
        else:
            high = middle

    start = end = low * POSTING_BYTES
    found = docs[start : start + POSTING_BYTES]
    if found and int.from_bytes(found, "big") >> 6 == number:
        end += POSTING_BYTES

    posting = b""
    if weight:
        posting = pack(doc, weight)
    return docs[:start] + posting + docs[end:]


def decode(docs: bytes) -> "array[int]":
    """Return the postings as numbers."""
    values = array("H", docs)
    if sys.byteorder == "little":
        values.byteswap()

    return values


def look_up(values: "array[int]", doc: int) -> int:
    """Return the weight of a memory in the decoded postings of a term, or 0 if it has none."""
    number = doc % BLOCK_DOCS
    position = bisect_left(values, number << 6)
    if position == len(values) or values[position] >> 6 != number:
        return 0

    return values[position] & 63


def list_weights(docs: bytes) -> bytes:
    """Return the weights, one byte each."""
    return docs[1::2].translate(_WEIGHTS)
