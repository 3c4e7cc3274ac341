"""A loop of one's own that reads files, one of which is missing, in one tool call.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from abilities import Settings
from abilities.adapters.functions import Function, load_functions


def complete(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Ask for three files, and then repeat what came back, as a chat completion does."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": last["content"]}

    arguments = json.dumps({"paths": ["a.py", "b.py", "c.py"]})
    call = {"id": "1", "function": {"name": "file_read_bulk", "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


def describe(function: Function) -> dict[str, Any]:
    """Return a function as chat completions declare tools."""
    declared = {"name": function.name, "description": function.description}
    return {"type": "function", "function": {**declared, "parameters": function.schema}}


async def run(functions: list[Function], question: str) -> str:
    """Let the model call functions for Ada until it answers."""
    by_name = {function.name: function for function in functions}
    tools = [describe(function) for function in functions]
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]

    while True:
        answer = complete(messages, tools)
        messages.append(answer)
        if "tool_calls" not in answer:
            return answer["content"]

        for call in answer["tool_calls"]:
            function = by_name[call["function"]["name"]]
            reply = await function.call(call["function"]["arguments"], namespace="ada")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": reply.text})


async def main() -> bool:
    """Answer a question, and check what the model got."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(f"# {name}\n")

        functions = load_functions(Settings(workspace_dir=folder), read_only=True)
        answer = await run(functions, "Look around.")

    assert '"requested":3,"succeeded":2,"failed":1' in answer
    assert "# a.py" in answer
    return True


if __name__ == "__main__":
    asyncio.run(main())
