"""Telemetry: metrics, spans and a log line per call, and never what was read or stored."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from abilities import Settings
from abilities.helpers.tokens import TokenFile
from abilities.server.telemetry import MAX_NAMESPACES, OTHERS, CallMetrics, Telemetry
from tests.support.forked import Forked
from tests.support.serving import serving, serving_app

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


def parse_metrics(text: str) -> dict[tuple[str, ...], float]:
    samples: dict[tuple[str, ...], float] = {}

    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            namespace = labels.pop("namespace", "default")
            name = (sample.name, *labels.values())
            if namespace != "default":
                name = (*name, namespace)

            if "le" not in labels:
                assert name not in samples
                samples[name] = sample.value

    return samples


@pytest.mark.requirement("R4.5.6", "R4.7.4")
async def test_metrics_and_spans_count_what_calls_did(
    roots: Settings, exporter: InMemorySpanExporter
) -> None:
    exporter.clear()
    (roots.workspace_dir / f"{SECRET}.txt").write_text(SECRET * 10)
    links = [{"key": "next"}]
    memory: dict[str, Any] = {"type": "core", "key": SECRET, "content": SECRET, "links": links}
    paths = [f"{SECRET}.txt", f"{SECRET}.none", "../x"]
    traced: dict[str, Any] = {"json": {"key": SECRET}, "headers": {"traceparent": TRACE}}

    async with serving_app(roots) as server:
        answers = [
            await server.call("store_memory", **memory),
            await server.call("store_memory", type="core", key="next", content="x"),
            await server.call("file_read_bulk", paths=paths, max_chars_per_file=5),
            await server.ask("POST", "/api/abilities/bulk_read_memory", **traced),
            await server.ask("GET", f"/api/memories/{SECRET}"),
            await server.call("memory_get", key="none"),
            await server.call("file_read_bulk", paths=5),
            await server.call(SECRET),
        ]
        text = (await server.ask("GET", "/metrics")).text

    assert [answer.status_code for answer in answers] == [200] * 5 + [404, 400, 404]
    assert SECRET not in text

    metrics = parse_metrics(text)
    for name, value in {
        ("abilities_calls_total", "file_read_bulk"): 2,
        ("abilities_items_total", "file_read_bulk"): 3,
        ("abilities_truncations_total", "file_read_bulk"): 1,
        ("abilities_faults_total", "file_read_bulk", "NOT_FOUND"): 1,
        ("abilities_faults_total", "file_read_bulk", "INVALID_INPUT"): 2,
        ("abilities_items_total", "bulk_read_memory"): 2,
        ("abilities_walk_depth_count",): 1,
        ("abilities_walk_depth_sum",): 1,
        ("abilities_calls_total", "memory_get"): 2,
        ("abilities_items_total", "memory_get"): 1,
        ("abilities_reply_bytes_sum", "bulk_read_memory"): len(answers[3].content),
        ("abilities_call_seconds_count", "store_memory"): 2,
        ("abilities_store_queue",): 0,
        ("abilities_calls_in_flight",): 0,
        ("abilities_file_threads_stuck",): 0,
    }.items():
        assert metrics[name] == value, name
    assert metrics["process_resident_memory_bytes",] > 10_000_000

    spans = exporter.get_finished_spans()
    by_name = {span.name: span for span in spans}
    walk, missing = by_name["bulk_read_memory"], by_name["memory_get"]
    assert walk.attributes and walk.attributes["abilities.items"] == 2
    assert walk.context and f"{walk.context.trace_id:032x}" in TRACE
    assert missing.attributes and missing.attributes["abilities.faults.NOT_FOUND"] == 1
    assert missing.status.description == "not_found"
    assert SECRET not in "".join(span.to_json() for span in spans)


LOGGING = """
import logging
from abilities.server.telemetry import log_to_stderr

log_to_stderr()
try:
    raise ValueError("\\ud800")
except ValueError as error:
    logging.getLogger("abilities").error("fail\\ned", exc_info=error)
"""


def test_a_log_line_is_json_whatever_an_error_says(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = Forked(LOGGING, errors=log)
    process.communicate()
    (line,) = log.read_bytes().splitlines()

    assert json.loads(line)["message"] == "fail\ned"
    assert "\ud800" in json.loads(line)["exc_info"]


def test_a_server_logs_a_line_per_call_and_nothing_that_was_read_or_stored(
    private: Settings, tokens: TokenFile, tmp_path: Path
) -> None:
    token = tokens.add("default", "write")[1]
    bearer = {"Authorization": f"Bearer {token}"}
    memory = {"type": "core", "key": SECRET, "content": SECRET}

    with serving(private, tmp_path) as server:
        address = f"{server.address}/api/memories"
        stored = httpx.post(address, json=memory, headers={**bearer, "X-Request-Id": "mine-1"})
        wrong = httpx.get(f"{address}/x", headers={"Authorization": f"Bearer {token}x"})
        missing = httpx.get(f"{address}/{SECRET}2", headers={**bearer, "X-Request-Id": "no good"})
        lines = [json.loads(line) for line in server.stop().splitlines()]

    answers = (stored, wrong, missing)
    assert [answer.status_code for answer in answers] == [200, 401, 404]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert [line["request_id"] for line in lines] == ids
    assert ids[0] == "mine-1" and ids[2] != "no good"

    assert [line["message"] for line in lines] == ["call", "refused", "call"]
    assert lines[0]["ability"] == "store_memory" and lines[0]["faults"] == {} and lines[0]["ms"] > 0
    assert lines[0]["bytes"] == len(stored.content)
    assert (lines[1]["reason"], lines[1]["status"]) == ("unauthorized", 401)
    assert (lines[2]["ability"], lines[2]["faults"]) == ("memory_get", {"NOT_FOUND": 1})
    assert SECRET not in json.dumps(lines) and token[13:] not in json.dumps(lines)


async def test_metrics_show_a_token_its_own_namespace_and_scrapers_all(apart: Settings) -> None:
    file = TokenFile(apart.tokens_file)
    ada, bob = (file.add(name, "read")[1] for name in ("ada", "bob"))
    scraper = file.add("default", "metrics")[1]

    async with serving_app(apart) as server:

        async def read_metrics(token: str) -> dict[tuple[str, ...], float]:
            return parse_metrics((await server.ask("GET", "/metrics", token)).text)

        assert await read_metrics(ada) == {}
        for token in (ada, ada, bob):
            await server.ask("GET", "/api/stats", token)

        own = await read_metrics(ada)
        assert {name[-1] for name in own} == {"ada"}
        assert own["abilities_calls_total", "get_memory_stats", "ada"] == 2

        of_all = await read_metrics(scraper)
        assert of_all["abilities_calls_total", "get_memory_stats", "ada"] == 2
        assert of_all["abilities_calls_total", "get_memory_stats", "bob"] == 1
        assert of_all["process_resident_memory_bytes",] > 10_000_000
        assert {name for name in of_all if name[-1] == "ada"} == own.keys()


def test_metrics_of_many_namespaces_are_bounded() -> None:
    telemetry = Telemetry((), (), lambda: 0, lambda: 0)
    call = CallMetrics.from_payload({})

    for number in range(MAX_NAMESPACES + 30):
        telemetry.count(f"user{number}", "read", call, 10, 0.1)

    counted = parse_metrics(telemetry.format_metrics().decode())
    calls = {name[-1]: value for name, value in counted.items() if name[0].endswith("calls_total")}
    assert len(calls) == MAX_NAMESPACES + 1
    assert calls["user0"] == 1 and calls[OTHERS] == 30
    assert parse_metrics(telemetry.format_metrics(f"user{MAX_NAMESPACES}").decode()) == {}


async def test_each_line_names_the_caller_also_on_mcp_and_of_refusals(
    apart: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "abilities")
    file = TokenFile(apart.tokens_file)
    entry, token = file.add("ada", "write", 'Ada \x1b[31m\n{"forged": 1}')
    scraper, scraping = file.add("default", "metrics", "prometheus")

    async with serving_app(apart) as server:
        for mode in ("2026-07-28", "legacy"):
            async with server.mcp(token, mode) as client:
                await client.call_tool("get_memory_stats", {})
        await server.ask("GET", "/api/stats", scraping)
        await server.ask("GET", "/api/stats", token[:-1])
        await server.ask("POST", "/api/memories", token, content=b"x" * 1_000_000)

    lines = [vars(record) for record in caplog.records if record.message in ("call", "refused")]
    who = [(line.get("namespace"), line.get("token"), line.get("label")) for line in lines]
    ada = ("ada", entry.id, 'Ada \ufffd[31m\ufffd{"forged": 1}')  # steers no terminal
    assert who[:4] == [ada, ada, ("default", scraper.id, "prometheus"), (None, None, None)]
    assert token not in caplog.text and scraping not in caplog.text
