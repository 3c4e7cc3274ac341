"""Anthropic's memory tool over memories: what a model writes as a file is recalled elsewhere.

The commands are those that a model sends. With a key, give the tool to
`client.beta.messages.tool_runner(..., tools=[tool])` of an `AsyncAnthropic` client instead.
"""

import asyncio
import tempfile

from abilities import Abilities, Settings
from abilities.adapters.anthropic_memory import AsyncMemoryTool


async def main() -> bool:
    """Write a file as a model does, and recall it as a memory."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(agent_dir=folder, store_url=f"sqlite:///{folder}/memory.db")

        async with Abilities.open(settings) as abilities:
            tool = AsyncMemoryTool(abilities, namespace="ada")
            await tool.call(
                {
                    "command": "create",
                    "path": "/memories/people/grace.md",
                    "file_text": "Grace leads the compiler team.",
                }
            )
            listed = await tool.call({"command": "view", "path": "/memories"})

            mine = abilities.for_namespace("ada")
            answer = await mine.call("recall", {"queries": ["Who leads the compiler team?"]})

    assert "/memories/people/grace.md" in str(listed)
    assert answer["results"][0]["memories"][0]["key"] == "people/grace.md"
    return True


if __name__ == "__main__":
    asyncio.run(main())
