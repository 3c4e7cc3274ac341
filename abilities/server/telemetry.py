"""Telemetry of each call: a line in the log, metrics for Prometheus, and a span.

None of them ever contains content, keys or paths. The log has JSON lines on stderr: one per call,
per refused request and per problem. The line of a call names the caller's namespace and token; if
the call may change something, it also has the name that the history records.
"""

import collections
import json
import logging
import re
import sys
import time
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, TextIO, cast
from uuid import uuid4

import prometheus_client as prometheus
from opentelemetry import context, propagate, trace
from prometheus_client.registry import Collector
from pythonjsonlogger.orjson import OrjsonFormatter
from typing_extensions import override

from abilities.declarations.refusals import FAULTS
from abilities.declarations.values import JsonObject, as_object, escape_unseen, text_size
from abilities.helpers.reply.envelope import is_cut
from abilities.registry import Reply
from abilities.server.callers import UNKNOWN_CALLER, current_caller

MAX_REPEATS = 5
"""Lines of one kind and one caller that are written per second."""

MAX_NAMESPACES = 50
"""Namespaces with metrics of their own; the calls of further ones are counted together."""

OTHERS = "(others)"
"""The label of calls in further namespaces; no namespace has such a name."""

_CALLS = "abilities.calls"
_SUMMARY = {"name": "abilities", "levelno": logging.WARNING, "levelname": "WARNING"}
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_LISTS = ("results", "associatedMemories", "memories", "files", "failed")
"""The fields of answers with lists of records."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BYTES = (256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)
_DEPTHS = (0, 1, 2, 3, 4, 5, 6)

_log = logging.getLogger(_CALLS)

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the current request; only for the log."""


def begin_request(headers: Mapping[str, Sequence[str]]) -> str:
    """Begin a request: continue its trace, and return its id.

    The id is taken from the caller's X-Request-Id header if that is plain (up to 64 letters,
    digits, '_', '.' or '-'); else it is a new one.
    """
    carrier = {name: values[0] for name, values in headers.items()}
    # Each request is a task with its own context, so nothing has to be detached or reset.
    context.attach(propagate.extract(carrier))

    name = carrier.get("x-request-id", "")
    if not _REQUEST_ID.fullmatch(name):
        name = uuid4().hex

    # A pipelined request begins in the context of the previous one on its connection.
    current_caller.set(UNKNOWN_CALLER)
    request_id.set(name)
    return name


class _Formatter(OrjsonFormatter):
    """Formats every message as a line of JSON, whatever characters it has."""

    @override
    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        try:
            line = super().jsonify_log_record(log_data)
        except TypeError:  # a lone surrogate, which orjson cannot write
            line = json.dumps(log_data, default=str)

        # JSON does not escape all characters that control a terminal.
        return escape_unseen(line)


class LineLimit:
    """Admits the first lines of each kind in a second, and counts the others.

    ``clock`` returns seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._counts: dict[str, int] = {}

    def collect(self) -> dict[str, int]:
        """Return the number of lines left out by kind, if a second is over; then begin another."""
        now = self._clock()
        if now - self._began < 1:
            return {}

        counts = self._counts
        self._counts = {}
        self._began = now

        return {kind: n - MAX_REPEATS for kind, n in counts.items() if n > MAX_REPEATS}

    def admit(self, kind: str) -> bool:
        """Count a line of a kind, and return whether it may be written."""
        count = self._counts.get(kind, 0) + 1
        self._counts[kind] = count
        return count <= MAX_REPEATS


class _BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes the lines of calls, and as many others as the limit admits.

    With the first line after each second, it writes how many were left out.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._limit = LineLimit(time.monotonic)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        for kind, count in self._limit.collect().items():
            summary = {"msg": "lines left out", "kind": kind, "lines": count}
            super().emit(logging.makeLogRecord({**_SUMMARY, **summary}))

        # Lines of one kind have the same message, before values are inserted, and caller.
        kind = f"{record.name}: {record.msg}"[:100]
        token = getattr(record, "token", None)
        if token is not None:
            kind = f"{kind} ({token})"

        if record.name == _CALLS or self._limit.admit(kind):
            super().emit(record)


def log_to_stderr() -> None:
    """Send the log messages of the package and of uvicorn to stderr as lines of JSON.

    The package logs from INFO on, everything else from WARNING on.
    """
    formatter = _Formatter("%(levelname)s %(name)s %(message)s", timestamp=True)
    handler = _BoundedHandler()
    handler.setFormatter(formatter)

    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("abilities").setLevel(logging.INFO)


class CallMetrics(NamedTuple):
    """The numbers and codes of a call: never content, keys or paths.

    ``items`` counts records and memories, ``faults`` failures by code (of items and of the call
    itself), ``truncated`` contents that were cut. ``depth`` is the depth that a walk reached, None
    for any other call.
    """

    items: int
    faults: collections.Counter[str]
    truncated: int
    depth: int | None

    @classmethod
    def from_payload(cls, payload: JsonObject) -> "CallMetrics":
        """Count over a payload and all records in it."""
        records = list(_iterate_records(payload))
        single = as_object(payload.get("targetMemory")) or payload

        items = len(records) + ("data" in single or "content" in single)
        faults = collections.Counter[str]()
        truncated = 0

        for part in (single, *records):
            truncated += is_cut(part)

            fault = as_object(part.get("error"))
            reason = part.get("reason")
            if fault is not None:
                faults[str(fault["code"])] += 1
            elif isinstance(reason, str) and reason in FAULTS:  # a concise record
                faults[FAULTS[reason].code] += 1

        metadata = as_object(payload.get("metadata")) or {}
        depth = metadata.get("depthReached")
        if depth is None and "targetMemory" in payload:
            # A concise walk says its depth only by its records.
            depths = [record.get("depth") for record in records]
            depth = max((found for found in depths if isinstance(found, int)), default=0)

        return cls(items, faults, truncated, depth)


def _iterate_records(payload: JsonObject) -> Iterator[JsonObject]:
    """Yield the records in a payload; for a question, the memories that answer it."""
    for name in _LISTS:
        values = payload.get(name)
        if not isinstance(values, list):
            continue

        for value in cast(list[object], values):
            record = as_object(value)
            if record is None:
                continue

            answer = as_object(record.get("data")) or record
            if isinstance(answer.get("memories"), list):
                yield from _iterate_records({"memories": answer["memories"]})
            else:
                yield record


class _NamespaceMetrics(Collector):
    """The metrics of one namespace, by the label of each sample."""

    def __init__(self, registry: prometheus.CollectorRegistry, namespace: str) -> None:
        self._registry = registry
        self._namespace = namespace

    @override
    def collect(self) -> Iterator[prometheus.Metric]:
        for metric in self._registry.collect():
            samples = [
                sample
                for sample in metric.samples
                if sample.labels.get("namespace") == self._namespace
            ]
            if samples:
                metric.samples = samples
                yield metric


class Telemetry:
    """Observes every call of a server, and counts it: for each namespace, and for the process.

    ``known`` holds the names of the abilities: calls of other names are counted as "unknown", so
    that callers cannot invent metrics. ``writes`` holds the names of abilities that change
    something. At most `MAX_NAMESPACES` namespaces are distinguished. ``count_waiting`` returns the
    number of calls that wait for the store, ``count_stuck`` the number of threads that are stuck in
    files.
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
        self._namespaces: set[str] = set()
        # Not the process-wide registry, so that one process can have several applications.
        registry = prometheus.CollectorRegistry()
        self._registry = registry
        gauge = partial(prometheus.Gauge, registry=registry)
        counter = partial(prometheus.Counter, registry=registry)
        histogram = partial(prometheus.Histogram, registry=registry)

        prometheus.ProcessCollector(registry=registry)
        self._in_flight = gauge("abilities_calls_in_flight", "Calls being answered.")
        gauge("abilities_store_queue", "Calls that wait for the store.").set_function(count_waiting)
        gauge(
            "abilities_file_threads_stuck",
            "Threads that are stuck in files and folders that do not answer.",
        ).set_function(count_stuck)

        labels = ["namespace", "ability"]
        self._calls = counter("abilities_calls", "Calls.", labels)
        self._items = counter("abilities_items", "Records and memories in answers.", labels)
        self._faults = counter("abilities_faults", "Failed calls and items.", [*labels, "code"])
        self._truncations = counter("abilities_truncations", "Contents that were cut.", labels)
        self._seconds = histogram(
            "abilities_call_seconds", "Time of a call.", labels, buckets=_SECONDS
        )
        self._bytes = histogram(
            "abilities_reply_bytes", "Size of an answer.", labels, buckets=_BYTES
        )
        self._depth = histogram(
            "abilities_walk_depth", "Depth a walk reached.", ["namespace"], buckets=_DEPTHS
        )

    def count(
        self, namespace: str, ability: str, call: CallMetrics, size: int, seconds: float
    ) -> None:
        """Count one call in a namespace; ``size`` is that of its reply in bytes."""
        if namespace not in self._namespaces and len(self._namespaces) >= MAX_NAMESPACES:
            namespace = OTHERS
        self._namespaces.add(namespace)

        self._calls.labels(namespace, ability).inc()
        self._items.labels(namespace, ability).inc(call.items)
        self._truncations.labels(namespace, ability).inc(call.truncated)
        self._seconds.labels(namespace, ability).observe(seconds)
        self._bytes.labels(namespace, ability).observe(size)

        for code, number in call.faults.items():
            self._faults.labels(namespace, ability, code).inc(number)

        depth = self._depth.labels(namespace)  # shown as 0 walks before the first one
        if call.depth is not None:
            depth.observe(call.depth)

    def format_metrics(self, namespace: str | None = None) -> bytes:
        """Return the metrics of one namespace, or by default all, in Prometheus' text format."""
        if namespace is None:
            return prometheus.generate_latest(self._registry)

        registry = prometheus.CollectorRegistry()
        registry.register(_NamespaceMetrics(self._registry, namespace))
        return prometheus.generate_latest(registry)

    async def observe(self, name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Make a call and record it: the `Middleware` around each call of the server."""
        ability = name if name in self._known else "unknown"
        caller = current_caller.get()
        tracer = trace.get_tracer("abilities")
        started = time.perf_counter()

        with (
            self._in_flight.track_inprogress(),
            tracer.start_as_current_span(ability) as span,
        ):
            reply = await call()

            metrics = CallMetrics.from_payload(reply.payload)
            size = text_size(reply.text)
            seconds = time.perf_counter() - started

            span.set_attribute("abilities.items", metrics.items)
            span.set_attribute("abilities.bytes", size)
            for code, number in metrics.faults.items():
                span.set_attribute(f"abilities.faults.{code}", number)
            if reply.failed:
                span.set_status(trace.StatusCode.ERROR, reply.payload["error"]["reason"])

        self.count(caller.namespace, ability, metrics, size, seconds)

        details = caller.details
        if ability in self._writes:
            details["caller"] = caller.name
        details |= {
            "ability": ability,
            "items": metrics.items,
            "faults": dict(metrics.faults),
            "bytes": size,
            "ms": round(seconds * 1000, 2),
            "request_id": request_id.get(),
        }
        _log.info("call", extra=details)
        return reply
