"""Telemetry: metrics, spans and a log line per call, and never what was read or stored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from abilities import Abilities, Settings
from abilities.helpers.tokens import TokenFile
from abilities.server.app import create_app
from tests.support.serving import serving
from tests.support.surfaces import run_lifespan

SECRET = "canary"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """The spans that a configured tracer exports; a process can have one tracer only."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter


def parse_metrics(text: str) -> dict[tuple[str, ...], float]:
    """Return samples by name and labels, without the buckets of histograms."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


async def test_metrics_and_spans_count_what_calls_did(
    roots: Settings, spans: InMemorySpanExporter
) -> None:
    (roots.workspace_dir / f"{SECRET}.txt").write_text(SECRET * 10)
    memory = {"type": "core", "key": SECRET, "content": SECRET, "links": [{"key": "next"}]}

    async with (
        Abilities.open(roots) as abilities,
        run_lifespan(create_app(abilities)) as app,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost"
        ) as client,
    ):

        async def post(name: str, **arguments: Any) -> httpx.Response:
            return await client.post(f"/api/abilities/{name}", json=arguments)

        answers = [
            await post("store_memory", **memory),
            await post("store_memory", type="core", key="next", content="x"),
            await post(
                "file_read_bulk",
                paths=[f"{SECRET}.txt", f"{SECRET}.none", "../x"],
                max_chars_per_file=5,
            ),
            await client.post(
                "/api/abilities/bulk_read_memory",
                json={"key": SECRET},
                headers={"traceparent": TRACE},
            ),
            await client.get(f"/api/memories/{SECRET}"),
            await post("memory_get", key="none"),
            await post("file_read_bulk", paths=5),
            await post(SECRET),
        ]
        text = (await client.get("/metrics")).text

    assert [answer.status_code for answer in answers] == [200] * 5 + [404, 400, 404]
    assert SECRET not in text

    metrics = parse_metrics(text)
    assert metrics["abilities_calls_total", "file_read_bulk"] == 2
    assert metrics["abilities_items_total", "file_read_bulk"] == 3
    assert metrics["abilities_truncations_total", "file_read_bulk"] == 1
    assert metrics["abilities_faults_total", "file_read_bulk", "NOT_FOUND"] == 1
    assert metrics["abilities_faults_total", "file_read_bulk", "INVALID_INPUT"] == 2
    assert metrics["abilities_items_total", "bulk_read_memory"] == 2
    assert (metrics["abilities_walk_depth_count",], metrics["abilities_walk_depth_sum",]) == (1, 1)
    assert metrics["abilities_calls_total", "memory_get"] == 2
    assert metrics["abilities_items_total", "memory_get"] == 1
    assert metrics["abilities_reply_bytes_sum", "bulk_read_memory"] == len(answers[3].content)
    assert metrics["abilities_call_seconds_count", "store_memory"] == 2
    assert metrics["abilities_store_queue",] == metrics["abilities_calls_in_flight",] == 0

    by_name = {span.name: span for span in spans.get_finished_spans()}
    walk, missing = by_name["bulk_read_memory"], by_name["memory_get"]
    assert walk.attributes and walk.attributes["abilities.items"] == 2
    assert walk.context and f"{walk.context.trace_id:032x}" in TRACE
    assert missing.attributes and missing.attributes["abilities.faults.NOT_FOUND"] == 1
    assert missing.status.description == "not_found"
    assert SECRET not in "".join(span.to_json() for span in spans.get_finished_spans())


def test_a_server_logs_a_line_per_call_and_nothing_that_was_read_or_stored(
    roots: Settings, tmp_path: Path
) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    token = TokenFile(settings.tokens_file).add("default", "write")[1]
    bearer = {"Authorization": f"Bearer {token}"}

    with serving(settings, tmp_path) as server:
        address, body = server.address, {"type": "core", "key": SECRET, "content": SECRET}
        stored = httpx.post(
            f"{address}/api/memories", json=body, headers={**bearer, "X-Request-Id": "mine-1"}
        )
        wrong = httpx.get(
            f"{address}/api/memories/{SECRET}", headers={"Authorization": f"Bearer {token}x"}
        )
        missing = httpx.get(
            f"{address}/api/memories/{SECRET}2", headers={**bearer, "X-Request-Id": "no good"}
        )
        lines = [json.loads(line) for line in server.stop().splitlines()]

    assert [answer.status_code for answer in (stored, wrong, missing)] == [200, 401, 404]
    assert stored.headers["x-request-id"] == "mine-1"
    ids = [answer.headers["x-request-id"] for answer in (stored, wrong, missing)]
    assert [line["request_id"] for line in lines] == ids and ids[2] != "no good"

    assert [line["message"] for line in lines] == ["call", "refused", "call"]
    assert lines[0]["ability"] == "store_memory" and lines[0]["faults"] == {} and lines[0]["ms"] > 0
    assert lines[0]["bytes"] == len(stored.content)
    assert (lines[1]["reason"], lines[1]["status"]) == ("unauthorized", 401)
    assert (lines[2]["ability"], lines[2]["faults"]) == ("memory_get", {"NOT_FOUND": 1})
    assert SECRET not in json.dumps(lines) and token[13:] not in json.dumps(lines)
