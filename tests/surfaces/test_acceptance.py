"""Rows F and M of the acceptance table: each on every surface, with one and the same payload."""

import json
import re
from typing import Any

import pytest

from abilities import Settings
from abilities.cli.main import main
from abilities.declarations.faults import FAULTS, Fault, Reason
from abilities.declarations.file_read_bulk import FileReadBulkAnswer
from abilities.declarations.memory_read_bulk import MemoryReadBulkAnswer
from abilities.declarations.records import BulkReply
from tests.support.file_cases import ROWS, Ok, Row
from tests.support.measurements import reached
from tests.support.sample_files import SampleFiles
from tests.support.surfaces import SURFACES, CannotCarry, python

ANSWERS: dict[str, type[BulkReply[Any]]] = {
    "file_read_bulk": FileReadBulkAnswer,
    "memory_read_bulk": MemoryReadBulkAnswer,
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_row_gets_what_the_table_says_on_every_surface(
    row: Row, surface: str, settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    chosen = settings.model_copy(update=row.settings)
    expected = await python(chosen, row.name, row.arguments)
    check(row, expected)
    try:
        assert await SURFACES[surface](chosen, row.name, row.arguments) == expected
    except CannotCarry:
        assert row.id in ("F8", "F30-5", "F30-6") or (row.id == "F9-megabyte" and "http" in surface)
    told = json.dumps([record.get("error") for record in expected.get("results", [expected])])
    assert str(world.base) not in told


def check(row: Row, payload: dict[str, Any]) -> None:
    if row.call is not None:
        reason, field = row.call
        assert payload == {"error": Fault.from_reason(reason, field=field).to_payload()}
        return
    answer = ANSWERS[row.name].model_validate(payload)
    assert answer.summary.requested == len(row.items) == len(answer.results)
    for record, expected in zip(payload["results"], row.items, strict=True):
        if isinstance(expected, str):
            assert record["success"] is False
            assert record["error"] == Fault.from_reason(expected).to_payload()
        else:
            check_success(record, expected)


def check_success(record: dict[str, Any], expected: Ok) -> None:
    assert record["success"] is True, record
    assert record["data"]["content"] == expected.content
    assert expected.data.items() <= record["data"].items()
    assert ("truncation" in record) == expected.cut
    if expected.cut:
        assert record["truncation"]["returned_chars"] == len(expected.content)


INTERNAL = re.compile(
    r"errno|Traceback|[a-z]Error\b|Exception|sqlite|SELECT |/proc/|pydantic", re.I
)


async def test_what_is_ours_in_an_answer_never_holds_what_is_not(
    settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    """Figure 10: over the whole table, outside of `input`, `content` and requests to repeat."""
    faults = 0
    for row in ROWS:
        payload = await python(settings.model_copy(update=row.settings), row.name, row.arguments)
        ours = json.dumps(trusted(payload), ensure_ascii=False)
        assert str(world.base) not in ours and not INTERNAL.search(ours), row.id
        asked = next(iter(row.arguments.values()), None)
        for item, record in zip(
            asked if isinstance(asked, list) else [], payload.get("results", []), strict=False
        ):
            text = item if isinstance(item, str) else json.dumps(item)
            if "error" in record and len(text) > 5 and not text.isidentifier():
                assert text not in json.dumps(record["error"], ensure_ascii=False), row.id
        faults += sum("error" in record for record in payload.get("results", [payload]))
    assert faults > 100
    reached(
        10,
        f"{len(ROWS)} rows with {faults} faults: nothing of the host, of the system or of the input in them",
    )


def trusted(payload: Any) -> Any:
    """An answer without what was asked and what was read."""
    if isinstance(payload, dict):
        mine = {
            name: value
            for name, value in payload.items()
            if name not in ("input", "content", "next_request", "next")
        }
        return {name: trusted(value) for name, value in mine.items()}
    return [trusted(value) for value in payload] if isinstance(payload, list) else payload


@pytest.mark.parametrize("reason", FAULTS)
def test_a_fault_is_one_short_sentence_that_names_no_internals(reason: Reason) -> None:
    _, message = FAULTS[reason]
    assert len(message) <= 120
    assert message.endswith(".")
    assert not any(
        word in message for word in ("Error", "errno", "Exception", "Traceback", "{", "%")
    )


def test_a_fault_names_only_commands_that_exist() -> None:
    named = {
        word for _, message in FAULTS.values() for word in re.findall(r"'abilities (\w+)", message)
    }
    assert named <= main.commands.keys()


async def test_the_input_is_repeated_as_it_was_asked(settings: Settings) -> None:
    asked = ["ok.txt#L1", "../" + "x" * 500, 5, {"a": [1, None]}, "\ud800", "nope" * 60]
    payload = await python(settings, "file_read_bulk", {"paths": asked})
    told = [record["input"] for record in payload["results"]]
    assert told == [
        "ok.txt#L1",
        ("../" + "x" * 500)[:200],
        "5",
        '{"a":[1,null]}',
        "\ufffd",
        "nope" * 60,
    ]
