"""Refuse work at once if too many calls are stuck in the same folder, such as a dead drive.

Nobody can tell from outside what is dead if a thread does not come back: the file, its folder or
the drive that the folder is on. So a stuck thread is blamed on much at first, and on less with each
success nearby:

====================================  ===========================================================
what has worked since in its root     what is blamed for a thread stuck in ``mnt/a/b.txt``
====================================  ===========================================================
nothing, or ``src/main.py``           everything in ``mnt``
``mnt/c.txt``                         everything in ``mnt/a``
``mnt/a/d.txt``                       ``mnt/a/b.txt`` alone
``mnt/a/b.txt``                       nothing; the thread is lost nevertheless
====================================  ===========================================================

A thread that is stuck in a file of the root itself is blamed on the whole root at first.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

STUCK_CALLS = 4
"""Calls that may leave a stuck thread behind in a folder before work there is refused untried."""

STUCK_THREADS = 32
"""Stuck threads of a folder, whatever their calls, after which work there is refused."""

LOST_THREADS = 128
"""Stuck threads of a root after which each top folder in which one is stuck is refused whole."""

PAUSE_SECONDS = 2.0
"""Between two trials: calls that are let into a refused folder, to learn whether it recovered."""

STEADY_TRIALS = 30
"""Trials of a dead folder after which each pause is twice as long as the one before.

A trial may cost another thread. So a folder that stays dead costs 25 more in a year, and one that
recovers is found so after at most as long as it was dead.
"""

Path = tuple[str, ...]
"""Names from a root to a file. The last is empty for the folder itself: its listing, for example.

A shorter one, down to none for the root itself, stands for a folder and everything in it.
"""


class WorkPlace(NamedTuple):
    """Where a thread may get stuck: a file or folder, in the root of this name."""

    root: str
    path: Path


@dataclass(eq=False, slots=True)
class Visit:
    """One thread's stay in a place on behalf of a call. It is counted once at most, as itself.

    ``ended`` goes from False to True once, on the visitor's thread. ``depth`` only grows, under the
    breaker's lock: of so many leading names of the path the last is not known to work.
    """

    place: WorkPlace
    call: object
    ended: bool = False
    depth: int = 0


@dataclass(slots=True)
class _Pause:
    """The time until the next trial, and how many there were."""

    end: float = 0.0
    trials: int = 0

    def begin(self, now: float) -> None:
        doublings = max(self.trials - STEADY_TRIALS, 0)
        self.end = now + PAUSE_SECONDS * 2.0 ** min(doublings, STEADY_TRIALS)


@dataclass(slots=True)
class _Blockage:
    """The visits that are stuck in a root.

    ``lost`` are those whose thread got stuck and has not come back. ``counted`` are those of them
    that something is still blamed for. ``pauses`` are by the folder that is tried.
    """

    lost: set[Visit] = field(default_factory=set[Visit])
    counted: set[Visit] = field(default_factory=set[Visit])
    pauses: dict[Path, _Pause] = field(default_factory=dict[Path, _Pause])

    @property
    def is_crowded(self) -> bool:
        """Whether so many threads are lost that each further one is too many."""
        return len(self.lost) >= LOST_THREADS

    def find_blamed(self, visit: Visit) -> Path:
        """Return what is blamed for a stuck visit, with everything in it."""
        folder_depth = len(visit.place.path) - 1
        depth = visit.depth

        if self.is_crowded:
            depth = min(depth, 1, folder_depth)
        elif not depth:
            depth = min(1, folder_depth)

        return visit.place.path[:depth]

    def list_blaming(self, path: Path) -> list[Visit]:
        """Return the visits for which a path is blamed, among others."""
        return [visit for visit in self.counted if _contains(self.find_blamed(visit), path)]

    def is_refused(self, path: Path, call: object) -> bool:
        """Return whether too much is stuck there. A few threads of the call itself are not."""
        blaming = self.list_blaming(path)
        if self.is_crowded or len(blaming) >= STUCK_THREADS:
            return bool(blaming)

        others = {visit.call for visit in blaming} - {call}
        return len(others) >= STUCK_CALLS

    def begin_trial(self, path: Path, now: float) -> bool:
        """Begin a trial unless there was one lately; return whether that happened.

        While few are stuck, folders beside theirs are tried on their own: else those who ask for
        what is dead could use up the trials of what is not.
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

    def begin_pauses(self, visit: Visit, now: float) -> None:
        """Let no trial in for a while where a visit got stuck."""
        blamed = self.find_blamed(visit)
        for folder in (blamed, _extend(blamed, visit.place.path)):
            self.pauses.setdefault(folder, _Pause()).begin(now)

    def blame_less(self, path: Path) -> None:
        """Blame nothing any more of what must work, because work in a path succeeded."""
        for visit in tuple(self.counted):
            # So many are lost that it takes all that is blamed to work again, or none of it.
            is_cleared = self.is_crowded and _contains(self.find_blamed(visit), path)

            common = _count_common(visit.place.path, path)
            visit.depth = max(visit.depth, common + 1)
            if is_cleared or common == len(visit.place.path):
                self.counted.discard(visit)

        if not self.is_crowded:
            self._forget_pauses(path)

    def forget(self, visit: Visit) -> None:
        """Forget a visit whose thread came back."""
        self.lost.discard(visit)
        self.counted.discard(visit)

    def _forget_pauses(self, path: Path) -> None:
        """Forget the pauses of each folder that a path lies in."""
        for depth in range(len(path) + 1):
            self.pauses.pop(path[:depth], None)


class CircuitBreaker:
    """Knows who is stuck where, and refuses work in a place where too many calls are.

    Whoever works in a place holds a `Visit`, from `enter` to `leave`. Calls are counted before
    threads, because one call may get stuck on several threads. A call's own threads do not count
    against it until they are many, so that its other items are tried.

    A place recovers in one of two ways: stuck threads come back and leave, or a trial succeeds.
    The latter is needed for threads that never come back from a place that works again. Safe to
    use from any thread.
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
        """Begin a visit, which the caller ends with `leave`. None if work there is refused."""
        # Without the lock, like most visits: this might as well have been a moment earlier.
        if place.root not in self._blockages:
            return Visit(place, call)

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
        """Count a visit until it ends. One that has ended meanwhile is not counted."""
        with self._lock:
            # In this order: `leave` sets the one first and looks for the other then, so that
            # either the blockage is seen there or the end is seen here.
            blockage = self._blockages.setdefault(visit.place.root, _Blockage())
            if visit.ended:
                self._forget_empty(visit.place.root)
                return

            # While work is refused, only trials begin pauses: others may be counted late.
            if not blockage.is_refused(visit.place.path, None):
                blockage.begin_pauses(visit, self._clock())

            blockage.lost.add(visit)
            blockage.counted.add(visit)

    def confirm(self, visit: Visit) -> None:
        """Blame stuck threads on less, because work has succeeded in a place."""
        # Without the lock: this follows each item, and hardly ever is anything stuck.
        if visit.place.root not in self._blockages:
            return

        with self._lock:
            blockage = self._blockages.get(visit.place.root)
            if blockage is not None:
                blockage.blame_less(visit.place.path)

    def leave(self, visit: Visit, *, has_worked: bool = False) -> None:
        """End a visit, and count it no more; one that has worked is confirmed."""
        visit.ended = True
        if visit.place.root not in self._blockages:
            return

        with self._lock:
            blockage = self._blockages.get(visit.place.root)
            if blockage is not None:
                if has_worked:
                    blockage.blame_less(visit.place.path)
                blockage.forget(visit)
                self._forget_empty(visit.place.root)

    def _forget_empty(self, root: str) -> None:
        """Forget the blockage of a root in which no thread is lost. The lock is held."""
        if not self._blockages[root].lost:
            del self._blockages[root]


def _contains(folder: Path, path: Path) -> bool:
    """Return whether a path is a folder, or lies in it."""
    return path[: len(folder)] == folder


def _extend(folder: Path, path: Path) -> Path:
    """Return the folder that is one name closer to a path, or the same if there is none."""
    depth = min(len(folder) + 1, len(path) - 1)
    return path[: max(depth, len(folder))]


def _count_common(one: Path, other: Path) -> int:
    """Return how many leading names two paths share."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1

    return count
