"""Plugins for tests: real packages, installed as pip would have installed them."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from abilities import Abilities, Settings

TAME = """
from abilities import Arguments, Context, FileText, Model, ability
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.file_walk import ListingRequest

class Input(Arguments):
    key: str

class Answer(Model):
    text: str
    content: str
    total: int

@ability(description="Reads through its context.", read_only=True)
async def tame(context: Context, arguments: Input) -> Answer:
    (file,) = await context.files.read(["note.txt"], max_chars=100)
    listing = await context.files.list_files(ListingRequest(Glob("*.txt"), "", 10))
    (memory,) = await context.memory.read(
        [{"type": "stored", "key": arguments.key}], max_chars=100
    )
    stats = await context.memory.read_stats()
    assert isinstance(file, FileText) and len(listing.files) == 1
    return Answer(text=file.piece.text, content=memory.piece.text, total=stats.total)
"""
"""A plugin that reads files and memories through its context."""


def write_distribution(
    folder: Path, modules: dict[str, str], points: dict[str, str], group: str = "abilities"
) -> None:
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    info = folder / "plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins\nVersion: 1.0\n")
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "".join(lines))


@contextmanager
def install(
    folder: Path,
    modules: dict[str, str],
    points: dict[str, str],
    patch: pytest.MonkeyPatch,
    group: str = "abilities",
) -> Iterator[None]:
    write_distribution(folder, modules, points, group)
    patch.syspath_prepend(str(folder))
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)


async def read_through_the_context(settings: Settings) -> None:
    """Call the installed `TAME` between calls of built-in abilities that use the same things."""
    assert settings.workspace_dir is not None
    (settings.workspace_dir / "note.txt").write_text("a note")

    async with Abilities.open(settings) as abilities:
        memory = {"type": "core", "content": "kept", "key": "k"}
        await abilities.call("store_memory", memory)

        calls = [abilities.call("tame", {"key": "k"}) for _ in range(20)]
        own = [abilities.call("memory_get", {"key": "k"}) for _ in range(20)]
        changes = [abilities.call("store_memory", memory) for _ in range(5)]
        answers = await asyncio.gather(*calls, *own, *changes)

    assert answers[:20] == [{"text": "a note", "content": "kept", "total": 1}] * 20
    assert all("kept" in str(answer) for answer in answers[20:40])
