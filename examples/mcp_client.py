"""The official MCP client reads files through ``abilities mcp`` in a process of its own."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from abilities import parse_text


async def main() -> dict[str, Any]:
    """Start the server, list its tools, read two files; returns the answer."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "hello.txt").write_text("hello")
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "abilities", "mcp"],
            env={**os.environ, "ABILITIES_WORKSPACE_DIR": folder},
        )

        async with Client(stdio_client(server)) as client:
            tools = await client.list_tools()
            assert "file_read_bulk" in [tool.name for tool in tools.tools]

            result = await client.call_tool("file_read_bulk", {"paths": ["hello.txt", "../secret"]})

        answer = parse_text(result.content[0].text)  # type: ignore[union-attr]
        assert answer["results"][0]["content"] == "hello"
        assert answer["results"][1]["reason"] == "parent_traversal"
        return answer


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main()), indent=2))
