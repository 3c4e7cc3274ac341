"""Descriptions of abilities as MCP tools, in plain JSON."""

from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.schemas import build_annotations, build_input_schema, build_output_schema
from abilities.settings import Settings

EXPECTED_RESPONSE_BYTES = 64_000
"""Clients pass responses up to this size on to their model. Larger ones need a hint."""


def describe_tool(ability: Ability, settings: Settings) -> JsonObject:
    """Return an ability as an MCP tool, with its fields in the order in which they are sent.

    Its output schema is included only if the settings ask for structured content.
    """
    # Hints that MCP assumes, or that mean nothing beside the others, are left out.
    hints = build_annotations(ability)
    for name in ("readOnlyHint", "idempotentHint"):
        if not hints[name]:
            del hints[name]

    if ability.read_only:
        del hints["destructiveHint"]

    tool: JsonObject = {
        "annotations": dict(sorted(hints.items())),
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
