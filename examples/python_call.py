"""Call an ability from Python and follow what was cut until everything is read."""

import asyncio
import tempfile
from pathlib import Path

from abilities import Abilities, AbilityError, Settings


async def main() -> str:
    """Read a long file in pieces and a missing one not at all; returns the long file's text."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "long.txt").write_text("A line of the long file.\n" * 2_000)
        text = ""

        async with Abilities.open(Settings(workspace_dir=folder)) as abilities:
            request = {"paths": ["long.txt", "missing.txt"]}
            while request:
                answer = await abilities.call("file_read_bulk", request)
                for record in answer["results"]:
                    if record["success"]:
                        text += record["data"]["content"]
                    else:
                        assert record["error"]["code"] == "NOT_FOUND"

                request = answer.get("next_request")

            try:
                await abilities.call("file_read_bulk", {"paths": []})
            except AbilityError as error:
                assert error.fault.code == "INVALID_INPUT"
                assert error.fault.field == "paths"

        assert text == "A line of the long file.\n" * 2_000
        return text


if __name__ == "__main__":
    print(f"Read {len(asyncio.run(main())):,} characters.")
