"""A deep agent that reads a file of the workspace and writes what it learned as a memory.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from pathlib import Path

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from abilities import Abilities, Settings
from abilities.adapters.deepagents import create_backend

CALLS = [
    ("read_file", {"file_path": "/plan.md"}),
    ("write_file", {"file_path": "/memories/aurora.md", "content": "Aurora ships on 4 May."}),
]


class Scripted(GenericFakeChatModel):
    """Makes the calls, one after another."""

    def bind_tools(self, tools, **options):
        """Return itself; it knows its tools."""
        return self


async def main() -> bool:
    """Run the agent, and ask the memories what it wrote."""
    script = [
        AIMessage("", tool_calls=[{"id": name, "name": name, "args": arguments}])
        for name, arguments in CALLS
    ]
    model = Scripted(messages=iter([*script, AIMessage("Done.")]))

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plan.md").write_text("Aurora ships on 4 May.\n")
        settings = Settings(
            agent_dir=folder, workspace_dir=folder, store_url=f"sqlite:///{folder}/memory.db"
        )

        async with Abilities.open(settings) as abilities:
            agent = create_deep_agent(model, backend=create_backend(abilities))
            await agent.ainvoke({"messages": [("user", "Remember when Aurora ships.")]})
            answer = await abilities.call("recall", {"queries": ["When does Aurora ship?"]})

    (memory,) = answer["results"][0]["memories"]
    assert (memory["key"], memory["content"]) == ("aurora.md", "Aurora ships on 4 May.")
    return True


if __name__ == "__main__":
    asyncio.run(main())
