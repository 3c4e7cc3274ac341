"""The circuit breaker in every order of events: nothing stays refused, nothing stays counted."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from abilities.helpers.threads.circuit_breaker import (
    PAUSE_SECONDS,
    STUCK_CALLS,
    STUCK_THREADS,
    CircuitBreaker,
    Visit,
    WorkPlace,
)
from tests.support.stalls import Clock
from tests.support.tier import size

ROOTS = ("/agents/ada", "/agents/bob", "/workspace")
PATHS = (("",), ("a.txt",), ("mnt", ""), ("mnt", "a.txt"), ("mnt", "b", "c.txt"), ("src", "d.txt"))
PLACES = [WorkPlace(root, path) for root in ROOTS for path in PATHS]


class BreakerMachine(RuleBasedStateMachine):
    """Threads of many calls come, get stuck, come back late or never, and time passes.

    Each event is what a worker does to its breaker. A call may visit a place on several threads,
    and be counted after its thread has left: whoever gives it up acts on another thread.
    """

    visits = Bundle("visits")
    gone = Bundle("gone")

    @initialize()
    def open(self) -> None:
        self.clock = Clock()
        self.breaker = CircuitBreaker(self.clock)
        self.present: set[Visit] = set()
        self.stuck: set[Visit] = set()

    @rule(target=visits, place=st.sampled_from(PLACES), call=st.integers(0, 12))
    def enter(self, place: WorkPlace, call: int) -> object:
        visit = self.breaker.enter(place, call)
        if visit is None:
            others = {visit.call for visit in self.list_stuck(place.root)} - {call}

            assert len(others) >= STUCK_CALLS, "only stuck calls of others refuse"
            return multiple()

        self.present.add(visit)
        return visit

    @rule(visit=visits)
    def get_stuck(self, visit: Visit) -> None:
        self.breaker.count_stuck(visit)
        if visit in self.present:
            self.stuck.add(visit)

    @rule(visit=visits)
    def succeed(self, visit: Visit) -> None:
        if visit not in self.stuck:
            self.breaker.confirm(visit)

    @rule(target=gone, visit=consumes(visits))
    def leave(self, visit: Visit) -> Visit:
        self.breaker.leave(visit)
        self.present.discard(visit)
        self.stuck.discard(visit)
        return visit

    @rule(visit=gone)
    def count_late(self, visit: Visit) -> None:
        self.breaker.count_stuck(visit)

    @rule(visit=gone)
    def leave_again(self, visit: Visit) -> None:
        self.breaker.leave(visit)

    @rule(seconds=st.sampled_from([0.1, PAUSE_SECONDS / 2, PAUSE_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(place=st.sampled_from(PLACES))
    def work_again_after_the_pause(self, place: WorkPlace) -> None:
        """The place works again; its lost threads may stay away for good."""
        self.clock.now += PAUSE_SECONDS
        first = self.breaker.enter(place, "first")

        assert first is not None, "a trial is let in after each pause"

        self.breaker.confirm(first)
        self.breaker.leave(first)
        visits = [self.breaker.enter(place, call) for call in ("second", "third")]
        for visit in visits:
            assert visit is not None, "the success has closed the breaker there"

            self.breaker.leave(visit)

    @invariant()
    def nobody_is_refused_where_too_few_are_stuck(self) -> None:
        for place in PLACES:
            calls = {visit.call for visit in self.list_stuck(place.root)}
            if len(calls) >= STUCK_CALLS or len(self.stuck) >= STUCK_THREADS:
                continue

            visit = self.breaker.enter(place, "another")

            assert visit is not None

            self.breaker.leave(visit)

    @invariant()
    def only_stuck_threads_are_remembered(self) -> None:
        assert len(self.breaker) == len({visit.place.root for visit in self.stuck})
        assert self.breaker.count_lost() == len(self.stuck)

    def list_stuck(self, root: str) -> list[Visit]:
        return [visit for visit in self.stuck if visit.place.root == root]

    def teardown(self) -> None:
        """When every thread has come back, nothing is left, and files answer at once."""
        for visit in self.present:
            self.breaker.leave(visit)

        assert len(self.breaker) == 0


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(
    max_examples=size("ABILITIES_EXAMPLES", quick=50, full=500),
    stateful_step_count=40,
    deadline=None,
)
