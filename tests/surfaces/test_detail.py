"""`detail`: concise answers on every surface, in every schema, and by setting."""

import re
from io import StringIO
from typing import Any

import httpx
import pytest
from rich.console import Console

from abilities import Abilities, Settings, render
from abilities.cli.printing import print_answer
from abilities.cli.records import AnsweredCall
from abilities.server.app import create_app
from abilities.server.telemetry import CallMetrics
from tests.support.catalog import BUILT_IN
from tests.support.detail_cases import CASES, Case, check_schema, fill, without_changing_values
from tests.support.file_cases import ROWS, Row
from tests.support.sample_files import SampleFiles
from tests.support.surfaces import SURFACES, Through, python

WITH_DETAIL = [ability.name for ability in BUILT_IN if "detail" in ability.input.model_fields]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_concise_answer_is_the_same_on_every_surface(
    case: Case, surface: str, settings: Settings
) -> None:
    await fill(settings)
    arguments = {**case.arguments, "detail": "concise"}

    expected = await python(settings, case.name, arguments)

    assert without_changing_values(expected) == case.answer
    assert await SURFACES[surface](settings, case.name, arguments) == expected


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_setting_decides_where_a_call_does_not(surface: str, settings: Settings) -> None:
    await fill(settings)
    concise = settings.model_copy(update={"detail": "concise"})
    call = SURFACES[surface]

    for name, arguments, _ in CASES:
        if name == "recall":
            continue  # its records are concise whatever is set
        by_argument = await python(settings, name, {**arguments, "detail": "concise"})
        by_setting = await call(concise, name, arguments)
        full = await call(concise, name, {**arguments, "detail": "full"})

        # Only what was given is repeated.
        assert by_setting == without_detail(by_argument, "concise")
        assert without_detail(full, "full") == await python(settings, name, arguments)


def without_detail(payload: dict[str, Any], detail: str) -> dict[str, Any]:
    for request in (payload.get("next_request"), *payload.get("next_requests", [])):
        if request is not None:
            assert request.pop("detail") == detail

    return payload


@pytest.mark.parametrize("surface", SURFACES)
async def test_models_get_concise_answers_by_default_and_programs_full_ones(
    surface: str, roots: Settings
) -> None:
    (roots.workspace_dir / "tiny.txt").write_text("tiny")
    unset = roots.model_copy(update={"detail": None})
    is_for_models = surface.startswith(("mcp", "langchain"))

    usual = await SURFACES[surface](unset, "file_read_bulk", {"paths": ["tiny.txt"]})
    full = await SURFACES[surface](
        unset, "file_read_bulk", {"paths": ["tiny.txt"], "detail": "full"}
    )

    assert ("data" in usual["results"][0]) is not is_for_models
    assert full["results"][0]["data"]["content"] == "tiny"


@pytest.mark.parametrize("name", ["file_read_bulk", "read"])
async def test_tiny_files_cost_a_model_less_than_half(name: str, roots: Settings) -> None:
    paths = [f"{number:02}.txt" for number in range(25)]
    for path in paths:
        (roots.workspace_dir / path).write_text("tiny\n")
    arguments = {"paths" if name == "file_read_bulk" else "items": paths}

    async with Abilities.open(roots) as abilities:
        concise, full = [
            await abilities.reply(name, {**arguments, "detail": detail}, for_model=True)
            for detail in ("concise", "full")
        ]

    assert 2 * len(concise.text) < len(full.text)


async def test_a_concise_write_sends_nothing_back(settings: Settings, through: Through) -> None:
    call = through(settings)
    content = "word " * 900

    stored = await call("store_memory", type="core", key="k", content=content, detail="concise")
    again = await call("store_memory", type="core", key="k", content="x", detail="concise")
    name = stored["id"]
    updated = await call("update_memory", id=name, summary="new", detail="concise")
    archived = await call("delete_memory", id=name, detail="concise")
    deleted = await call("delete_memory", id=name, permanent=True, detail="concise")

    version = stored["version"]
    assert stored == {"id": name, "key": "k", "version": version, "created": True}
    replaced = {"created": False, "replaced": version}
    assert again == {"id": name, "key": "k", "version": version + 1, **replaced}
    assert updated == {"id": name, "key": "k", "version": version + 2}
    assert archived == {"id": name, "key": "k", "action": "archived", "version": version + 3}
    assert deleted == {"id": name, "action": "deleted", "version": version + 4}


async def test_an_address_takes_the_detail_in_its_query_or_body(settings: Settings) -> None:
    ids = await fill(settings)
    asked = {"detail": "concise"}

    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path, name, arguments in (
                ("/api/memories/A", "memory_get", {"key": "A"}),
                ("/api/memories/A/bulk", "bulk_read_memory", {"key": "A"}),
                ("/api/memories", "query_memories", {}),
            ):
                answer = await client.get(path, params=asked)
                assert answer.text == render(await abilities.call(name, {**arguments, **asked}))

            memory = {"type": "core", "key": "A", "content": "new", **asked}
            stored = (await client.post("/api/memories", json=memory)).json()
            of_one = f"/api/memories/by-id/{ids['A']}"
            updated = (await client.patch(of_one, json={"summary": "s", **asked})).json()
            deleted = (await client.delete(of_one, params=asked)).json()

    assert list(stored) == ["id", "key", "version", "created", "replaced"]
    assert list(updated) == ["id", "key", "version"]
    assert list(deleted) == ["id", "key", "action", "version"]


@pytest.mark.parametrize("detail", ["full", "concise"])
async def test_every_answer_is_what_its_schema_says(
    detail: str, settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    ids = await fill(settings)
    calls: list[tuple[str, dict[str, Any]]] = [
        *((case.name, case.arguments) for case in CASES),
        *((row.name, row.arguments) for row in ROWS),
        ("store_memory", {"type": "core", "content": "x", "key": "A"}),
        ("update_memory", {"id": ids["B"], "content": "y"}),
        ("delete_memory", {"id": ids["C"]}),
        ("delete_memory", {"id": ids["D"], "permanent": True}),
        ("bulk_read_memory", {"key": "A", "depth": 1, "breadth": 1}),
    ]

    checked = set()
    for name, arguments in calls:
        if name in WITH_DETAIL:
            payload = await python(settings, name, {**arguments, "detail": detail})
            if "error" not in payload:
                check_schema(name, payload)
                checked.add(name)

    assert len(checked) >= 8


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_concise_records_are_those_of_the_full_answer_with_fewer_fields(
    row: Row, settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    row_settings = settings.model_copy(update=row.settings)
    full = await python(row_settings, row.name, row.arguments)
    concise = await python(row_settings, row.name, {**row.arguments, "detail": "concise"})
    if "error" in full:
        assert concise == full or "detail" in row.arguments
        return

    assert concise["summary"]["requested"] == full["summary"]["requested"]
    for shown, record in zip(concise["results"], full["results"], strict=True):
        assert shown["success"] == record["success"]
        assert not any(isinstance(value, dict | list) for value in shown.values())

        if record["success"]:
            assert shown.get("source", "workspace") == record["data"].get("source", "workspace")
            # More fits beside shorter frames.
            assert shown["content"].startswith(record["data"]["content"])
            assert ("next" in shown) <= ("truncation" in record)
        elif record["error"]["reason"] != "response_budget":
            assert shown["input"] == record["input"]
            assert shown["reason"] == record["error"]["reason"]
            assert shown.get("message", record["error"]["message"]) == record["error"]["message"]


async def test_metrics_count_concise_answers_as_full_ones(settings: Settings) -> None:
    await fill(settings)

    for name, arguments, _ in CASES:
        full = CallMetrics.from_payload(await python(settings, name, arguments))
        concise = CallMetrics.from_payload(
            await python(settings, name, {**arguments, "detail": "concise"})
        )
        assert concise == full, name


async def test_a_concise_walk_continues_to_the_last_character(roots: Settings) -> None:
    limited = roots.model_copy(update={"max_response_bytes": 40_000})
    texts = {f"k{number}": f'{number} "é"\n' * 700 for number in range(30)}

    async with Abilities.open(limited) as abilities:
        for key, text in texts.items():
            links = [{"key": other} for other in texts if key == "k0" and other != key]
            memory = {"type": "core", "key": key, "content": text, "links": links}
            await abilities.call("store_memory", {**memory, "detail": "concise"})

        arguments = {"key": "k0", "breadth": 20, "total": 50, "detail": "concise"}
        walk = await abilities.call("bulk_read_memory", arguments)
        walked = [walk["targetMemory"], *walk["associatedMemories"]]
        read = {record["key"]: record.get("content", "") for record in walked}
        requests = walk["next_requests"]
        assert len(render(walk).encode()) <= 40_000

        while requests:
            request = requests.pop()
            assert request["detail"] == "concise"
            answer = await abilities.call("memory_read_bulk", request)
            for record in answer["results"]:
                if record["success"]:
                    read[record["key"]] += record["content"]
            if "next_request" in answer:
                requests.append(answer["next_request"])

    assert len(read) == 21
    assert read == {key: texts[key] for key in read}


async def test_a_wrong_detail_is_refused(settings: Settings) -> None:
    for name in WITH_DETAIL:
        fault = (await python(settings, name, {"detail": "brief"}))["error"]
        wrong = [mistake["field"] for mistake in fault.get("fields", [fault])]
        assert "detail" in wrong


async def test_the_command_line_draws_concise_records(settings: Settings) -> None:
    await fill(settings)
    targets = [{"type": "stored", "key": "A"}, {"type": "stored"}, {"type": "short_term"}]
    arguments = {"targets": targets, "max_chars_per_item": 3, "detail": "concise"}
    payload = await python(settings, "memory_read_bulk", arguments)
    console = Console(record=True, width=200, file=StringIO())

    print_answer(AnsweredCall("memory_read_bulk", arguments, payload), console)

    text = re.sub(r" +\n", "\n", re.sub(r" +", " ", console.export_text()))
    assert '\ncut A 3\nfailed {"type":"stored"} missing_argument: key is missing.\n' in text
    assert '\nfailed {"type":"short_term"} not_found\n\nA\n one\n\n1 of 3 read, 2 failed' in text
