"""What the migrations of all stores share: blocks of work, where they stand, and the log of them.

A migration is done in stages, and a stage in blocks. Each block is a transaction that commits the
place where the next one goes on, so a process may be killed at any moment.
"""

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

_LOG_SECONDS = 3.0
"""Between two log lines."""

_log = logging.getLogger("abilities.store")

Position = Sequence[str | int]
"""Where a stage stands; empty before its first block. It is stored with the store."""


class Block(NamedTuple):
    """What one block did: how many rows, and where the next block begins, None after the last."""

    rows: int
    position: Position | None


class MigrationPlace(NamedTuple):
    """Where a migration stands: its stage, the position in it, and the rows done of it."""

    stage: int
    position: Position
    rows: int


class MigrationLog:
    """Tells people how far a migration is, every few seconds."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._logged_at = self._began_at
        self.totals: dict[str, int] = {}
        """How many rows a stage has, by its words, as far as they were counted."""

    def is_due(self) -> bool:
        """Return whether the next line is due, at most every few seconds."""
        now = time.monotonic()
        if now - self._logged_at < _LOG_SECONDS:
            return False

        self._logged_at = now
        return True

    def log_rows(self, words: str, rows: int) -> None:
        """Log how many rows of a stage are done; of one that is a single block, only its words."""
        total = self.totals.get(words)
        if total is None:
            _log.info("Migrating the memory store: %s", words)
        else:
            _log.info("Migrating the memory store: %s of %s %s", f"{rows:,}", f"{total:,}", words)

    def log_copy(self, share: float) -> None:
        """Log the share of the store that is copied, if a line is due."""
        if self.is_due():
            _log.info("Copying the memory store: %d %%", share * 100)

    def log_end(self, version: int) -> None:
        """Log that the store is at a version now, and how long that took."""
        seconds = time.monotonic() - self._began_at
        _log.info("The memory store is at version %d, after %.0f s.", version, seconds)
