"""The embedded store."""

from pathlib import Path

from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.sqlite.engine import SqliteEngine
from abilities.helpers.store.store import SqlStore

DEFAULT_LIMITS = HistoryLimits()


class SqliteStore(SqlStore):
    """A store in one file, which is opened when first needed, and created if there never was one.

    ``max_memories`` is the most that one namespace may hold; None sets no limit. ``language`` is
    that of the recall index, if the store has none yet. ``history`` says how long earlier versions
    are kept.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_memories: int | None = None,
        language: str = "english",
        history: HistoryLimits = DEFAULT_LIMITS,
    ) -> None:
        self.engine = SqliteEngine(path, language)
        super().__init__(self.engine, StoreRules(max_memories, history))
