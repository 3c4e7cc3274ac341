"""Refuse work at once if too many calls are stuck in the same folder, such as a dead drive.

If a thread does not come back, nothing shows whether the file, its folder or the whole drive is
dead. So much is blamed for a stuck thread at first, and less after each success nearby:

====================================  ===========================================================
success since then in its root        blamed for a thread stuck in ``mnt/a/b.txt``
====================================  ===========================================================
nothing, or ``src/main.py``           everything in ``mnt``
``mnt/c.txt``                         everything in ``mnt/a``
``mnt/a/d.txt``                       ``mnt/a/b.txt`` alone
``mnt/a/b.txt``                       nothing; the thread is lost nevertheless
====================================  ===========================================================

If the thread is stuck in a file directly in the root, the whole root is blamed at first.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

STUCK_CALLS = 4
"""Calls with a thread stuck in a folder after which work there is refused."""

STUCK_THREADS = 32
"""Threads stuck in a folder, of however few calls, after which work there is refused."""

LOST_THREADS = 128
"""Threads stuck in a root after which all of each top folder with a stuck thread is refused."""

PAUSE_SECONDS = 2.0
"""Seconds between two trials, which are calls let into a refused folder to see if it recovered."""

STEADY_TRIALS = 30
"""Trials of a dead folder after which each pause is twice as long as the one before.

A trial may cost another thread. So a folder that stays dead costs 25 more threads in a year, and
one that recovers is used again after at most as long as it was dead.
"""

Path = tuple[str, ...]
"""Names from a root to a file. The last one is empty for a folder itself, as for its listing.

A shorter path, down to ``()`` for the root, denotes a folder and everything in it.
"""


class WorkPlace(NamedTuple):
    """Where a thread may get stuck: a file or folder, in the root of this name."""

    root: str
    path: Path


@dataclass(eq=False, slots=True)
class Visit:
    """One thread's stay in a place on behalf of a call. It is counted once at most.

    ``ended`` goes from False to True once, and ``depth`` only grows, both under the breaker's lock.
    ``depth`` is the length of the shortest beginning of the path that is not known to work, or 0 if
    nothing is known.
    """

    place: WorkPlace
    call: object
    ended: bool = False
    depth: int = 0


@dataclass(slots=True)
class _Pause:
    """The time of the next trial, and the number of trials so far."""

    end: float = 0.0
    trials: int = 0

    def begin(self, now: float) -> None:
        doublings = max(self.trials - STEADY_TRIALS, 0)
        self.end = now + PAUSE_SECONDS * 2.0 ** min(doublings, STEADY_TRIALS)


@dataclass(slots=True)
class _Blockage:
    """The visits that are stuck in a root.

    ``lost`` are the visits whose thread got stuck and has not come back. ``counted`` are the lost
    visits that something is still blamed for. ``pauses`` are by the folder that is tried.
    """

    lost: set[Visit] = field(default_factory=set[Visit])
    counted: set[Visit] = field(default_factory=set[Visit])
    pauses: dict[Path, _Pause] = field(default_factory=dict[Path, _Pause])

    @property
    def is_crowded(self) -> bool:
        """Whether so many threads are lost that each further one is too many."""
        return len(self.lost) >= LOST_THREADS

    def find_blamed(self, visit: Visit) -> Path:
        """Return the folder or file that is blamed for a stuck visit."""
        folder_depth = len(visit.place.path) - 1
        depth = visit.depth

        if self.is_crowded:
            depth = min(depth, 1, folder_depth)
        elif not depth:
            depth = min(1, folder_depth)

        return visit.place.path[:depth]

    def list_blaming(self, path: Path) -> list[Visit]:
        """Return the visits for which a path is blamed, or a folder that contains it."""
        return [visit for visit in self.counted if _contains(self.find_blamed(visit), path)]

    def is_refused(self, path: Path, call: object) -> bool:
        """Return whether too much is stuck there. A few threads of the call itself are ignored."""
        blaming = self.list_blaming(path)
        if self.is_crowded or len(blaming) >= STUCK_THREADS:
            return bool(blaming)

        others = {visit.call for visit in blaming} - {call}
        return len(others) >= STUCK_CALLS

    def begin_trial(self, path: Path, now: float) -> bool:
        """Begin a trial unless there was one recently; return whether it began.

        While few threads are stuck, the folders below the blamed one are tried separately.
        Otherwise callers that ask for a dead folder could use up the trials of a working one.
        """
        blamed = [self.find_blamed(visit) for visit in self.list_blaming(path)]
        folder = min(blamed, key=len)
        if len(blamed) < STUCK_THREADS and not self.is_crowded:
            folder = _extend(max(blamed, key=len), path)

        pause = self.pauses.setdefault(folder, _Pause())
        if now < pause.end:
            return False

        pause.trials += 1
        pause.begin(now)
        return True

    def blame_less(self, path: Path) -> None:
        """Stop blaming everything that must work, because work in a path succeeded."""
        for visit in tuple(self.counted):
            # With so many lost threads, all that is blamed counts as working again, or nothing.
            is_cleared = self.is_crowded and _contains(self.find_blamed(visit), path)

            common = 0
            for name, other in zip(visit.place.path, path, strict=False):
                if name != other:
                    break
                common += 1

            visit.depth = max(visit.depth, common + 1)
            if is_cleared or common == len(visit.place.path):
                self.counted.discard(visit)

        if not self.is_crowded:
            for depth in range(len(path) + 1):
                self.pauses.pop(path[:depth], None)


class CircuitBreaker:
    """Remembers the visits that are stuck, and refuses work in places where too many are.

    A thread that works in a place holds a `Visit`, from `enter` to `leave`. Calls are counted and
    not only threads, because one call may get stuck on several threads. A call's own threads do not
    count against it until they are many, so that its other items are tried.

    A place recovers in one of two ways: stuck threads come back and leave, or a trial succeeds. A
    trial is needed for threads that never come back from a place that works again.

    Safe to use from any thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._blockages: dict[str, _Blockage] = {}  # only of roots in which threads are lost

    def __len__(self) -> int:
        """Return the number of roots in which threads are stuck."""
        return len(self._blockages)

    def count_lost(self) -> int:
        """Return the number of threads that are stuck."""
        with self._lock:
            return sum(len(blockage.lost) for blockage in self._blockages.values())

    def enter(self, place: WorkPlace, call: object) -> Visit | None:
        """Begin a visit, which the caller ends with `leave`; return None if work is refused."""
        with self._lock:
            blockage = self._blockages.get(place.root)
            if (
                blockage is not None
                and blockage.is_refused(place.path, call)
                and not blockage.begin_trial(place.path, self._clock())
            ):
                return None

            return Visit(place, call)

    def count_stuck(self, visit: Visit) -> None:
        """Count a visit as stuck until it ends, unless it has ended meanwhile."""
        with self._lock:
            if visit.ended:
                return

            blockage = self._blockages.setdefault(visit.place.root, _Blockage())
            # While work is refused, only trials begin pauses, because others may be counted late.
            if not blockage.is_refused(visit.place.path, None):
                blamed = blockage.find_blamed(visit)
                for folder in (blamed, _extend(blamed, visit.place.path)):
                    blockage.pauses.setdefault(folder, _Pause()).begin(self._clock())

            blockage.lost.add(visit)
            blockage.counted.add(visit)

    def confirm(self, visit: Visit) -> None:
        """Blame less for stuck threads, because work in a visit's place succeeded."""
        with self._lock:
            blockage = self._blockages.get(visit.place.root)
            if blockage is not None:
                blockage.blame_less(visit.place.path)

    def leave(self, visit: Visit, *, has_worked: bool = False) -> None:
        """End a visit, which then no longer counts as stuck; confirm it if it has worked."""
        root = visit.place.root
        with self._lock:
            visit.ended = True
            blockage = self._blockages.get(root)
            if blockage is None:
                return

            if has_worked:
                blockage.blame_less(visit.place.path)
            blockage.lost.discard(visit)
            blockage.counted.discard(visit)
            if not blockage.lost:
                del self._blockages[root]


def _contains(folder: Path, path: Path) -> bool:
    """Return whether a path is a folder, or is in it."""
    return path[: len(folder)] == folder


def _extend(folder: Path, path: Path) -> Path:
    """Return the folder one name closer to a path, or the same folder if there is none."""
    depth = min(len(folder) + 1, len(path) - 1)
    return path[: max(depth, len(folder))]
