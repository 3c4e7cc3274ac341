"""Stalls: system calls that hang beneath a path, as on a drive that stopped answering."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from abilities.helpers.threads.circuit_breaker import CircuitBreaker
from tests.support.waiting import wait_until

SystemCall = Literal["open", "read", "scandir"]


NEVER = 3600.0
"""Seconds that no test takes: a limit that is not reached."""

SOON = 0.1
"""Seconds after which a thread counts as stuck where a test does not care which ones do."""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stall:
    """System calls hang beneath a path while it is on; those that hang may never come back.

    ``most`` is how many threads hung at the same time.
    """

    def __init__(self, name: SystemCall, path: Path) -> None:
        self.is_on = True
        self.hanging = 0
        self.most = 0
        self._name = name
        self._path = path
        self._lock = threading.Lock()
        self._released = threading.Event()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        call = getattr(os, self._name)

        def call_or_hang(subject: Any, *rest: Any, **more: Any) -> Any:
            if self.is_on and self._affects(subject, more.get("dir_fd")):
                self._hang()
            return call(subject, *rest, **more)

        patch.setattr(os, self._name, call_or_hang)

    def end(self) -> None:
        """Let new calls through. Threads that hang stay away."""
        self.is_on = False

    def release(self) -> None:
        """Let the threads that hang come back, and none hang any more."""
        self.is_on = False
        self._released.set()

    async def wait_for_threads(self, count: int) -> None:
        await wait_until(lambda: self.hanging >= count)

    def _affects(self, subject: Any, folder: int | None) -> bool:
        path = subject
        if isinstance(subject, int):
            path = os.readlink(f"/proc/self/fd/{subject}")
        elif folder is not None:
            path = Path(os.readlink(f"/proc/self/fd/{folder}"), subject)
        return Path(path).is_relative_to(self._path)

    def _hang(self) -> None:
        with self._lock:
            self.hanging += 1
            self.most = max(self.most, self.hanging)
        self._released.wait()
        with self._lock:
            self.hanging -= 1


@contextmanager
def stalling(patch: pytest.MonkeyPatch, name: SystemCall, path: Path) -> Iterator[Stall]:
    """Let a system call hang beneath a path; in the end all threads come back."""
    stall = Stall(name, path.resolve())
    with patch.context() as own:
        stall.install(own)
        try:
            yield stall
        finally:
            stall.release()


@contextmanager
def item_seconds(patch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    with patch.context() as own:
        own.setattr("abilities.helpers.threads.workers.ITEM_SECONDS", seconds)
        if seconds == NEVER:
            own.setattr("abilities.helpers.threads.workers.CALL_SECONDS", seconds)
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    breaker = partial(CircuitBreaker, clock)
    monkeypatch.setattr("abilities.helpers.threads.workers.CircuitBreaker", breaker)
    return clock
