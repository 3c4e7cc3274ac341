"""An agent of the OpenAI Agents SDK that reads files, one of which is missing, in one tool call.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import json
import tempfile
from pathlib import Path

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from abilities import Settings
from abilities.adapters.openai_agents import load_tools


class Scripted(Model):
    """Asks for three files, and then repeats what it got."""

    async def get_response(self, system_instructions, input, *args, **options) -> ModelResponse:
        """Answer the last item of the input."""
        last = input[-1]
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(type="output_text", text=last["output"], annotations=[])
            output = ResponseOutputMessage(
                id="1", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            output = ResponseFunctionToolCall(
                type="function_call",
                call_id="1",
                name="file_read_bulk",
                arguments=json.dumps({"paths": ["a.py", "b.py", "c.py"]}),
            )

        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        """Not needed here."""
        raise NotImplementedError


async def main() -> bool:
    """Run the agent for Ada, and check what its model got."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(f"# {name}\n")

        tools = load_tools(Settings(workspace_dir=folder), read_only=True)
        agent = Agent(name="reader", model=Scripted(), tools=tools)
        result = await Runner.run(
            agent,
            [{"role": "user", "content": "Look around."}],
            context={"namespace": "ada"},
            run_config=RunConfig(tracing_disabled=True),
        )

    assert '"requested":3,"succeeded":2,"failed":1' in result.final_output
    assert "# a.py" in result.final_output
    return True


if __name__ == "__main__":
    asyncio.run(main())
