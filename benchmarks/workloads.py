"""The files that are read: 25 of one size, or 25 real sources three folders deep."""

import os
import shutil
import time
from pathlib import Path
from typing import NamedTuple

LINE = "    return [render(item, width=80) for item in items if item.visible]  # some source code\n"
FILES = 25

SETTLED_SECONDS = 3.0
"""After so long a file is no longer compared with the package's own files at each read."""

SOURCES = Path(os.__file__).parent
PACKAGES = ("asyncio", "email", "http", "importlib", "unittest", "xml/dom")
SIZES = range(4_000, 20_000)
"""Bytes of the real sources: usual modules of Python's standard library."""


class Workload(NamedTuple):
    """Files beneath a folder: how results name them, their names, and what each contains."""

    label: str
    folder: Path
    contents: dict[str, str]

    @property
    def names(self) -> list[str]:
        """The paths beneath the folder."""
        return list(self.contents)

    @property
    def paths(self) -> list[str]:
        """The absolute paths."""
        return [str(self.folder / name) for name in self.contents]

    def settle(self) -> None:
        """Wait until no file counts as written just now, which makes its first reads slower."""
        written_at = max((self.folder / name).stat().st_ctime for name in self.names)
        time.sleep(max(written_at + SETTLED_SECONDS - time.time(), 0))

    def write_again(self) -> None:
        """Write all files again, with the same contents."""
        for name, content in self.contents.items():
            (self.folder / name).write_text(content)

    def holds_all(self, replies: list[str]) -> bool:
        """Return whether each content stands in one of the replies, whole and unescaped."""
        text = "\n".join(replies)
        return all(content in text for content in self.contents.values())


def write_files(folder: Path, kilobytes: int, beneath: str = "") -> Workload:
    """Write 25 files of source code of one size; each begins with its own name.

    ``beneath`` is a path in the folder that leads to all of them.
    """
    size = kilobytes * 1024
    contents: dict[str, str] = {}
    (folder / beneath).mkdir(parents=True, exist_ok=True)

    for number in range(FILES):
        name = f"module_{kilobytes}kb_{number:02}.py"
        text = f"# {name}\n" + LINE * (size // len(LINE) + 1)
        path = f"{beneath}{name}"
        contents[path] = text[:size]
        (folder / path).write_text(contents[path])

    return Workload(f"25 files of {kilobytes} KB", folder, contents)


def copy_sources(folder: Path) -> Workload:
    """Copy modules of the standard library into a folder."""
    names: list[str] = []
    for package in PACKAGES:
        for file in sorted((SOURCES / package).glob("*.py")):
            if file.stat().st_size in SIZES:
                names.append(f"src/lib/{package}/{file.name}")

    chosen = names[:: len(names) // FILES][:FILES]
    for name in chosen:
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCES / name.removeprefix("src/lib/"), copy)

    contents = {name: (folder / name).read_text() for name in chosen}
    return Workload("25 real sources", folder, contents)
