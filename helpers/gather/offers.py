"""Offers: what the items of a mixed batch would bring, before any of it has its room."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from abilities.declarations.values import JsonObject
from abilities.helpers.gather.cursors import Cursor
from abilities.helpers.reply.detail import RecordShape
from abilities.helpers.reply.envelope import FoundItem
from abilities.helpers.reply.items import Item
from abilities.helpers.text.pieces import Piece

_VERSION_BYTES = 6


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that was found, and is read only if there is room for it.

    ``path`` may have a suffix; ``size_bytes`` is the size of the whole file.
    """

    path: str
    size_bytes: int


@dataclass(slots=True)
class Leaf:
    """One content that an item brings, or why there is none, or the data of a record without one.

    ``size`` is about how many bytes it takes; of a file that was not read, those on the disk.
    ``leading``, ``trailing`` and ``shape`` are those of its record within a group, and ``position``
    its place in the group's cursors. ``continue_at`` takes a resume point and returns the item for
    the rest, if that is not what the content itself says. A leaf that is ``atomic`` is cut only if
    a reply has no other content, and then the group goes on behind it.
    """

    source: FoundItem | UnreadFile | JsonObject | Exception
    size: int
    position: str = ""
    leading: JsonObject = field(default_factory=dict[str, object])
    trailing: JsonObject | None = None
    shape: RecordShape | None = None
    continue_at: Callable[[str], Item] | None = None
    atomic: bool = False


@dataclass(slots=True)
class ItemOffer:
    """What one item of a call brings.

    ``text`` is the item as its record repeats it. An item that brings several contents has
    ``group``, the fields of its record's data beside them. ``version`` stands for all contents,
    whatever part of them was asked for; ``is_unchanged`` is whether the caller has that one.
    ``fault`` is why the item failed as a whole. ``go_on`` returns the item to send for what comes
    at a cursor; an item that ran out of time has one in ``unfinished``. ``is_begun`` is whether the
    item itself goes on where an earlier reply ended.
    """

    text: str
    item: Item
    weight: int = 1
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    group: JsonObject | None = None
    version: str | int | None = None
    is_unchanged: bool = False
    fault: Exception | None = None
    go_on: Callable[[Cursor], Item] | None = None
    unfinished: Cursor | None = None
    is_begun: bool = False

    @property
    def size(self) -> int:
        """About how many bytes all contents take together."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def whole_size(self) -> int:
        """The bytes of the file or memory that the item is a part of; of several, `size`."""
        if self.group is None and self.leaves:
            (leaf,) = self.leaves
            if isinstance(leaf.source, FoundItem | UnreadFile):
                return leaf.source.size_bytes

        return self.size


def measure_piece(piece: Piece) -> int:
    """Return the bytes of a piece's text in UTF-8, in which a marker takes as many as U+FFFD."""
    return len(piece.text.encode("utf-8", "surrogatepass"))


def hash_versions(*parts: str) -> str:
    """Return a version that stands for several, which changes with each of them and their order."""
    digest = blake2b(digest_size=_VERSION_BYTES)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)

    return digest.hexdigest()
