"""The store for those who outgrow one machine: a database that any number of processes share."""

from collections.abc import Callable
from pathlib import Path

from abilities.helpers.search.terms import Language
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.originals import RepairReport, name_originals
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.postgres.engine import PostgresEngine
from abilities.helpers.store.store import SqlStore


class PostgresStore(SqlStore):
    """A store in PostgreSQL. Connections are made when they are first needed.

    ``max_memories`` is the most that one namespace may hold; None sets no limit. ``language`` is
    that of the recall index if the store is created or has none yet. ``history`` says what the
    store keeps of what its changes replaced. Raises ValueError for a URL that libpq cannot read.
    """

    def __init__(
        self,
        url: str,
        *,
        max_memories: int | None = None,
        language: Language | None = None,
        history: HistoryLimits = HistoryLimits(),  # noqa: B008 - it is immutable
    ) -> None:
        self.engine = PostgresEngine(url, language or Language())
        super().__init__(self.engine, StoreRules(max_memories, history))

    async def repair(
        self, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        """Mend the store while it is in use, one namespace at a time; leave a sound one alone.

        ``originals`` is a new file for the damaged rows as they stood; without it, one in the
        current folder is made. A dry run changes nothing. Raises FileExistsError, OSError, Refused.
        """
        path = originals or name_originals(Path("memories"))
        return await self.engine.repair(path, progress, self._rules.history, dry_run=dry_run)
