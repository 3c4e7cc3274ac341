"""Telemetry of each call: a line in the log, metrics for Prometheus, a span.

None of them ever holds content, keys or paths. The line names the caller: its namespace, and the id
and label of its token; that of a write also names who the history says made it.
"""

import logging
import re
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from uuid import uuid4

from opentelemetry import context, propagate, trace

from abilities.declarations.values import JsonObject, text_size
from abilities.registry import Reply
from abilities.server.callers import UNKNOWN_CALLER, current_caller
from abilities.server.metrics import CallMetrics, ServerMetrics

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that is being answered; only for the log."""

_log = logging.getLogger("abilities.calls")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def begin_request(headers: Mapping[str, Sequence[str]]) -> str:
    """Begin a request: continue its trace, and return its id.

    The id is that of the caller's X-Request-Id header if it is plain (up to 64 letters, digits,
    '_', '.' or '-'), else a new one.
    """
    carrier = {name: values[0] for name, values in headers.items()}
    # Each request is a task with a context of its own, so nothing has to be detached or reset.
    context.attach(propagate.extract(carrier))

    name = carrier.get("x-request-id", "")
    if not _REQUEST_ID.fullmatch(name):
        name = uuid4().hex

    # Of requests that one connection sends at once, each one begins in the context of the last.
    current_caller.set(UNKNOWN_CALLER)
    request_id.set(name)
    return name


class Telemetry:
    """Observes every call of a server.

    ``known`` holds the names of the abilities: a call of any other name is counted as "unknown",
    so that callers cannot make up metrics. ``writes`` holds those that change something.
    ``count_waiting`` returns how many calls wait for the
    store at the moment, ``count_stuck`` how many threads are stuck in files.
    """

    def __init__(
        self,
        known: Container[str],
        writes: Container[str],
        count_waiting: Callable[[], int],
        count_stuck: Callable[[], int],
    ) -> None:
        self._known = known
        self._writes = writes
        self.metrics = ServerMetrics(count_waiting, count_stuck)

    async def observe(self, name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Make a call and record it: the `Middleware` around each call of the server."""
        ability = name if name in self._known else "unknown"
        caller = current_caller.get()
        tracer = trace.get_tracer("abilities")
        started = time.perf_counter()

        with (
            self.metrics.in_flight.track_inprogress(),
            tracer.start_as_current_span(ability) as span,
        ):
            reply = await call()

            metrics = CallMetrics.from_payload(reply.payload)
            size = text_size(reply.text)
            seconds = time.perf_counter() - started
            _describe_span(span, reply, metrics, size)

        self.metrics.count(caller.namespace, ability, metrics, size, seconds)
        details = caller.details
        if ability in self._writes:
            details["caller"] = caller.name
        _log_call(details, ability, metrics, size, seconds)
        return reply


def _describe_span(span: trace.Span, reply: Reply, metrics: CallMetrics, size: int) -> None:
    span.set_attribute("abilities.items", metrics.items)
    span.set_attribute("abilities.bytes", size)

    for code, number in metrics.faults.items():
        span.set_attribute(f"abilities.faults.{code}", number)

    if reply.failed:
        span.set_status(trace.StatusCode.ERROR, reply.payload["error"]["reason"])


def _log_call(
    caller: JsonObject, ability: str, metrics: CallMetrics, size: int, seconds: float
) -> None:
    details = {
        **caller,
        "ability": ability,
        "items": metrics.items,
        "faults": dict(metrics.faults),
        "bytes": size,
        "ms": round(seconds * 1000, 2),
        "request_id": request_id.get(),
    }
    _log.info("call", extra=details)
