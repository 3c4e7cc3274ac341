"""Fair shares of a limited number of places.

The rule knows nothing of requests and reads no clock of its own.
"""

from collections import Counter
from collections.abc import Callable, Hashable

MEMORY_SECONDS = 1.0
"""How long a caller counts after it was last seen, and how long a refusal makes callers share."""


class Shares:
    """A limited number of places, which callers share only while somebody has to go without.

    One caller may hold all places. From a refusal on, each caller may hold its share, ``size``
    divided by the number of callers, rounded up, until a second has passed without another refusal.
    The callers are those that held a place or were refused one within the last second.

    Who holds more than its share keeps it: nothing that has begun is stopped. So that others do not
    wait for its end, a caller who is known gets its share even if all places are taken; together
    callers hold twice ``size`` at most.

    For one thread: there is no lock. ``clock`` returns seconds and never goes back.
    """

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._held: Counter[Hashable] = Counter()
        self._total = 0
        self._seen: dict[Hashable, float] = {}
        self._last_refusal = float("-inf")

    def take(self, caller: Hashable, *, is_known: bool) -> bool:
        """Take a place for a caller, and return True; return False if it has to come again."""
        now = self._clock()
        self._note(caller, now)

        if not self._has_room(caller, now, is_known=is_known):
            self._last_refusal = now
            return False

        self._held[caller] += 1
        self._total += 1
        return True

    def give_back(self, caller: Hashable) -> None:
        """Free one of the places that a caller has taken."""
        self._held[caller] -= 1
        self._total -= 1
        self._note(caller, self._clock())

    def _has_room(self, caller: Hashable, now: float, *, is_known: bool) -> bool:
        held = self._held[caller]
        is_within_share = held < -(-self._size // len(self._seen))

        if self._total >= self._size:
            return is_known and is_within_share and self._total < 2 * self._size

        is_sharing = now - self._last_refusal < MEMORY_SECONDS
        return is_within_share or (not is_sharing and held < self._size)

    def _note(self, caller: Hashable, now: float) -> None:
        """Note that a caller was seen, and forget those that were not for a second.

        The dictionary is in the order in which callers were last seen. Whoever holds a place is
        never forgotten.
        """
        self._seen.pop(caller, None)
        self._seen[caller] = now

        while True:
            oldest, seen = next(iter(self._seen.items()))
            if now - seen < MEMORY_SECONDS:
                return

            del self._seen[oldest]

            if self._held[oldest]:
                self._seen[oldest] = now
            else:
                del self._held[oldest]
