"""Abilities as MCP describes them, in plain JSON: what a client's model reads of each tool."""

from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.schemas import build_annotations, build_input_schema, build_output_schema
from abilities.settings import Settings

EXPECTED_RESPONSE_BYTES = 64_000
"""Clients give answers of this size to their model as they are; larger ones need a hint."""


def describe_tool(ability: Ability, settings: Settings) -> JsonObject:
    """Return an ability as an MCP tool, with its fields in the order in which they are sent.

    Its output schema is declared only if the settings ask for structured content.
    """
    tool: JsonObject = {
        "annotations": _build_hints(ability),
        "description": ability.description,
        "inputSchema": build_input_schema(ability),
        "name": ability.name,
    }
    if settings.max_response_bytes > EXPECTED_RESPONSE_BYTES:
        hint = {"anthropic/maxResultSizeChars": settings.max_response_bytes}
        tool = {"_meta": hint, **tool}

    if settings.structured:
        tool["outputSchema"] = build_output_schema(ability)

    tool["title"] = ability.title
    return tool


def _build_hints(ability: Ability) -> JsonObject:
    """Return MCP's hints without those that it assumes, or that mean nothing beside the others."""
    hints = build_annotations(ability)
    for name in ("readOnlyHint", "idempotentHint"):
        if not hints[name]:
            del hints[name]

    if ability.read_only:
        del hints["destructiveHint"]

    return dict(sorted(hints.items()))
