"""Telemetry of each call: a line in the log, metrics for Prometheus, a span.

None of them ever holds content, keys or paths. The line names the caller: its namespace, and the id
and label of its token; that of a write also names who the history says made it.

The log of a server: JSON lines on stderr, one per call, per refused request and per problem.

Metrics: what one call amounted to, and the sums over all calls for Prometheus.
"""

import collections
import json
import logging
import re
import sys
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TextIO, cast
from uuid import uuid4

from opentelemetry import context, propagate, trace
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from pythonjsonlogger.orjson import OrjsonFormatter
from typing_extensions import override

from abilities.declarations.refusals import FAULTS
from abilities.declarations.values import JsonObject, as_object, escape_unseen, text_size
from abilities.helpers.reply.detail import is_cut
from abilities.registry import Reply
from abilities.server.callers import UNKNOWN_CALLER, current_caller

MAX_REPEATS = 5
"""Lines of one kind and one caller that are written per second."""

_CALLS = "abilities.calls"
_SUMMARY = {"name": "abilities", "levelno": logging.WARNING, "levelname": "WARNING"}


class _Formatter(OrjsonFormatter):
    """Formats every message as a line of JSON, whatever text is in it."""

    @override
    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        try:
            line = super().jsonify_log_record(log_data)
        except TypeError:  # a lone surrogate, which orjson cannot write
            line = json.dumps(log_data, default=str)

        # JSON leaves some characters as they are that a terminal obeys.
        return escape_unseen(line)


class LineLimit:
    """Lets the first lines of each kind pass in a second, and counts the others.

    ``clock`` returns seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._counts: dict[str, int] = {}

    def collect(self) -> dict[str, int]:
        """Begin another second if it is time; return how many lines of each kind were left out."""
        now = self._clock()
        if now - self._began < 1:
            return {}

        counts = self._counts
        self._counts = {}
        self._began = now

        return {kind: n - MAX_REPEATS for kind, n in counts.items() if n > MAX_REPEATS}

    def admit(self, kind: str) -> bool:
        """Whether another line of a kind is to be written."""
        count = self._counts.get(kind, 0) + 1
        self._counts[kind] = count
        return count <= MAX_REPEATS


class _BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes the lines of calls, and as many others as the limit admits.

    How many were left out is written with the first line after that second.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._limit = LineLimit(time.monotonic)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        for kind, count in self._limit.collect().items():
            summary = {"msg": "lines left out", "kind": kind, "lines": count}
            super().emit(logging.makeLogRecord({**_SUMMARY, **summary}))

        if record.name == _CALLS or self._limit.admit(_name_kind(record)):
            super().emit(record)


def _name_kind(record: logging.LogRecord) -> str:
    """Return what repeats: the message before its values are filled in, and whose it is."""
    token = getattr(record, "token", None)
    words = f"{record.name}: {record.msg}"[:100]

    if token is None:
        return words

    return f"{words} ({token})"


def log_to_stderr() -> None:
    """Send the log messages of the package and of uvicorn to stderr as lines of JSON.

    The package logs from INFO on, everything else from WARNING on.
    """
    formatter = _Formatter("%(levelname)s %(name)s %(message)s", timestamp=True)
    handler = _BoundedHandler()
    handler.setFormatter(formatter)

    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("abilities").setLevel(logging.INFO)


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BYTES = (256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)
_DEPTHS = (0, 1, 2, 3, 4, 5, 6)

MAX_NAMESPACES = 50
"""Namespaces that are told apart; the calls of further ones are counted together."""

OTHERS = "(others)"
"""Stands for these namespaces; no namespace has such a name."""

_LISTS = ("results", "associatedMemories", "memories", "files", "failed")
"""The fields in which answers hold the records of items that were requested or found."""


class CallMetrics(NamedTuple):
    """What a payload says about its call: numbers and codes, never content, keys or paths.

    ``items`` counts records and memories, ``faults`` failures by code (of items and of the call
    itself), ``truncated`` contents that were cut. ``depth`` is how deep a walk went, None if the
    call was no walk.
    """

    items: int
    faults: collections.Counter[str]
    truncated: int
    depth: int | None

    @classmethod
    def from_payload(cls, payload: JsonObject) -> "CallMetrics":
        """Count over a payload and over all records in it."""
        records = list(_iterate_records(payload))
        single = as_object(payload.get("targetMemory")) or payload

        items = len(records) + ("data" in single or "content" in single)
        faults = collections.Counter[str]()
        truncated = 0

        for part in (single, *records):
            truncated += is_cut(part)
            code = _find_code(part)
            if code is not None:
                faults[code] += 1

        return cls(items, faults, truncated, _find_depth(payload, records))


def _find_code(record: JsonObject) -> str | None:
    """Return the code of a record's failure: of the fault, or of a concise record's reason."""
    fault = as_object(record.get("error"))
    if fault is not None:
        return str(fault["code"])

    reason = record.get("reason")
    if isinstance(reason, str) and reason in FAULTS:
        return FAULTS[reason].code

    return None


def _find_depth(payload: JsonObject, records: Iterable[JsonObject]) -> int | None:
    """Return how deep a walk went, which a concise one says by its records; None if it is none."""
    metadata = as_object(payload.get("metadata")) or {}
    if "targetMemory" not in payload or "depthReached" in metadata:
        return metadata.get("depthReached")

    depths = [record.get("depth") for record in records]
    return max((depth for depth in depths if isinstance(depth, int)), default=0)


def _iterate_records(payload: JsonObject) -> Iterator[JsonObject]:
    for name in _LISTS:
        values = payload.get(name)
        if not isinstance(values, list):
            continue

        for value in cast(list[object], values):
            record = as_object(value)
            if record is not None:
                yield from _iterate_inner(record)


def _iterate_inner(record: JsonObject) -> Iterator[JsonObject]:
    """Yield the memories that answer a question; any other record as it is."""
    holder = as_object(record.get("data")) or record
    if isinstance(holder.get("memories"), list):
        yield from _iterate_records({"memories": holder["memories"]})
    else:
        yield record


class _Source(Protocol):
    def collect(self) -> Iterable[Metric]: ...


class _NamespaceMetrics:
    """The metrics of one namespace, which each sample names, in a registry of its own."""

    def __init__(self, namespace: str) -> None:
        label = ["ability"]
        registry = CollectorRegistry()

        self._namespace = namespace
        self._registry = registry
        self._calls = Counter("abilities_calls", "Calls.", label, registry=registry)
        self._items = Counter(
            "abilities_items", "Records and memories in answers.", label, registry=registry
        )
        self._faults = Counter(
            "abilities_faults", "Failed calls and items.", [*label, "code"], registry=registry
        )
        self._truncations = Counter(
            "abilities_truncations", "Contents that were cut.", label, registry=registry
        )
        self._seconds = Histogram(
            "abilities_call_seconds", "Time of a call.", label, registry=registry, buckets=_SECONDS
        )
        self._bytes = Histogram(
            "abilities_reply_bytes", "Size of an answer.", label, registry=registry, buckets=_BYTES
        )
        self._depth = Histogram(
            "abilities_walk_depth", "Depth a walk reached.", registry=registry, buckets=_DEPTHS
        )

    def count(self, ability: str, call: CallMetrics, size: int, seconds: float) -> None:
        self._calls.labels(ability).inc()
        self._items.labels(ability).inc(call.items)
        self._truncations.labels(ability).inc(call.truncated)
        self._seconds.labels(ability).observe(seconds)
        self._bytes.labels(ability).observe(size)

        for code, number in call.faults.items():
            self._faults.labels(ability, code).inc(number)

        if call.depth is not None:
            self._depth.observe(call.depth)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, with the namespace as a label of every sample."""
        for metric in self._registry.collect():
            samples: list[Sample] = []
            for sample in metric.samples:
                labels = {"namespace": self._namespace, **sample.labels}
                samples.append(sample._replace(labels=labels))

            metric.samples = samples
            yield metric


class _Merged(Collector):
    """The metrics of several sources; those of one name become one metric with all samples."""

    def __init__(self, sources: Sequence[_Source]) -> None:
        self._sources = sources

    @override
    def collect(self) -> Iterator[Metric]:
        merged: dict[str, Metric] = {}

        for source in self._sources:
            for metric in source.collect():
                merged.setdefault(metric.name, metric)
                if merged[metric.name] is not metric:
                    merged[metric.name].samples.extend(metric.samples)

        yield from merged.values()


class ServerMetrics:
    """The metrics of a server: those of each namespace, and those of the process.

    There are at most `MAX_NAMESPACES` of the former. ``count_waiting`` returns how many calls wait
    for the store at the moment, ``count_stuck`` how many threads are stuck in files.
    """

    def __init__(self, count_waiting: Callable[[], int], count_stuck: Callable[[], int]) -> None:
        # Not the process-wide registry, so that several applications can live in one process.
        self._process = CollectorRegistry()
        self._namespaces: dict[str, _NamespaceMetrics] = {}

        ProcessCollector(registry=self._process)
        self.in_flight = Gauge(
            "abilities_calls_in_flight", "Calls being answered.", registry=self._process
        )
        queue = Gauge(
            "abilities_store_queue", "Calls that wait for the store.", registry=self._process
        )
        queue.set_function(count_waiting)
        stuck = Gauge(
            "abilities_file_threads_stuck",
            "Threads that are stuck in files and folders that do not answer.",
            registry=self._process,
        )
        stuck.set_function(count_stuck)

    def count(
        self, namespace: str, ability: str, call: CallMetrics, size: int, seconds: float
    ) -> None:
        """Count one call in a namespace; ``size`` is that of its reply in bytes."""
        if namespace not in self._namespaces and len(self._namespaces) >= MAX_NAMESPACES:
            namespace = OTHERS

        if namespace not in self._namespaces:
            self._namespaces[namespace] = _NamespaceMetrics(namespace)

        self._namespaces[namespace].count(ability, call, size, seconds)

    def format(self, namespace: str | None = None) -> bytes:
        """Return metrics in Prometheus' text format: those of one namespace, or by default all."""
        if namespace is None:
            return _format([self._process, *self._namespaces.values()])

        own = self._namespaces.get(namespace)
        return _format([own] if own else [])


def _format(sources: Sequence[_Source]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Merged(sources))
    return generate_latest(registry)


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
