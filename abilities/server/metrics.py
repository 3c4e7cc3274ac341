"""Metrics: what one call amounted to, and the sums over all calls for Prometheus."""

import collections
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from abilities.declarations.values import JsonObject, as_object

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BYTES = (256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)
_DEPTHS = (0, 1, 2, 3, 4, 5, 6)

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
        metadata = as_object(payload.get("metadata")) or {}

        items = len(records) + ("data" in single)
        faults = collections.Counter[str]()
        truncated = 0

        for part in (single, *records):
            truncated += "truncation" in part
            fault = as_object(part.get("error"))

            if fault is not None:
                faults[fault["code"]] += 1

        return cls(items, faults, truncated, metadata.get("depthReached"))


def _iterate_records(payload: JsonObject) -> Iterator[JsonObject]:
    for name in _LISTS:
        values = payload.get(name)
        if not isinstance(values, list):
            continue

        for value in cast(list[object], values):
            record = as_object(value)
            if record is not None:
                yield record


class ServerMetrics:
    """The metrics of a server, in a registry of their own.

    ``count_waiting`` returns how many calls wait for the store at the moment.
    """

    def __init__(self, count_waiting: Callable[[], int]) -> None:
        # Not the process-wide registry, so that several applications can live in one process.
        registry = CollectorRegistry()
        label = ["ability"]
        ProcessCollector(registry=registry)

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
        self.in_flight = Gauge(
            "abilities_calls_in_flight", "Calls being answered.", registry=registry
        )
        queue = Gauge("abilities_store_queue", "Calls that wait for the store.", registry=registry)
        queue.set_function(count_waiting)

    def count(self, ability: str, call: CallMetrics, size: int, seconds: float) -> None:
        """Count one call; ``size`` is that of its reply in bytes."""
        self._calls.labels(ability).inc()
        self._items.labels(ability).inc(call.items)
        self._truncations.labels(ability).inc(call.truncated)
        self._seconds.labels(ability).observe(seconds)
        self._bytes.labels(ability).observe(size)

        for code, number in call.faults.items():
            self._faults.labels(ability, code).inc(number)

        if call.depth is not None:
            self._depth.observe(call.depth)

    def format(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)
