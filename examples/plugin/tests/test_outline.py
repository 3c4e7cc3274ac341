"""The ability as every surface calls it: through the registry, found by its entry point."""

import asyncio
from pathlib import Path
from typing import Any

from abilities import Abilities, Settings

NOTES = "# Plan\n\nFirst.\n\n## Walk\nSlowly.\n\n# Later\n"
CODE = "class Reader:\n    def read(self):\n        pass\n\n\ndef main():\n    pass\n"


def read_outlines(workspace: Path, *paths: str) -> list[dict[str, Any]]:
    """Return the records of a call."""

    async def call() -> list[dict[str, Any]]:
        async with Abilities.open(Settings(workspace_dir=workspace)) as abilities:
            answer = await abilities.call("file_outline", {"paths": list(paths)})
            return answer["results"]

    return asyncio.run(call())


def test_headings_and_functions_come_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(NOTES)
    (tmp_path / "app.py").write_text(CODE)

    notes, code = read_outlines(tmp_path, "notes.md", "app.py")

    assert [(p["name"], p["level"], p["lines"]) for p in notes["data"]["parts"]] == [
        ("Plan", 1, "#L1-L7"),
        ("Walk", 2, "#L5-L7"),
        ("Later", 1, "#L8-L8"),
    ]
    assert [(p["name"], p["lines"]) for p in code["data"]["parts"]] == [
        ("Reader", "#L1-L5"),
        ("read", "#L2-L5"),
        ("main", "#L6-L7"),
    ]


def test_one_file_that_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(NOTES)
    (tmp_path / ".env").write_text("# SECRET\n")

    records = read_outlines(tmp_path, "none.md", "notes.md", "../up.md", ".env")

    assert [record.get("error", {}).get("reason") for record in records] == [
        "not_found",
        None,
        "parent_traversal",
        "denied",
    ]


def test_a_large_answer_is_bounded_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_text("".join(f"# heading number {n}\n" for n in range(4_000)))

    first, second = read_outlines(tmp_path, "large.md", "large.md")

    assert first["data"]["more"] and second["data"] == {"parts": [], "more": True}
