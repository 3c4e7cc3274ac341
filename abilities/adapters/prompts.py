"""Prompts as MCP describes them, in plain JSON, for every server of MCP."""

from abilities.application import Abilities
from abilities.declarations.values import JsonObject
from abilities.instructions import build_instructions
from abilities.prompts import Prompt, list_offered, list_prompts


def describe_server(abilities: Abilities) -> str:
    """Return the instructions for a caller's model."""
    return build_instructions(list_offered(abilities))


def describe_prompts(abilities: Abilities) -> list[JsonObject]:
    """Return the prompts that a caller is offered, with their fields in the order of the SDK."""
    return [_describe(prompt) for prompt in list_prompts(abilities)]


def _describe(prompt: Prompt) -> JsonObject:
    arguments: list[JsonObject] = []
    for name, field in prompt.input.model_fields.items():
        argument = {"description": field.description, "name": name, "required": field.is_required()}
        arguments.append(argument)

    return {
        "arguments": arguments,
        "description": prompt.description,
        "name": prompt.name,
        "title": prompt.title,
    }
