"""Calls: the task of an event loop waits for what another thread does."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.threads.turns import take_turn

Result = TypeVar("Result")
WorkT = TypeVar("WorkT")
Settlement = tuple["asyncio.Future[Any]", object]
"""A caller's future, and the result or exception for it."""


class Call(Generic[WorkT, Result]):
    """Work that another thread does, and the outcome that the current event loop waits for.

    ``outcome`` belongs to that loop. All methods but `wait` may be called on any thread.
    """

    def __init__(self, work: WorkT) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[Result] = self.loop.create_future()
        self.begun_by: object | None = None
        self._is_given_up = False
        self._lock = threading.Lock()

    def begin(self, by: object) -> bool:
        """Begin the work, or begin it again; False if another one does, or if it was given up."""
        with self._lock:
            if self.begun_by is None and not self._is_given_up:
                self.begun_by = by

            return self.begun_by is by

    def give_up(self) -> bool:
        """Let the work never begin; return False if it has begun already."""
        with self._lock:
            self._is_given_up = True
            return self.begun_by is None

    def settle(self, result: Result) -> None:
        """Hand a result to the caller, unless nobody waits for it any more."""
        self._call_soon(_set_result, self.outcome, result)

    def fail(self, error: Exception) -> None:
        """Hand an exception to the caller, unless nobody waits for it any more."""
        self._call_soon(_set_exception, self.outcome, error)

    async def wait(self, seconds: float | None = None) -> Result:
        """Return the result, or raise the exception, when it is the caller's turn to go on.

        Cancelling the wait does not cancel the work. Raises Refused("busy") if the work has not
        begun after some seconds; then it never begins.
        """
        timer = None
        if seconds is not None:
            timer = self.loop.call_later(seconds, self._lose_patience)

        try:
            result = await self.outcome
        finally:
            if timer is not None:
                timer.cancel()

        await take_turn()
        return result

    def _lose_patience(self) -> None:
        if self.give_up():
            _set_exception(self.outcome, Refused("busy"))

    def _call_soon(self, function: Any, *args: object) -> None:
        with suppress(RuntimeError):  # the loop may be closed by now: nobody waits
            self.loop.call_soon_threadsafe(function, *args)


def settle_all(calls: Sequence[Call[Any, Any]], results: Sequence[object]) -> None:
    """Hand a result or an exception to each call, waking each event loop only once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settlement]] = {}
    for call, result in zip(calls, results, strict=True):
        by_loop.setdefault(call.loop, []).append((call.outcome, result))

    for loop, settlements in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_each, settlements)


def _settle_each(settlements: Sequence[Settlement]) -> None:
    for outcome, result in settlements:
        if isinstance(result, Exception):
            _set_exception(outcome, result)
        else:
            _set_result(outcome, result)


def _set_result(outcome: "asyncio.Future[Result]", result: Result) -> None:
    if not outcome.done():  # its caller may have been cancelled
        outcome.set_result(result)


def _set_exception(outcome: "asyncio.Future[Any]", error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)
