"""The text of a file that was read, and what tells one state of a file from another."""

import os
import time
from hashlib import blake2b
from typing import NamedTuple

from abilities.declarations.values import JsonObject
from abilities.helpers.text.pieces import Piece


def format_modified_at(status: os.stat_result) -> str:
    """Return a file's last modification, RFC 3339 UTC in milliseconds."""
    # Integers throughout: a float has too few digits for nanoseconds and may round up a second.
    seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
    date_and_time = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{date_and_time}.{nanoseconds // 1_000_000:03}Z"


def find_version(status: os.stat_result) -> str:
    """Return a hash of a file's inode, size and modification time (BLAKE2b, 48 bits)."""
    # A file replaced within one tick of the clock by one as long still has another inode.
    stamp = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return blake2b(stamp.encode(), digest_size=6).hexdigest()


class FileText(NamedTuple):
    """A file that was read: which root had it, its status, and the requested part.

    ``original`` is the item as requested, ``path`` the same without its suffix, ``source`` the
    root's name.
    """

    original: str
    path: str
    source: str
    stat: os.stat_result
    piece: Piece

    @property
    def text(self) -> str:
        """The text of the requested part, up to what was asked for at most."""
        return self.piece.text

    @property
    def modified_at(self) -> str:
        """Last modification, RFC 3339 UTC in milliseconds."""
        return format_modified_at(self.stat)

    @property
    def version(self) -> str:
        """A hash that changes if the file is replaced or modified."""
        return find_version(self.stat)

    def to_data(self) -> JsonObject:
        """Return the fields of the file's record, the content empty."""
        data: JsonObject = {
            "path": self.path,
            "source": self.source,
            "content": "",
            "size_bytes": self.stat.st_size,
            "modified_at": self.modified_at,
            "version": self.version,
        }
        if self.piece.lines is not None:
            data["lines"] = self.piece.lines
        if self.piece.encoding.name != "utf-8":
            data["encoding"] = self.piece.encoding.name

        return data
