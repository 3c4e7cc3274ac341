"""An agent of Google's ADK that reads files, one of which is missing, in one tool call.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from abilities import Settings
from abilities.adapters.google_adk import load_tools


class Scripted(BaseLlm):
    """Asks for three files, and then repeats what it got."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer the last message."""
        answer = llm_request.contents[-1].parts[0].function_response
        if answer is None:
            part = types.Part.from_function_call(
                name="file_read_bulk", args={"paths": ["a.py", "b.py", "c.py"]}
            )
        else:
            part = types.Part(text=answer.response["result"])

        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main() -> bool:
    """Run the agent for Ada, and check what its model got."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(f"# {name}\n")

        tools = load_tools(Settings(workspace_dir=folder), read_only=True)
        runner = InMemoryRunner(LlmAgent(name="reader", model=Scripted(), tools=tools))
        session = await runner.session_service.create_session(
            app_name=runner.app_name, user_id="ada", state={"namespace": "ada"}
        )
        events = runner.run_async(
            user_id="ada", session_id=session.id, new_message=types.UserContent("Look around.")
        )
        texts = [event.content.parts[0].text async for event in events]

    assert '"requested":3,"succeeded":2,"failed":1' in texts[-1]
    assert "# a.py" in texts[-1]
    return True


if __name__ == "__main__":
    asyncio.run(main())
