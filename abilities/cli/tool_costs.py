"""What a list of tools costs a model, by profile, and which profile suits a client."""

from abilities.adapters.tools import describe_tool
from abilities.builtin.profiles import ALL, PROFILES
from abilities.clients.table import Client
from abilities.declarations.limits import TOKEN_BYTES
from abilities.helpers.reply.encoding import json_size, text_size
from abilities.instructions import build_instructions
from abilities.offer import build_offer
from abilities.settings import Settings


def explain_tools(client: Client, settings: Settings) -> str:
    """Return what each profile costs, and the one that is recommended for a client."""
    costs = [f"{name} {count_tokens(settings, name):,}" for name in (ALL, *PROFILES)]

    advised, reason = "lean", "its model may read all descriptions in every conversation"
    if client.defers_tools:
        advised, reason = ALL, "its model reads only the descriptions that it looks for"

    return (
        f"Tokens of the tools: {', '.join(costs)}. Recommended for {client.title}: "
        f"--tools {advised}, because {reason}."
    )


def count_tokens(settings: Settings, profile: str) -> int:
    """Return the tokens of a profile's list of tools and instructions, at 4 bytes each."""
    chosen = settings.model_copy(update={"tools": (profile,)})
    registry = build_offer(chosen)[0].registry
    tools = [describe_tool(ability, chosen) for ability in registry]

    size = json_size({"tools": tools}) + text_size(build_instructions(registry.names))
    return -(-size // TOKEN_BYTES)
