"""The request for the rest of a call is never too long, however long the call itself was."""

from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings

NAMES = 8


def name_file(number: int) -> str:
    """Return a path of about 1,020 characters."""
    return "/".join([f"{number}{'x' * 240}", "y" * 250, "z" * 250, f"{'w' * 250}.txt"])


@pytest.mark.parametrize("ability", ["file_read_bulk", "read"])
async def test_long_paths_go_on_to_the_end(tmp_path: Path, ability: str) -> None:
    workspace = tmp_path / "workspace"
    paths = [name_file(number) for number in range(NAMES)]
    paths.append(f"{'t' * 170}.txt")
    for path in paths:
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(path[:1] * 90_000)
    assert 8_192 - 40 < len("".join(f'"{path}"' for path in paths)) <= 8_192

    argument = "items" if ability == "read" else "paths"
    request: dict[str, Any] | None = {argument: paths, "detail": "concise"}
    returned = longest = 0

    agent = tmp_path / "agent"
    agent.mkdir()
    settings = Settings(workspace_dir=workspace, agent_dir=agent)
    async with Abilities.open(settings) as abilities:
        while request is not None:
            longest = max(longest, sum(len(path) for path in request[argument]))
            answer = await abilities.call(ability, request)
            returned += answer["summary"]["returned_chars"]
            request = answer.get("next_request")

    assert returned == 90_000 * len(paths)
    assert longest > len("".join(paths))
