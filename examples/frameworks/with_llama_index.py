"""An agent of LlamaIndex that reads files, one of which is missing, in one tool call.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.workflow import Context

from abilities import Settings
from abilities.adapters.llama_index import load_tools


def answer(messages: Sequence[ChatMessage], **options: object) -> ChatMessage:
    """Ask for three files, and then repeat what came back."""
    last = messages[-1]
    if last.role == "tool":
        return ChatMessage(last.content, role="assistant")

    call = ToolCallBlock(
        tool_call_id="1",
        tool_name="file_read_bulk",
        tool_kwargs={"paths": ["a.py", "b.py", "c.py"]},
    )
    return ChatMessage(role="assistant", blocks=[call])


async def main() -> bool:
    """Run the agent for Ada, and check what its model got."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(f"# {name}\n")

        tools = load_tools(Settings(workspace_dir=folder), read_only=True)
        model = MockFunctionCallingLLM(response_generator=answer)
        agent = FunctionAgent(tools=tools, llm=model, streaming=False)
        context = Context(agent)
        await context.store.set("namespace", "ada")
        result = await agent.run("Look around.", ctx=context)

    assert '"requested":3,"succeeded":2,"failed":1' in str(result)
    assert "# a.py" in str(result)
    return True


if __name__ == "__main__":
    asyncio.run(main())
