"""The past of long contents: which memories held one, and what they were; the same for all stores.

A change of a content makes that of its first memory and then those of its further parts.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from abilities.helpers.stores.history import Entry, State, undo, verify_entry

_LAST_VERSION = 2**63 - 1


def rewind_to_moment(state: State, entries: Iterable[Entry], moment: int | str) -> State | None:
    """Return the state that a memory had right after a version of its namespace, or at a time.

    The entries are those since, newest first. Returns None if there was none or it is no longer
    known. Raises Refused: checksum_mismatch.
    """
    for entry in entries:
        if not _is_later(entry.made_at, entry.version, moment):
            break
        if entry.action == "mended":
            return None

        state = undo(state, verify_entry(entry))

    row = state.row
    if row is None or _is_later(row.updated_at, row.version, moment):
        return None

    return state


def _is_later(time: str, version: int, moment: int | str) -> bool:
    if isinstance(moment, str):
        return time > moment

    return version > moment


def find_end(entries: Iterable[Entry], version: int) -> int:
    """Return the last version of the namespace in which a memory still had a version of its own.

    The entries are those of the memory, newest first.
    """
    end = _LAST_VERSION
    for entry in entries:
        if entry.version <= version:
            break
        if entry.action != "relinked":
            end = entry.version - 1

    return end


class KeyChange(NamedTuple):
    """A change of a memory, its key before, and the version before, 0 if there was none."""

    version: int
    key: str
    previous: int


class _Span(NamedTuple):
    """The versions of a namespace in which a memory had a key: after one, until another."""

    key: str
    after: int
    until: int


class Deletion(NamedTuple):
    """A memory that lost its key in a version; ``is_gone`` says that it was deleted and still is.

    Otherwise it was renamed, or it was brought back.
    """

    id: str
    version: int
    is_gone: bool


class Family:
    """Which deleted memories are forgotten together with one that is purged.

    These are the further parts that its content once had. If the key is its own, and of no other
    memory now, then all that was deleted under this key and as its parts.
    """

    def __init__(self, changes: Sequence[KeyChange], key: str, *, exists: bool, owns: bool) -> None:
        """``changes`` are those of the memory, by rising version; ``key`` is its last one."""
        self._spans = _list_spans(changes)
        self._own_key = key if owns else None
        if exists:
            last = changes[-1].version if changes else 0
            self._spans.append(_Span(key, last, _LAST_VERSION))

        self.keys = sorted({key, *(span.key for span in self._spans)})

    def has(self, key: str, number: int, deletion: Deletion) -> bool:
        """Return whether a memory belongs to it that was the part of a key with a number."""
        if not deletion.is_gone:
            return False
        if key == self._own_key:
            return True

        return number > 1 and self._had_key(key, deletion.version - number + 1, deletion.version)

    def _had_key(self, key: str, first: int, last: int) -> bool:
        """Return whether the memory had a key in one of these versions."""
        for span in self._spans:
            if span.key == key and span.after < last and first <= span.until:
                return True

        return False


def _list_spans(changes: Sequence[KeyChange]) -> list[_Span]:
    spans: list[_Span] = []
    last = 0
    for change in changes:
        if change.previous:
            spans.append(_Span(change.key, last, change.version))
        last = change.version

    return spans
