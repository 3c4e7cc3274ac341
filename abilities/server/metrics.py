"""Metrics: what one call amounted to, and the sums over all calls for Prometheus."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, cast

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
from typing_extensions import override

from abilities.declarations.reasons import FAULTS
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.reply.detail import is_cut

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
