"""Which memories the model of a session has been given by hooks: a small file for each session."""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from abilities.declarations.values import JsonObject
from abilities.helpers.durable import AtomicFile
from abilities.hooks.asking import FOLDER

MAX_SEEN = 1_000
"""Memories that a file names, the latest ones."""

MAX_SESSIONS = 200
"""Sessions that are kept, the latest ones."""

KEPT_SECONDS = 30 * 24 * 3_600
"""How long a session is kept after its last memory."""

_DIGEST_CHARS = 16


class SeenMemories:
    """The memories that sessions have seen, in the folder of hooks. All methods raise OSError."""

    def __init__(self) -> None:
        self._folder = Path(FOLDER).expanduser() / "seen"

    def prepare(self) -> None:
        """Create the folder and those around it, readable only by their owner."""
        for folder in (*reversed(self._folder.parents[:2]), self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)

    def add(
        self,
        session: str,
        records: list[JsonObject],
        choose: Callable[[list[JsonObject]], list[JsonObject]],
    ) -> list[JsonObject]:
        """Return those of the new records that ``choose`` returns, which count as seen from now on.

        Hooks of a session may run at once; each memory is returned to one of them.
        """
        if not records:
            return []

        self.prepare()
        with self._lock():
            path = self._find_file(session)
            seen = path.read_text().split() if path.exists() else []
            new = [record for record in records if _identify(record) not in seen]
            chosen = choose(new)

            if chosen:
                if not seen:
                    self._remove_old()
                seen += map(_identify, chosen)
                with AtomicFile(path).open() as file:
                    file.write("\n".join(seen[-MAX_SEEN:]).encode())

        return chosen

    def forget(self, session: str) -> None:
        """Count no memory as seen."""
        self.prepare()
        with self._lock():
            self._find_file(session).unlink(missing_ok=True)

    def _find_file(self, session: str) -> Path:
        # A name that the client chose could lead out of the folder.
        name = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / name[: 2 * _DIGEST_CHARS]

    @contextmanager
    def _lock(self) -> Generator[None]:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _remove_old(self) -> None:
        times: dict[Path, float] = {}
        for path in self._folder.iterdir():
            times[path] = path.stat().st_mtime

        latest = sorted(times, key=times.__getitem__, reverse=True)
        for place, path in enumerate(latest, 1):
            if place >= MAX_SESSIONS or times[path] < time.time() - KEPT_SECONDS:
                with suppress(FileNotFoundError):
                    path.unlink()


def _identify(record: JsonObject) -> str:
    """Return a hash of a memory's key, or of the place of a part of a note."""
    names = [record.get(name, "") for name in ("from", "key", "filename", "heading")]
    return sha256("\n".join(map(str, names)).encode()).hexdigest()[:_DIGEST_CHARS]
