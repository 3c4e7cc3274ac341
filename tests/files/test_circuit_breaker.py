"""The circuit breaker: what it blames, how many threads that costs, and when it tries again.

In every order of events nothing stays refused, and nothing stays counted.
"""

from collections.abc import Iterator
from itertools import count

import pytest
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
    LOST_THREADS,
    PAUSE_SECONDS,
    STEADY_TRIALS,
    STUCK_CALLS,
    STUCK_THREADS,
    CircuitBreaker,
    Visit,
    WorkPlace,
)
from tests.support.stalls import Clock
from tests.support.tier import size

FILES = size("ABILITIES_DEAD_FILES", quick=200, full=1_000)
DAY = 86_400.0


class Drive:
    """A root whose files work or hang, and the calls that read them through one breaker."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.breaker = CircuitBreaker(self.clock)
        self.stuck: list[Visit] = []
        self._calls: Iterator[int] = count()

    def get_stuck(self, path: str, *, call: object = None, calls: int = 1) -> int:
        """Let calls hang in a file; return how many were let in to do so."""
        visits: list[Visit] = []
        for _ in range(calls):
            visit = self.breaker.enter(make_place(path), call or next(self._calls))
            if visit is not None:
                visits.append(visit)
                self.breaker.count_stuck(visit)

        self.stuck += visits
        return len(visits)

    def read(self, path: str) -> bool:
        """Let one call read a file that works; return whether it was let in."""
        visit = self.breaker.enter(make_place(path), next(self._calls))
        if visit is None:
            return False

        self.breaker.confirm(visit)
        self.breaker.leave(visit)
        return True

    def wait(self) -> None:
        self.clock.now += PAUSE_SECONDS


def make_place(path: str) -> WorkPlace:
    return WorkPlace("/workspace", tuple(path.split("/")))


@pytest.fixture
def drive() -> Drive:
    return Drive()


def test_calls_are_refused_in_a_folder_in_which_enough_others_are_stuck(drive: Drive) -> None:
    assert drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS - 1) == STUCK_CALLS - 1
    assert drive.get_stuck("mnt/b.txt") == 1, "so far too few are stuck"
    assert drive.get_stuck("mnt/c.txt", calls=3) == 0


def test_a_calls_own_threads_do_not_count_until_they_are_many(drive: Drive) -> None:
    assert drive.get_stuck("mnt/a.txt", call="greedy", calls=100) == STUCK_THREADS
    assert not drive.read("mnt/b.txt")


@pytest.mark.parametrize(
    ("works", "refused", "answered"),
    [
        ("src/main.py", ["mnt/a/b.txt", "mnt/a/e.txt", "mnt/f/g.txt", "mnt/h.txt"], ["i.txt"]),
        ("mnt/c.txt", ["mnt/a/b.txt", "mnt/a/e.txt", "mnt/a/f/g.txt"], ["mnt/h.txt", "mnt/f/g"]),
        ("mnt/a/d.txt", ["mnt/a/b.txt"], ["mnt/a/e.txt", "mnt/h.txt"]),
    ],
)
def test_a_success_nearby_narrows_what_is_blamed(
    works: str, refused: list[str], answered: list[str], drive: Drive
) -> None:
    drive.get_stuck("mnt/a/b.txt", calls=STUCK_CALLS)
    if not drive.read(works):
        drive.wait()
        assert drive.read(works)

    for path in answered:
        assert drive.read(path), path

    for path in refused:
        drive.get_stuck(path)  # the first trial, if this file or folder had none
        assert not drive.read(path), path


def test_a_success_in_the_same_file_clears_it(drive: Drive) -> None:
    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    assert not drive.read("mnt/a.txt")

    drive.wait()
    assert drive.read("mnt/a.txt")
    assert drive.get_stuck("mnt/a.txt") == 1, "it is let in again, and not as a trial"
    assert drive.read("mnt/a.txt")
    assert drive.breaker.count_lost() == STUCK_CALLS + 1, "the threads are away nevertheless"


def test_a_file_of_the_root_is_blamed_on_it_until_something_works_there(drive: Drive) -> None:
    drive.get_stuck("a.txt", calls=STUCK_CALLS)
    assert not drive.read("b.txt")
    assert drive.read("src/main.py"), "a folder is tried on its own"
    assert drive.read("b.txt")
    assert drive.get_stuck("a.txt", calls=3) == 1, "the first trial of this file alone"


def test_one_trial_is_let_in_at_a_time(drive: Drive) -> None:
    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    for _ in range(5):
        assert not drive.read("mnt/b.txt")

        drive.wait()
        assert drive.get_stuck("mnt/b.txt", calls=3) == 1


def test_a_pause_begins_with_the_last_call_that_got_stuck_not_one_counted_late(
    drive: Drive,
) -> None:
    late = drive.breaker.enter(make_place("mnt/a.txt"), "late")
    for _ in range(STUCK_CALLS):
        drive.clock.now += PAUSE_SECONDS / 2
        drive.get_stuck("mnt/a.txt")

    drive.clock.now += PAUSE_SECONDS / 2
    assert late is not None
    drive.breaker.count_stuck(late)
    assert not drive.read("mnt/a.txt")

    drive.clock.now += PAUSE_SECONDS / 2
    assert drive.read("mnt/a.txt")


def test_who_asks_for_what_is_dead_uses_up_no_trial_of_what_is_not(drive: Drive) -> None:
    drive.get_stuck("src/mnt/a.txt", calls=STUCK_CALLS)
    for _ in range(10):
        drive.wait()
        assert drive.get_stuck("src/mnt/b.txt") == 1
    assert drive.read("src/lib/main.py")


def test_folders_beside_stuck_ones_are_tried_alone_only_while_few_are_stuck(drive: Drive) -> None:
    names = [f"mnt/{n}/a.txt" for n in range(1_000)]

    assert sum(drive.get_stuck(name) for name in names) == STUCK_THREADS

    drive.wait()
    assert sum(drive.get_stuck(name) for name in names) == 1


def test_a_drive_that_stays_dead_for_a_year_costs_few_threads(drive: Drive) -> None:
    drive.get_stuck("mnt/a.txt", call="greedy", calls=STUCK_THREADS)
    while drive.clock.now < 365 * DAY:
        drive.clock.now += max(PAUSE_SECONDS, drive.clock.now / 100)
        drive.get_stuck("mnt/a.txt", calls=3)
    assert len(drive.stuck) <= STUCK_THREADS + STEADY_TRIALS + 25 < LOST_THREADS


def test_trials_of_a_minute_follow_each_other_at_the_same_pace(drive: Drive) -> None:
    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    for _ in range(STEADY_TRIALS):
        drive.wait()
        assert drive.get_stuck("mnt/a.txt") == 1

    drive.wait()
    assert drive.get_stuck("mnt/a.txt") == 1
    drive.wait()
    assert drive.get_stuck("mnt/a.txt") == 0, "from now on each pause is twice as long"
    drive.wait()
    assert drive.get_stuck("mnt/a.txt") == 1


def test_a_success_makes_the_pauses_short_again(drive: Drive) -> None:
    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    for _ in range(STEADY_TRIALS + 5):
        drive.clock.now += DAY
        drive.get_stuck("mnt/a.txt")

    drive.clock.now += DAY
    assert drive.read("mnt/a.txt")

    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    drive.wait()
    assert drive.read("mnt/a.txt")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dead", ["mnt/{}/dead.txt", "mnt/{}.txt", "{}.txt"])
@pytest.mark.parametrize("healthy", ["mnt/{}/healthy.txt", "mnt/healthy.txt", "healthy.txt"])
@pytest.mark.parametrize("is_healthy_first", [True, False])
def test_a_drive_of_which_many_files_are_dead_costs_a_bounded_number_of_threads(
    dead: str, healthy: str, is_healthy_first: bool, drive: Drive
) -> None:
    for n in range(FILES):
        drive.wait()
        if is_healthy_first:
            drive.read(healthy.format(n))

        drive.get_stuck(dead.format(n), calls=STUCK_CALLS)
        drive.read(healthy.format(n))
    assert len(drive.stuck) <= LOST_THREADS + 50


def test_where_many_threads_are_lost_files_that_work_again_are_answered(drive: Drive) -> None:
    names = [f"mnt/{n}/a.txt" for n in range(LOST_THREADS)]
    for name in names:
        drive.get_stuck(name)
        drive.read(name.replace("a.txt", "b.txt"))
    assert drive.breaker.count_lost() == LOST_THREADS

    drive.wait()
    assert drive.read(names[0])
    assert all(drive.read(name) for name in names), "one success is enough"
    assert drive.get_stuck(names[0]) == 1
    assert not drive.read(names[1]), "and one stuck thread too many"


def test_pauses_end_with_what_they_were_for(drive: Drive) -> None:
    drive.get_stuck("other.txt")
    drive.read("src/main.py")
    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    for visit in drive.stuck[1:]:
        drive.breaker.leave(visit)

    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    drive.wait()
    assert drive.read("mnt/a.txt")


def test_a_place_that_has_worked_when_it_is_left_works(drive: Drive) -> None:
    drive.get_stuck("mnt/a.txt", calls=STUCK_CALLS)
    drive.wait()
    trial = drive.breaker.enter(make_place("mnt/b.txt"), "trial")
    assert trial is not None

    drive.breaker.leave(trial, has_worked=True)
    assert drive.read("mnt/c.txt"), "only the one file is blamed"


def test_a_thread_that_comes_back_before_it_is_counted_is_not_counted() -> None:
    breaker = CircuitBreaker()
    visit = Visit(WorkPlace("/root", ("a.txt",)), call=1)

    breaker.leave(visit)
    breaker.count_stuck(visit)

    assert breaker.count_lost() == len(breaker) == 0


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
    max_examples=size("ABILITIES_EXAMPLES", quick=50, full=500), stateful_step_count=40
)
