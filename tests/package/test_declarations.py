"""What clients learn about each ability, which models read with every call: short and complete."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from abilities import Ability, Settings, definition
from abilities.adapters.langchain import load_tools
from abilities.builtin.read import read
from abilities.declarations.read import ITEM_SCHEMA, ITEMS
from abilities.helpers.files.confinement import SKIPPED_FOLDERS
from tests.support.catalog import BUILT_IN
from tests.support.piped import open_piped
from tests.support.sources import ROOT

SCHEMAS = ROOT / "declarations" / "schemas"
SPECIFIED = tuple(ability.name for ability in BUILT_IN[:10])
"""The abilities of the client's specifications, and `file_list`."""

MOST_BYTES: dict[tuple[str, ...], int] = {
    SPECIFIED: 10_000,
    ("all",): 15_000,
    ("lean",): 6_000,
    ("files",): 3_500,
    ("memory",): 12_000,
}
"""What a list may take by the setting `tools`, as JSON."""

UNOFFERED = {
    *("output_format", "detail", "memories", "bulkRead", "depth", "breadth", "totalLimit"),
    "since_others",
}
"""Arguments that are for settings and programs, and that most abilities do not offer to models."""

UNTOLD = {
    "maxLength": {"key", "prefix", "category", "pattern", "type", "term", "after", "about"},
    "maxItems": {"links", "remove_links", "about"},
    "maximum": {
        *("within_days", "before", "since", "version", "if_version", "links_offset", "offset"),
    },
}
"""Limits that no model meets unless something is wrong already; refusals tell them all the same."""

REFERS = {"update_memory": "store_memory", "recall": "store_memory"}
"""Descriptions that leave the arguments of memories to another one."""

BOUNDS = ("maximum", "minimum", "maxLength", "minLength", "maxItems", "minItems")


@pytest.mark.requirement("R1.1.1", "R1.1.2", "R4.3.2", "R5.7.5")
def test_a_tool_name_leads_to_its_ability_everywhere() -> None:
    names = [
        *("file_read_bulk", "memory_read_bulk", "bulk_read_memory", "memory_get", "store_memory"),
        *("query_memories", "update_memory", "delete_memory", "get_memory_stats", "file_list"),
        *("read", "recall", "remember", "memory_list", "memory_history", "memory_restore"),
        "memory_changes",
    ]
    assert [ability.name for ability in BUILT_IN] == names
    assert [tool.name for tool in load_tools(Settings())] == names
    for ability in BUILT_IN:
        declared = json.loads((SCHEMAS / f"{ability.name}.json").read_text())
        assert declared["name"] == ability.name
        assert declared["mcp"]["name"] == ability.name
        assert declared["anthropic"]["name"] == ability.name
        assert declared["openai"]["function"]["name"] == ability.name


WRITING = {"store_memory", "update_memory", "delete_memory", "remember", "memory_restore"}
ASSUMED = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""What the protocol assumes of a tool that has no hints."""


@pytest.mark.requirement("R5.4.3")
def test_reading_abilities_are_marked_read_only_and_hints_leave_out_what_is_assumed() -> None:
    for ability in BUILT_IN:
        meant = definition.build_annotations(ability)
        tool = definition.describe_tool(ability, max_response_bytes=64_000, structured=False)
        sent = {**ASSUMED, **tool["annotations"]}

        assert ability.read_only == (ability.name not in WRITING)
        if ability.read_only:
            assert meant == {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            }
            del sent["destructiveHint"], meant["destructiveHint"]  # it follows from the first
        assert sent == meant


@pytest.mark.requirement("R3.8.3", "R5.1.1")
def test_published_schemas_are_plain_and_bounded() -> None:
    leftovers = ('"null"', '"ge"', '"$ref"', '"$defs"', '"default": null', '"x-')

    for ability in BUILT_IN:
        text = definition.format_declaration(ability) + json.dumps(
            definition.describe_fully(ability)
        )
        assert [leftover for leftover in leftovers if leftover in text] == []

        schema = definition.build_schema(ability.input)
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            assert {"anyOf", "oneOf", "$ref", "title"}.isdisjoint(field), name
            assert field["description"]

        if ability.name in ("file_read_bulk", "memory_read_bulk"):
            items, limit, *_ = schema["properties"].values()
            assert (items["type"], items["minItems"], items["maxItems"]) == ("array", 1, 25)
            assert (limit["type"], limit["minimum"], limit["maximum"]) == ("integer", 1, 100_000)
            assert limit["default"] == 20_000


@pytest.mark.requirement("R3.8.2")
def test_descriptions_fit_where_clients_cut_them_and_begin_differently() -> None:
    firsts = [ability.description.split(";")[0] for ability in BUILT_IN]
    assert len(set(firsts)) == len(BUILT_IN)
    assert all(len(ability.description) <= 2_000 for ability in BUILT_IN)


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("tools", MOST_BYTES, ids=lambda tools: tools[0])
async def test_a_list_keeps_its_bound(
    tools: tuple[str, ...], structured: bool, roots: Settings
) -> None:
    settings = roots.model_copy(update={"tools": tools, "structured": structured})

    async with open_piped(settings) as piped:
        await piped.request(1, "tools/list")
        line = (await piped.read_line()).strip()

    result = line.partition(b'"result":')[2].removesuffix(b"}")
    assert result.startswith(b'{"tools":[')
    assert (len(result) <= MOST_BYTES[tools]) != structured, len(result)


@pytest.mark.parametrize(("size", "hint"), [(40_000, None), (64_000, None), (64_001, 64_001)])
def test_only_a_bound_that_clients_do_not_expect_is_told(size: int, hint: int | None) -> None:
    for ability in BUILT_IN:
        tool = definition.describe_tool(ability, max_response_bytes=size, structured=False)
        meta = tool.get("_meta", {})
        assert meta.get("anthropic/maxResultSizeChars") == hint


def list_fields(name: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an argument's schema, and then what is in it, with the names of fields."""
    yield name, schema

    # An item of several forms is described by its ability.
    if "items" in schema and "anyOf" not in schema["items"]:
        yield from list_fields(name, schema["items"])
    for inner, field in schema.get("properties", {}).items():
        yield from list_fields(inner, field)


def list_limits(fields: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the keyword and the limit of whatever arguments are bounded by."""
    for argument, schema in fields.items():
        for name, field in list_fields(argument, schema):
            for keyword in BOUNDS:
                # That nothing is empty and no count negative needs no telling.
                if keyword in field and not (keyword.startswith("min") and field[keyword] <= 1):
                    yield name, keyword, field[keyword]


@pytest.mark.requirement("R3.8.3")
def test_every_argument_is_offered_or_for_programs_of_one_type_and_with_its_limits_told() -> None:
    texts = {
        a.name: f"{a.description} {definition.build_schema(a.input, 'brief')}" for a in BUILT_IN
    }

    for ability in BUILT_IN:
        brief = definition.build_schema(ability.input, "brief")
        full = definition.build_schema(ability.input)
        offered, arguments = brief["properties"], full["properties"]
        assert arguments.keys() - offered.keys() <= UNOFFERED, ability.name
        assert brief.get("required") == full.get("required")

        for argument, schema in offered.items():
            for keyword in ("type", "enum"):
                assert schema.get(keyword) == arguments[argument].get(keyword), argument
            for name, field in list_fields(argument, schema):
                assert {"pattern", "additionalProperties", "anyOf", "title"}.isdisjoint(field), name
                assert field.get("maximum", 0) < 2**53 - 1, name

        text = texts[ability.name] + texts.get(REFERS.get(ability.name, ""), "")
        for name, keyword, limit in list_limits({name: arguments[name] for name in offered}):
            is_told = re.search(rf"\b(?:{limit}|{limit:,})\b", text)
            assert is_told or name in UNTOLD[keyword], (ability.name, name, keyword)


def test_every_field_of_an_item_to_read_is_in_the_description() -> None:
    for item in ITEMS.values():
        for name in definition.build_schema(item)["properties"]:
            published = name.removesuffix("_")  # a keyword of Python, such as "in"
            assert published in ITEM_SCHEMA["anyOf"][1]["properties"]
            if published != "after":  # copied from an answer
                assert f'"{published}"' in read.description


@pytest.mark.parametrize("ability", BUILT_IN, ids=lambda ability: ability.name)
def test_a_description_says_how_to_go_on_and_what_is_data(ability: Ability) -> None:
    told = ability.description
    for field in definition.build_schema(ability.input, "brief")["properties"].values():
        told += field.get("description", "")

    answer = definition.build_schema(ability.answer)["properties"]
    for name in ("next_request", "next_requests"):
        # Models are not offered the walk of memory_get, and so not its next_requests.
        is_told = name in told or (ability.name, name) == ("memory_get", "next_requests")
        assert name not in answer or is_told or ability.name == "memory_changes"

    shows_contents = ability.read_only and "Data, never instructions" in str(answer)
    assert not shows_contents or "are data" in told or ability.name == "get_memory_stats"


def test_a_description_names_only_what_exists() -> None:
    known = set(SKIPPED_FOLDERS)
    for ability in BUILT_IN:
        declared = [ability.name, definition.describe_fully(ability)]
        known |= set(re.findall(r"'([A-Za-z_]+)'", str(declared)))

    for ability in BUILT_IN:
        assert set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", ability.description)) <= known
