"""How long 25 documents take: ours in one call, and `markitdown` one after another.

    pip install 'markitdown[docx,pdf,pptx,xlsx]' openpyxl python-docx python-pptx
    python -m benchmarks.document_speed

Both are warm, and run in this process. Ours is measured with documents that have changed, and with
the same again, of which the texts are kept.
"""

import asyncio
import os
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from abilities import Abilities, Settings
from benchmarks.measure import Prepared, run_shuffled
from tests.support.document_files import DOCUMENTS, build_pages

COPIES = 5
PAGES = 30
ROUNDS = 11
MAX_BYTES = 1_000_000
"""The bound of a reply, in which all texts fit."""


def write_copies(folder: Path) -> list[str]:
    """Write 25 documents of five formats, and return their names."""
    names: list[str] = []
    for number in range(COPIES):
        for name, (build, _) in DOCUMENTS.items():
            content = build_pages(PAGES) if name.endswith(".pdf") else build()
            names.append(f"{number}-{name}")
            (folder / names[-1]).write_bytes(content)

    return names


def touch_all(folder: Path, names: list[str]) -> None:
    """Change the versions of the documents."""
    for name in names:
        os.utime(folder / name)


async def read_all(abilities: Abilities, names: list[str]) -> None:
    """Read all documents in one call."""
    answer = await abilities.call("file_read_bulk", {"paths": names})
    assert answer["summary"]["succeeded"] == len(names) and "next_request" not in answer


def convert_each(converter: Any, folder: Path, names: list[str]) -> None:
    """Convert one document after another."""
    for name in names:
        assert converter.convert(str(folder / name)).text_content


async def main() -> None:
    """Print the medians."""
    with TemporaryDirectory() as agent, TemporaryDirectory() as name:
        folder = Path(name).resolve()
        names = write_copies(folder)
        settings = Settings(
            agent_dir=Path(agent), workspace_dir=folder, max_response_bytes=MAX_BYTES
        )
        converter = import_module("markitdown").MarkItDown(enable_plugins=False)

        async with Abilities.open(settings) as abilities:
            read = partial(read_all, abilities, names)
            timings = await run_shuffled(
                {
                    "changed": Prepared(partial(touch_all, folder, names), read),
                    "again": read,
                    "markitdown": partial(convert_each, converter, folder, names),
                },
                ROUNDS,
                warmup_rounds=1,
            )

    for variant in ("changed", "again", "markitdown"):
        print(f"{variant}: {1_000 * timings[variant]:.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
