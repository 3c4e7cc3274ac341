"""What a repair of a store has in common for all stores: its report, and the file of originals."""

import base64
import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import orjson

from abilities.helpers.durable import sync_folder
from abilities.helpers.store.protocol import IntegrityFinding


@dataclass
class RepairReport:
    """What a repair did, or would do.

    ``damage`` is what was found; if it is empty, nothing was done. ``originals`` is the file that
    holds the damaged rows as they stood, and ``previous`` the store as it was before, if there are
    any.
    """

    damage: list[IntegrityFinding]
    restored_memories: int = 0
    """Memories whose damaged values were known from elsewhere, so that they are as written."""
    mended_memories: int = 0
    """Memories in which defaults took the place of damaged values."""
    mended_links: int = 0
    lost_memories: int = 0
    """Memories of which nothing could be read."""
    lost_links: int = 0
    originals: Path | None = None
    previous: Path | None = None


class OriginalsFile:
    """A file for damaged rows as they stood, one JSON object per line; made with the first one.

    Values that JSON cannot carry are objects with their bytes, ``{"base64": "…"}``. Without a path,
    nothing is written. It never replaces a file.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def add(self, table: str, columns: Mapping[str, object]) -> None:
        """Write a row. Raises FileExistsError, OSError."""
        if self.path is None:
            return

        if self._file is None:
            self._file = open(self.path, "xb", opener=_open_private)  # noqa: SIM115 - see close

        values = {name: _to_json(value) for name, value in columns.items()}
        self._file.write(orjson.dumps({"table": table, **values}) + b"\n")

    def save(self) -> Path | None:
        """Sync the file to disk; return its path, or None if there was nothing to write."""
        if self._file is None or self.path is None:
            return None

        self._file.flush()
        os.fsync(self._file.fileno())
        sync_folder(self.path.parent)
        return self.path

    def close(self) -> None:
        """Close the file; what was not saved may be lost."""
        if self._file is not None:
            self._file.close()


def name_originals(beside: Path) -> Path:
    """Return a new name for a file of originals, which no other run chooses."""
    run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    return beside.with_name(f"{beside.name}-damaged-{run}.jsonl")


def _to_json(value: object) -> object:
    """Return a value of a row as JSON carries it without loss."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode(errors="surrogateescape")

    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}

    return value


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
