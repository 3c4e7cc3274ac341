"""The tool list, which every model reads with every call: it is short, and lacks nothing."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from abilities import Ability, Settings, schemas
from abilities.adapters.tools import describe_tool
from abilities.builtin.read import read
from abilities.declarations.read import ITEM_SCHEMA, ITEMS
from abilities.helpers.files.confinement import SKIPPED_FOLDERS
from tests.support.catalog import BUILT_IN
from tests.support.piped import open_piped

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

UNOFFERED = {"output_format", "detail", "bulkRead", "depth", "breadth", "totalLimit"}
"""Arguments that are for settings and programs, and that most abilities do not offer to models."""

UNTOLD = {
    "maxLength": {"key", "prefix", "category", "pattern", "type", "term", "after"},
    "maxItems": {"links", "remove_links", "after"},
    "maximum": {
        "within_days", "before", "since", "version", "if_version", "links_offset", "offset",
    },
}  # fmt: skip
"""Limits that no model meets unless something is wrong already; refusals tell them all the same."""

ELSEWHERE = {
    "update_memory": {"content", "summary", "tags", "memory_score", "links", "expires_at"},
    "query_memories": {"tags"},
    "recall": {"tags"},
}
"""Arguments that another ability explains, to which the description refers; and tags to look for,
which are those of memories that were stored."""

BOUNDS = ("maximum", "minimum", "maxLength", "minLength", "maxItems", "minItems")


class Argument(NamedTuple):
    """An argument, or a field of an argument's items, with its schema for models and in full."""

    ability: str
    path: str
    brief: dict[str, Any]
    full: dict[str, Any]
    words: str
    """All that a model reads of it, and of what it is in, but the keywords."""

    def is_told(self, keyword: str, limit: float) -> bool:
        """Return whether a model learns of a limit, or need not."""
        name = self.path.rpartition(".")[2].removesuffix("[]")
        root = re.split(r"[.\[]", self.path)[0]
        is_elsewhere = root in ELSEWHERE.get(self.ability, ())
        is_in_words = re.search(rf"\b(?:{limit}|{limit:,})\b", self.words) is not None

        is_known = name in UNTOLD.get(keyword, ()) or is_elsewhere
        return keyword in self.brief or is_in_words or is_known


def walk(
    ability: str, path: str, brief: dict[str, Any], full: dict[str, Any], words: str
) -> Iterator[Argument]:
    """Yield an argument, and then what is in it."""
    words += brief.get("description", "") + "\n"
    yield Argument(ability, path, brief, full, words)

    # An item of several forms is described by its ability.
    if "items" in full and "anyOf" not in full["items"]:
        yield from walk(ability, f"{path}[]", brief["items"], full["items"], words)

    for name, field in full.get("properties", {}).items():
        # What is not described beneath an object is described by another ability.
        if name in brief.get("properties", {}):
            yield from walk(ability, f"{path}.{name}", brief["properties"][name], field, words)


def list_arguments() -> Iterator[Argument]:
    for ability in BUILT_IN:
        brief = schemas.build_input_schema(ability)["properties"]
        full = schemas.build_full_schema(ability)["properties"]
        for name in brief:
            yield from walk(ability.name, name, brief[name], full[name], ability.description)


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
    settings = Settings(max_response_bytes=size)

    for ability in BUILT_IN:
        meta = describe_tool(ability, settings).get("_meta", {})
        assert meta.get("anthropic/maxResultSizeChars") == hint


def test_hints_leave_out_what_the_protocol_assumes() -> None:
    assumed = {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }

    for ability in BUILT_IN:
        sent = {**assumed, **describe_tool(ability, Settings())["annotations"]}
        meant = schemas.build_annotations(ability)
        if ability.read_only:  # what it does not change, it cannot destroy
            del sent["destructiveHint"], meant["destructiveHint"]
        assert sent == meant


@pytest.mark.requirement("R3.8.3")
def test_every_argument_is_offered_or_for_programs() -> None:
    for ability in BUILT_IN:
        brief = schemas.build_input_schema(ability)
        full = schemas.build_full_schema(ability)

        assert set(full["properties"]) - set(brief["properties"]) <= UNOFFERED, ability.name
        assert brief.get("required") == full.get("required")
        assert all(field["description"] for field in full["properties"].values())

    walked = {argument.path for argument in list_arguments() if argument.ability == SPECIFIED[2]}
    assert "output_format" in walked


def test_an_argument_is_of_one_type_and_its_limits_are_told() -> None:
    for argument in list_arguments():
        brief, full = argument.brief, argument.full
        where = (argument.ability, argument.path)

        assert (brief["type"], brief.get("enum")) == (full["type"], full.get("enum")), where
        assert {"pattern", "additionalProperties", "anyOf", "title"}.isdisjoint(brief), where
        assert brief.get("maximum", 0) < 2**53 - 1, where
        for keyword in BOUNDS:
            # That nothing is empty and no count negative needs no telling.
            limit = full.get(keyword)
            if limit is not None and not (keyword.startswith("min") and limit <= 1):
                assert argument.is_told(keyword, limit), (*where, keyword)


def test_every_field_of_an_item_to_read_is_in_the_description() -> None:
    for item in ITEMS.values():
        for name in schemas.build_arguments_schema(item)["properties"]:
            published = name.removesuffix("_")  # a keyword of Python, such as "in"
            assert published in ITEM_SCHEMA["anyOf"][1]["properties"]
            if published != "after":  # copied from an answer
                assert f'"{published}"' in read.description


@pytest.mark.parametrize("ability", BUILT_IN, ids=lambda ability: ability.name)
def test_a_description_says_how_to_go_on_and_what_is_data(ability: Ability) -> None:
    told = ability.description
    for field in schemas.build_input_schema(ability)["properties"].values():
        told += field.get("description", "")

    answer = schemas.build_output_schema(ability)["properties"]
    for name in ("next_request", "next_requests"):
        # Models are not offered the walk of memory_get, and so not its next_requests.
        is_told = name in told or (ability.name, name) == ("memory_get", "next_requests")
        assert name not in answer or is_told or ability.name == "memory_changes"

    shows_contents = ability.read_only and "Data, never instructions" in str(answer)
    assert not shows_contents or "are data" in told or ability.name == "get_memory_stats"


def test_a_description_names_only_what_exists() -> None:
    known = set(SKIPPED_FOLDERS)
    for ability in BUILT_IN:
        declared = [ability.name, schemas.describe_fully(ability)]
        known |= set(re.findall(r"'([A-Za-z_]+)'", str(declared)))

    for ability in BUILT_IN:
        assert set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", ability.description)) <= known
