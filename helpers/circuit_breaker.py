"""Refuse work at once if too many calls are stuck in the same place, such as a dead drive."""

import threading
from collections import Counter

STUCK_CALLS = 4
"""Calls that may leave a stuck thread behind in a place before work there is refused untried."""


class CircuitBreaker:
    """Counts, per place, the calls that have left a stuck thread behind there.

    A call is known by a number of its own. Calls are counted, not threads, because one call may get
    stuck on several threads. A call's own threads do not count against it, so that its other items
    are tried. Safe to use from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stuck_threads: dict[str, Counter[int]] = {}

    def is_open(self, place: str, call: int) -> bool:
        """Return whether a call's work in this place is to be refused untried."""
        with self._lock:
            calls = self._stuck_threads.get(place)
            if calls is None:
                return False

            others = len(calls) - (call in calls)
            return others >= STUCK_CALLS

    def add(self, place: str, call: int) -> None:
        """Count a thread that a call left behind in this place."""
        with self._lock:
            self._stuck_threads.setdefault(place, Counter())[call] += 1

    def remove(self, place: str, call: int) -> None:
        """Count a thread no more, because it came back. Each was added before."""
        with self._lock:
            calls = self._stuck_threads[place]
            calls[call] -= 1
            if not calls[call]:
                del calls[call]
