"""What clients learn about each ability: name, schemas, annotations, description."""

import json

import pytest

from abilities import Settings, schemas
from abilities.adapters.langchain import load_tools
from tests.support.catalog import BUILT_IN
from tests.support.sources import ROOT

SCHEMAS = ROOT / "declarations" / "schemas"


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


@pytest.mark.requirement("R5.4.3")
def test_reading_abilities_are_marked_read_only_and_idempotent() -> None:
    writing = {"store_memory", "update_memory", "delete_memory", "remember", "memory_restore"}
    for ability in BUILT_IN:
        assert ability.read_only == (ability.name not in writing)
        if ability.name in writing:
            continue
        assert schemas.build_annotations(ability) == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }


@pytest.mark.requirement("R3.8.3", "R5.1.1")
def test_published_schemas_are_plain_and_bounded() -> None:
    for ability in BUILT_IN:
        schema = schemas.build_schema(ability.input)
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            assert {"anyOf", "oneOf", "$ref", "title"}.isdisjoint(field), name
            assert field["description"]
        if "bulk" not in ability.name or ability.name == "bulk_read_memory":
            continue
        items, limit, *_ = schema["properties"].values()
        assert (items["type"], items["minItems"], items["maxItems"]) == ("array", 1, 25)
        assert (limit["type"], limit["minimum"], limit["maximum"]) == ("integer", 1, 100_000)
        assert limit["default"] == 20_000


@pytest.mark.requirement("R3.8.3")
def test_schemas_hold_no_reference_no_null_and_no_validators_leftover() -> None:
    leftovers = ('"null"', '"ge"', '"$ref"', '"$defs"', '"default": null', '"x-')

    for ability in BUILT_IN:
        text = schemas.format_declaration(ability) + json.dumps(schemas.describe_fully(ability))
        assert [leftover for leftover in leftovers if leftover in text] == []


@pytest.mark.requirement("R3.8.2")
def test_descriptions_fit_where_clients_cut_them_and_begin_differently() -> None:
    firsts = [ability.description.split(";")[0] for ability in BUILT_IN]
    assert len(set(firsts)) == len(BUILT_IN)
    assert all(len(ability.description) <= 2_000 for ability in BUILT_IN)
