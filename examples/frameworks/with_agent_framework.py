"""An agent of the Microsoft Agent Framework that reads files, one missing, in one tool call.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from abilities import Settings
from abilities.adapters.agent_framework import load_tools


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Asks for three files, and then repeats what it got."""

    async def _inner_get_response(
        self, *, messages: Sequence[Message], **options: Any
    ) -> ChatResponse:
        last = messages[-1].contents[-1]
        if last.type == "function_result":
            answer = Content.from_text(last.result)
        else:
            paths = {"paths": ["a.py", "b.py", "c.py"]}
            answer = Content.from_function_call("call-1", "file_read_bulk", arguments=paths)

        return ChatResponse(messages=[Message("assistant", [answer])])


async def main() -> bool:
    """Run the agent for Ada, and check what its model got."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(f"# {name}\n")

        tools = load_tools(Settings(workspace_dir=folder), read_only=True)
        agent = Agent(Scripted(), tools=tools)
        response = await agent.run("Look around.", function_invocation_kwargs={"namespace": "ada"})

    assert '"requested":3,"succeeded":2,"failed":1' in response.text
    assert "# a.py" in response.text
    return True


if __name__ == "__main__":
    asyncio.run(main())
