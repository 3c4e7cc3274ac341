"""Rows F and M of the acceptance table: each on every surface, with one and the same payload."""

import json
import re
from typing import Any, cast

import pytest

from abilities import Settings
from abilities.cli.main import main
from abilities.declarations.memory_reads import MemoryReadBulkAnswer
from abilities.declarations.read import FileReadBulkAnswer
from abilities.declarations.refusals import FAULTS, Fault, Reason, ReplyOf
from tests.support.catalog import BUILT_IN
from tests.support.file_cases import ROWS, Ok, Row, Wrong, check_refusal, check_wrong_item
from tests.support.measurements import reached
from tests.support.sample_files import SampleFiles
from tests.support.surfaces import SURFACES, CannotCarry, python

ANSWERS: dict[str, type[ReplyOf[Any]]] = {
    "file_read_bulk": FileReadBulkAnswer,
    "memory_read_bulk": MemoryReadBulkAnswer,
}


Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def answers() -> Answers:
    """What Python answers to rows, by their ids: asked once, and compared with every surface."""
    return {}


@pytest.mark.requirement("R5.1.1", "R5.1.2", "R5.2.1", "R5.3.1", "R5.4.1")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_row_gets_what_the_table_says_on_every_surface(
    row: Row,
    surface: str,
    settings: Settings,
    world: SampleFiles,
    unprivileged: None,
    answers: Answers,
) -> None:
    row_settings = settings.model_copy(update=row.settings)
    if row.id not in answers:
        answers[row.id] = await python(row_settings, row.name, row.arguments)

    expected = answers[row.id]
    check_payload(row, expected)

    try:
        assert await SURFACES[surface](row_settings, row.name, row.arguments) == expected
    except CannotCarry:
        is_large = row.id == "F9-megabyte" and "http" in surface
        assert is_large or row.id in ("F8", "F30-5", "F30-6")

    errors = [record.get("error") for record in expected.get("results", [expected])]
    assert str(world.base) not in json.dumps(errors)


MEANT = "did_you_mean"
"""What a fault suggests: data, because it may be the name of a file."""


def check_payload(row: Row, payload: dict[str, Any]) -> None:
    if row.call is not None:
        check_refusal(row, payload)
        return

    answer = ANSWERS[row.name].model_validate(payload)
    assert answer.summary.requested == len(row.items) == len(answer.results)

    for record, expected in zip(payload["results"], row.items, strict=True):
        if isinstance(expected, Wrong):
            check_wrong_item(record["error"], expected)
        elif isinstance(expected, str):
            assert record["success"] is False
            fault = {name: record["error"][name] for name in record["error"] if name != MEANT}
            assert fault == Fault.from_reason(cast(Reason, expected)).to_payload()
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


async def test_what_the_product_adds_to_an_answer_holds_no_internals_and_no_input(
    settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    """Figure 10: over the whole table, outside of `input`, `content` and requests to repeat."""
    faults = 0

    for row in ROWS:
        row_settings = settings.model_copy(update=row.settings)
        payload = await python(row_settings, row.name, row.arguments)

        added = json.dumps(drop_quoted_fields(payload), ensure_ascii=False)
        assert str(world.base) not in added and not INTERNAL.search(added), row.id

        check_that_errors_quote_no_item(row, payload)
        faults += sum("error" in record for record in payload.get("results", [payload]))

    assert faults > 100
    reached(10, f"{len(ROWS)} rows with {faults} faults: nothing of the host or the input in them")


def drop_quoted_fields(payload: Any) -> Any:
    if isinstance(payload, list):
        return [drop_quoted_fields(value) for value in payload]
    if not isinstance(payload, dict):
        return payload

    quoted = ("input", "content", "next_request", "next", MEANT)
    return {
        name: drop_quoted_fields(value) for name, value in payload.items() if name not in quoted
    }


def check_that_errors_quote_no_item(row: Row, payload: dict[str, Any]) -> None:
    items = next(iter(row.arguments.values()), None)
    if not isinstance(items, list):
        return

    for item, record in zip(items, payload.get("results", []), strict=False):
        text = item if isinstance(item, str) else json.dumps(item)
        # A short text or a word may stand in a fixed sentence by chance.
        if "error" in record and len(text) > 5 and not text.isidentifier():
            said = drop_quoted_fields(record["error"])
            assert text not in json.dumps(said, ensure_ascii=False), row.id


@pytest.mark.requirement("R3.6.1", "R3.8.5")
def test_a_fault_is_one_short_sentence_that_names_no_internals() -> None:
    names = {ability.name for ability in BUILT_IN if "_" in ability.name}
    internal_words = ("Error", "errno", "Exception", "Traceback", "{", "%")

    for reason, meaning in FAULTS.items():
        assert len(meaning.message) <= 120 and meaning.message.endswith("."), reason
        assert not any(word in meaning.message for word in internal_words), reason
        assert {*re.findall(r"'abilities (\w+)", meaning.message)} <= main.commands.keys()
        assert names.isdisjoint(re.findall(r"\w+", meaning.message)), "it may be disabled"


@pytest.mark.requirement("R5.3.1")
async def test_the_input_is_repeated_as_it_was_asked(settings: Settings) -> None:
    paths = ["ok.txt#L1", "../" + "x" * 500, 5, {"a": [1, None]}, "\ud800", "nope" * 60]

    payload = await python(settings, "file_read_bulk", {"paths": paths})

    assert [record["input"] for record in payload["results"]] == [
        "ok.txt#L1",
        ("../" + "x" * 500)[:200],
        "5",
        '{"a":[1,null]}',
        "\ufffd",
        "nope" * 60,
    ]
