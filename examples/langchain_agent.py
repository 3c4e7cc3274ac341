"""An agent that reads three files and its notes in two tool calls.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

from abilities import Settings
from abilities.adapters.langchain import load_tools


class Scripted(GenericFakeChatModel):
    """Sends the messages that it was created with."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Scripted":
        """Take any tools."""
        return self


async def main() -> list[ToolMessage]:
    """Run the agent; returns what its tools answered."""
    with tempfile.TemporaryDirectory() as folder:
        agent_dir, workspace = Path(folder, "agent"), Path(folder, "workspace")
        agent_dir.mkdir()
        workspace.mkdir()
        (agent_dir / "MEMORY.md").write_text("- The user likes short answers.\n")
        for name in ("a.py", "b.py"):
            (workspace / name).write_text(f"# {name}\n")

        tools = load_tools(Settings(agent_dir=agent_dir, workspace_dir=workspace), read_only=True)
        calls = [
            {"id": "1", "name": "file_read_bulk", "args": {"paths": ["a.py", "b.py", "c.py"]}},
            {"id": "2", "name": "memory_read_bulk", "args": {"targets": [{"type": "long_term"}]}},
        ]
        model = Scripted(
            messages=iter([AIMessage("", tool_calls=calls), AIMessage("Two files and my notes.")])
        )
        state = await create_agent(model, tools).ainvoke(
            {"messages": [{"role": "user", "content": "Look around."}]}
        )

        answers = [message for message in state["messages"] if isinstance(message, ToolMessage)]
        successes = [record["success"] for record in answers[0].artifact["results"]]
        assert successes == [True, True, False]
        assert "short answers" in str(answers[1].content)
        return answers


if __name__ == "__main__":
    for answer in asyncio.run(main()):
        print(answer.content)
