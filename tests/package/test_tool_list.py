"""The tool list, which every model reads with every call: it is short, and lacks nothing."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from abilities import Ability, Settings, schemas
from abilities.adapters.tools import describe_tool
from abilities.builtin.read import read
from abilities.declarations.read import ITEM_SCHEMA, ITEMS, Kind
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

EVIDENT = {
    "after", "archived", "breadth", "category", "content", "depth", "id", "if_version",
    "importance", "items", "key", "limit", "link_weight", "max_chars_per_file",
    "max_chars_per_item",
    "memory_score", "metadata", "offset", "operations", "paths", "permanent", "queries", "search",
    "sort_by", "sort_order", "summary", "tags", "targets", "term", "type", "version",
    "within_days", "links", "remove_links",
}  # fmt: skip
"""Arguments whose names say what they are, for whoever has read what the ability does."""

UNTOLD: dict[tuple[str, str], str] = {
    ("key", "maxLength"): "nobody chooses a key of 200 characters",
    ("prefix", "maxLength"): "nobody chooses a key of 200 characters",
    ("category", "maxLength"): "nobody chooses a category of 50 characters",
    ("pattern", "maxLength"): "nobody writes a glob of 1,024 characters",
    ("type", "maxLength"): "nobody chooses a kind of link of 50 characters",
    ("term", "maxLength"): "nobody writes a term of 200 characters",
    ("links", "maxItems"): "a content of 5,000 characters does not mention 1,000 others",
    ("remove_links", "maxItems"): "likewise",
    ("within_days", "maximum"): "a century",
    ("after", "maxLength"): "copied from an answer",
    ("after", "maxItems"): "copied from an answer",
    ("before", "maximum"): "copied from an answer",
    ("since", "maximum"): "copied from an answer",
    ("version", "maximum"): "copied from an answer",
    ("if_version", "maximum"): "copied from an answer",
    ("links_offset", "maximum"): "the largest integer of JSON",
    ("offset", "maximum"): "the largest integer of JSON",
}
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

    ability: Ability
    path: str
    brief: dict[str, Any]
    full: dict[str, Any]
    words: str
    """All that a model reads of it, and of what it is in, but the keywords."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2].removesuffix("[]")

    @property
    def root(self) -> str:
        return re.split(r"[.\[]", self.path)[0]

    @property
    def is_elsewhere(self) -> bool:
        return self.root in ELSEWHERE.get(self.ability.name, ())


def walk(
    ability: Ability, path: str, brief: dict[str, Any], full: dict[str, Any], words: str
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


def list_arguments() -> list[Argument]:
    found: list[Argument] = []

    for ability in BUILT_IN:
        brief = schemas.build_input_schema(ability)["properties"]
        full = schemas.build_full_schema(ability)["properties"]
        for name in brief:
            found += walk(ability, name, brief[name], full[name], f"{ability.description}\n")

    return found


ARGUMENTS = list_arguments()


def says(text: str, number: float) -> bool:
    """Return whether a text holds a number, with or without commas in it."""
    return re.search(rf"\b(?:{number}|{number:,})\b", text) is not None


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

    walked = {argument.path for argument in ARGUMENTS if argument.ability.name == SPECIFIED[2]}
    assert "output_format" in walked


@pytest.mark.parametrize("argument", ARGUMENTS, ids=lambda argument: argument.path)
def test_every_argument_says_what_it_is(argument: Argument) -> None:
    assert argument.brief["type"] == argument.full["type"]
    assert argument.brief.get("enum") == argument.full.get("enum")

    is_told = "description" in argument.brief or "enum" in argument.brief
    is_named = re.search(rf"\b{argument.name}\b", argument.ability.description) is not None
    assert is_told or is_named or argument.name in EVIDENT or argument.is_elsewhere


@pytest.mark.parametrize("argument", ARGUMENTS, ids=lambda argument: argument.path)
def test_every_limit_is_told_once(argument: Argument) -> None:
    for keyword in BOUNDS:
        limit = argument.full.get(keyword)
        # That nothing is empty and no count negative needs no telling.
        if limit is None or (keyword.startswith("min") and limit <= 1):
            continue

        told = (keyword in argument.brief) + says(argument.words, limit)
        if (argument.name, keyword) in UNTOLD or argument.is_elsewhere:
            assert told <= 1, keyword
        else:
            assert told == 1, keyword


@pytest.mark.parametrize("argument", ARGUMENTS, ids=lambda argument: argument.path)
def test_no_words_repeat_a_keyword(argument: Argument) -> None:
    description = argument.full.get("description", "")

    for keyword in BOUNDS:
        limit = argument.full.get(keyword, 0)
        if keyword in argument.brief and limit not in (0, 1):
            assert not says(description, limit), keyword

    if "default" in argument.full:
        assert "default" not in description.lower()
    choices = argument.full.get("enum", [])
    assert len(choices) < 2 or f"{choices[0]}, {choices[1]}" not in description


@pytest.mark.parametrize("kind", ITEMS)
def test_every_field_of_an_item_to_read_is_in_the_description(kind: Kind) -> None:
    fields = schemas.build_arguments_schema(ITEMS[kind])["properties"]

    for name in fields:
        published = name.removesuffix("_")  # a keyword of Python, such as "in"
        assert published in ITEM_SCHEMA["anyOf"][1]["properties"]
        if published != "after":  # copied from an answer
            assert f'"{published}"' in read.description


def test_a_model_reads_no_pattern_and_no_bound_of_a_number_format() -> None:
    for argument in ARGUMENTS:
        assert {"pattern", "additionalProperties", "anyOf", "title"}.isdisjoint(argument.brief)
        assert argument.brief.get("maximum", 0) < 2**53 - 1


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


@pytest.mark.parametrize("ability", BUILT_IN, ids=lambda ability: ability.name)
def test_a_description_names_only_what_exists(ability: Ability) -> None:
    known: set[str] = set()
    for other in BUILT_IN:
        declared = [other.name, schemas.describe_fully(other)]
        known |= set(re.findall(r"'([A-Za-z_]+)'", str(declared)))

    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", ability.description))
    assert named <= known.union(SKIPPED_FOLDERS)
