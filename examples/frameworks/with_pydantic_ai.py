"""An agent of pydantic-ai that reads files, one of which is missing, in one tool call.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from abilities import Settings
from abilities.adapters.pydantic_ai import load_tools


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for three files, and then repeat what came back."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(last.content)])

    call = ToolCallPart("file_read_bulk", {"paths": ["a.py", "b.py", "c.py"]})
    return ModelResponse(parts=[call])


@dataclass
class User:
    """Whose run it is."""

    namespace: str


async def main() -> bool:
    """Run the agent for Ada, and check what its model got."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(f"# {name}\n")

        tools = load_tools(Settings(workspace_dir=folder), read_only=True)
        agent = Agent(FunctionModel(answer), tools=tools, deps_type=User)
        result = await agent.run("Look around.", deps=User("ada"))

    assert '"requested":3,"succeeded":2,"failed":1' in result.output
    assert "# a.py" in result.output
    return True


if __name__ == "__main__":
    asyncio.run(main())
