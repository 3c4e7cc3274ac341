"""Abilities as MCP describes them, in plain JSON, for every server of MCP."""

from importlib.metadata import version
from typing import NamedTuple

from abilities.application import Abilities
from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.replies import Reply
from abilities.schemas import build_annotations, build_input_schema, build_output_schema
from abilities.settings import Settings

SERVER_NAME = "agent-abilities"

EXPECTED_RESPONSE_BYTES = 64_000
"""Clients give answers of this size to their model as they are; larger ones need a hint."""

JSON_TYPE = "application/json"


def get_server_version() -> str:
    """Return the version of this package."""
    return version(SERVER_NAME)


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


def describe_template(ability: Ability) -> JsonObject:
    """Return the template of the URIs by which an ability can be read; it must have one."""
    return {
        "description": ability.description,
        "mimeType": JSON_TYPE,
        "name": ability.name,
        "title": ability.title,
        "uriTemplate": ability.resource,
    }


async def call_tool(abilities: Abilities, name: str, arguments: JsonObject | None) -> Reply:
    """Call an ability that is in the registry, and return its reply in a form for models."""
    structured = abilities.settings.structured
    return await abilities.reply(name, arguments, for_model=True, structured=structured)


def get_structured(abilities: Abilities, reply: Reply) -> JsonObject | None:
    """Return what is sent beside the text of a reply, if anything is.

    The payload travels once by default: many clients give both forms to the model.
    """
    if not abilities.settings.structured or reply.failed:
        return None

    return reply.payload


class UnknownTool(NamedTuple):
    """What is answered if no tool has a name: a sentence, and the fault as its data."""

    message: str
    data: JsonObject


def explain_unknown_tool(abilities: Abilities, name: str) -> UnknownTool:
    """Return the answer for a name that no tool has, with the one that it probably means."""
    refusal = abilities.registry.explain_unknown(name)
    message = "Unknown tool."
    if refusal.did_you_mean is not None:
        message = f"Unknown tool; did you mean '{refusal.did_you_mean}'?"

    return UnknownTool(message, Fault.from_refusal(refusal).to_payload())
