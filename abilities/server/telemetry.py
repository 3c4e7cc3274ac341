"""What is seen of each call: a line in the log, figures for Prometheus, a span; never content, keys or paths."""

import logging
import re
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple
from uuid import uuid4

from opentelemetry import context, propagate, trace
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from abilities.declarations.values import as_object
from abilities.replies import Reply

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that is answered; for the log alone."""

_log = logging.getLogger("abilities.calls")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BYTES = (256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)
_DEPTHS = (0, 1, 2, 3, 4, 5, 6)
_LISTS = ("results", "associatedMemories", "memories", "files", "failed")
"""Where answers hold the items that were asked for or found."""


def begin_request(headers: Mapping[str, Sequence[str]]) -> str:
    """Begin a request: its trace goes on, and its id is the caller's own, where that is a plain one, or a new one."""
    context.attach(propagate.extract({name: values[0] for name, values in headers.items()}))
    given = headers.get("x-request-id", [""])[0]
    request_id.set(given if _REQUEST_ID.fullmatch(given) else uuid4().hex)
    return request_id.get()


class CallMetrics(NamedTuple):
    """What a payload says about itself: its items, what failed by code, what was cut, how deep a walk went."""

    items: int
    faults: Tally[str]
    truncated: int
    depth: int | None

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> "CallMetrics":
        """Counts over a payload and over all records in it."""
        listed = (payload[name] for name in _LISTS if isinstance(payload.get(name), list))
        records = [
            record
            for values in listed
            for value in values
            if (record := as_object(value)) is not None
        ]
        single = as_object(payload.get("targetMemory")) or payload
        whole = [single, *records]
        return cls(
            items=len(records) + ("data" in single),
            faults=Tally(
                fault["code"]
                for part in whole
                if (fault := as_object(part.get("error"))) is not None
            ),
            truncated=sum("truncation" in part for part in whole),
            depth=(as_object(payload.get("metadata")) or {}).get("depthReached"),
        )


class Telemetry:
    """Stands around every call of a server; ``metrics`` tells what it counted."""

    def __init__(self, known: Container[str], waiting: Callable[[], int]) -> None:
        self._known = known
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        named, kept = ["ability"], self._registry
        self._calls = Counter("abilities_calls", "Calls.", named, registry=kept)
        self._items = Counter(
            "abilities_items", "Records and memories in answers.", named, registry=kept
        )
        self._faults = Counter(
            "abilities_faults", "Failed calls and items.", [*named, "code"], registry=kept
        )
        self._truncations = Counter(
            "abilities_truncations", "Contents that were cut.", named, registry=kept
        )
        self._seconds = Histogram(
            "abilities_call_seconds", "Time of a call.", named, registry=kept, buckets=_SECONDS
        )
        self._bytes = Histogram(
            "abilities_reply_bytes", "Size of an answer.", named, registry=kept, buckets=_BYTES
        )
        self._depth = Histogram(
            "abilities_walk_depth", "Depth a walk reached.", registry=kept, buckets=_DEPTHS
        )
        self._in_flight = Gauge("abilities_calls_in_flight", "Calls being answered.", registry=kept)
        Gauge(
            "abilities_store_queue", "Calls that wait for the store.", registry=kept
        ).set_function(waiting)

    async def observe(self, name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Make a call and take notice of it."""
        ability = name if name in self._known else "unknown"
        began = time.perf_counter()
        with (
            self._in_flight.track_inprogress(),
            trace.get_tracer("abilities").start_as_current_span(ability) as span,
        ):
            reply = await call()
            figures = CallMetrics.from_payload(reply.payload)
            size, seconds = len(reply.text.encode()), time.perf_counter() - began
            span.set_attributes({"abilities.items": figures.items, "abilities.bytes": size})
            span.set_attributes(
                {f"abilities.faults.{code}": number for code, number in figures.faults.items()}
            )
            if reply.failed:
                span.set_status(trace.StatusCode.ERROR, reply.payload["error"]["reason"])
        self._count(ability, figures, size, seconds)
        seen = {
            "ability": ability,
            "items": figures.items,
            "faults": dict(figures.faults),
            "bytes": size,
        }
        _log.info(
            "call", extra={**seen, "ms": round(seconds * 1000, 2), "request_id": request_id.get()}
        )
        return reply

    def metrics(self) -> bytes:
        """The figures in Prometheus' text format."""
        return generate_latest(self._registry)

    def _count(self, ability: str, figures: CallMetrics, size: int, seconds: float) -> None:
        self._calls.labels(ability).inc()
        self._items.labels(ability).inc(figures.items)
        self._truncations.labels(ability).inc(figures.truncated)
        self._seconds.labels(ability).observe(seconds)
        self._bytes.labels(ability).observe(size)
        for code, number in figures.faults.items():
            self._faults.labels(ability, code).inc(number)
        if figures.depth is not None:
            self._depth.observe(figures.depth)
