"""A crew that reads files, one of which is missing, in one tool call.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task

from abilities import Abilities, Settings
from abilities.adapters.crewai import load_tools


class Scripted(BaseLLM):
    """Asks for three files, and then repeats what it got."""

    def call(self, messages: Any, *args: Any, **more: Any) -> Any:
        """Answer the last message."""
        if messages[-1]["role"] == "tool":
            return messages[-1]["content"]

        function = {"name": "file_read_bulk", "arguments": '{"paths": ["a.py", "b.py", "c.py"]}'}
        return [{"id": "call-1", "type": "function", "function": function}]

    async def acall(self, *args: Any, **more: Any) -> Any:
        """Answer the last message."""
        return self.call(*args, **more)

    def supports_function_calling(self) -> bool:
        """Let the crew hand over its tools."""
        return True


async def main() -> bool:
    """Run the crew for Ada, and check what its model got."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(f"# {name}\n")

        async with Abilities.open(Settings(workspace_dir=folder)) as abilities:
            agent = Agent(
                role="reader",
                goal="Know the project.",
                backstory="You read many files at once.",
                llm=Scripted(model="scripted"),
                tools=load_tools(abilities.for_namespace("ada"), read_only=True),
            )
            task = Task(description="Look around.", expected_output="The files.", agent=agent)
            output = await Crew(agents=[agent], tasks=[task]).akickoff()

    assert '"requested":3,"succeeded":2,"failed":1' in output.raw
    assert "# a.py" in output.raw
    return True


if __name__ == "__main__":
    asyncio.run(main())
