"""Call a served application over HTTP, with nothing but the standard library."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen


def ask(address: str, body: dict[str, object] | None = None) -> dict[str, object]:
    """GET an address, or POST a JSON object to it, and return the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(address, data, {"Content-Type": "application/json"})

    with urlopen(request) as response:
        answer: dict[str, object] = json.load(response)

    return answer


def talk(api: str) -> bool:
    """Store two linked memories, read both in one call, and read two files in another."""
    goals = {"type": "core", "key": "goals", "content": "Ship it.", "links": [{"key": "plan"}]}
    plan = {"type": "task", "key": "plan", "content": "Test, then ship."}
    ask(f"{api}/memories", goals)
    ask(f"{api}/memories", plan)

    walk = ask(f"{api}/memories/goals/bulk?depth=2")
    files = ask(f"{api}/abilities/file_read_bulk", {"paths": ["notes.md", "missing.md"]})
    print(json.dumps(walk["metadata"]), json.dumps(files["summary"]), sep="\n")

    has_plan = "plan" in json.dumps(walk["associatedMemories"])
    has_notes = "the notes" in json.dumps(files["results"])
    return has_plan and has_notes


async def main() -> bool:
    """Start `abilities serve` on a free port, talk to it, and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "work").mkdir()
        (base / "work" / "notes.md").write_text("These are the notes.")

        command = [
            sys.executable,
            "-m",
            "abilities",
            "--workspace-dir",
            f"{base}/work",
            "serve",
            "--port",
            "0",
        ]
        environment = {
            "ABILITIES_STORE_URL": f"sqlite:///{base}/memory.db",
            "PATH": "/usr/bin:/bin",
            "HOME": folder,
        }
        server = await asyncio.create_subprocess_exec(
            *command, env=environment, stderr=asyncio.subprocess.PIPE
        )
        assert server.stderr

        try:
            api = (await server.stderr.readline()).decode().split()[1]
            return await asyncio.to_thread(talk, api)
        finally:
            server.terminate()
            await server.communicate()


if __name__ == "__main__":
    asyncio.run(main())
