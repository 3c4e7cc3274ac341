"""What `read` is tried on: files of all kinds, notes and linked memories, and items that name them.

"Today" is always the same day.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from abilities import Abilities, Settings
from abilities.helpers.memory.helper import MemoryHelper
from tests.support.sample_files import make_roots

TODAY = date(2026, 1, 20)

Item = str | dict[str, Any]

_PARTS = [
    "a plain line\n",
    '"\t\\"\n',
    "世界\r\n",
    "e\u0301",
    "👩\u200d👧",
    "\u0001",
    "äöü ",
    "word ",
]
_SMALL, _MIDDLE = 40, 8
_MEMORIES = 30


@contextmanager
def today_is(day: date) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryHelper, "today", property(lambda self: day))
        yield


def make_text(seed: int, size: int) -> str:
    """Return a text of about so many bytes, of characters that are hard to cut and to escape."""
    numbers = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < size:
        part = numbers.choice(_PARTS) * numbers.choice([1, 1, 1, 20])
        parts.append(part)
        length += len(part.encode())
    return "".join(parts)


def write_files(workspace: Path, agent: Path) -> None:
    """Write files of all sizes and encodings, two of which cannot be read as text."""
    for name in ("small", "middle", "odd"):
        (workspace / name).mkdir()

    for number in range(_SMALL):
        _write(workspace / f"small/{number:02}.txt", make_text(number, number * 9))
    for number in range(_MIDDLE):
        _write(workspace / f"middle/{number}.md", make_text(100 + number, 1_500 * number))

    _write(workspace / "large.log", "a line of a log\n" * 5_000)
    _write(workspace / "quotes.json", '"\\"\n' * 9_000)
    (workspace / "odd/binary.bin").write_bytes(b"\0\1\2" * 99)
    (workspace / "odd/utf16.txt").write_bytes("hällo 世界 🙂\n".encode("utf-16") * 20)
    (workspace / "odd/latin.txt").write_bytes("naïve café\n".encode("latin-1") * 300)
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "QUJD" * 200 + "\n-----END RSA PRIVATE KEY-----\n"
    _write(workspace / "odd/secret.txt", f"{'before ' * 300}\n{key}{'after ' * 300}")
    _write(agent / "middle/both.md", "the agent's " * 200)


def write_notes(agent: Path) -> None:
    sections = [f"# Part {n}\n{make_text(n, 300 * n)}\n## tea\nwe drink tea\n" for n in range(6)]
    _write(agent / "MEMORY.md", "".join(sections))
    for days, size in ((0, 900), (1, 0), (3, 5_000), (10, 40), (29, 12_000), (30, 70)):
        day = TODAY - timedelta(days=days)
        _write(agent / f"memory/{day}.md", f"notes of {day} about tea\n{make_text(days, size)}")


async def store_memories(abilities: Abilities) -> None:
    numbers = random.Random(7)
    for number in range(_MEMORIES):
        content = f"tea {number} {make_text(200 + number, numbers.choice([20, 300, 4_000]))}"[
            :4_900
        ]
        linked = numbers.sample(range(_MEMORIES), numbers.choice([0, 2, 6]))
        links = [{"key": f"k{other}", "link_weight": 0.7} for other in linked if other != number]
        memory = {"type": "core", "key": f"k{number}", "content": content, "links": links}
        if number % 4 == 0:
            memory["about"] = ["small", "**/*1*", f"odd/*{number}*"]
        await abilities.call("store_memory", memory)


async def build_world(settings: Settings) -> None:
    assert settings.workspace_dir is not None
    write_files(settings.workspace_dir, settings.agent_dir)
    write_notes(settings.agent_dir)
    async with Abilities.open(settings) as abilities:
        await store_memories(abilities)


def make_unbounded(folder: Path) -> Settings:
    """Make two roots in a folder; return settings for them, with a store, and no bound."""
    return make_roots(folder).model_copy(update={"max_response_bytes": 100_000_000})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())


_names = st.one_of(
    st.integers(0, _SMALL - 1).map("small/{:02}.txt".format),
    st.integers(0, _MIDDLE - 1).map("middle/{}.md".format),
    st.sampled_from(["large.log", "quotes.json", "middle/both.md", "odd/utf16.txt"]),
    st.sampled_from(["odd/latin.txt", "odd/secret.txt", "odd/binary.bin", "none.txt", "../x"]),
)
_suffixes = st.sampled_from(["", "", "", "#L2-L9", "#L5-", "#byte=0-200", "#byte=3", "#L9-L3"])
_paths = st.builds("{}{}".format, _names, _suffixes)

_shares = st.fixed_dictionaries({}, optional={"weight": st.integers(1, 9)})
_patterns = ["**/*", "small/*", "middle/*.md", "odd/*", "*.none", "{large,quotes}.*", "../x", "[a"]
_notes = ["long_term", "today", "yesterday", "2026-01-17", "2025-01-01", "last 1 day"]
_notes += ["last 7 days", "last 31 days", "last 32 days", "someday"]
_keys = st.integers(0, _MEMORIES).map("k{}".format)  # the last one is not there


def _join(*parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def _with_share(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(_join, st.fixed_dictionaries(fields), _shares)


_walk_limits = st.fixed_dictionaries(
    {"depth": st.integers(1, 6)},
    optional={"breadth": st.integers(1, 20), "total": st.integers(1, 50)},
)
_wrong: st.SearchStrategy[Any] = st.sampled_from(
    [5, {}, {"fiel": "x"}, {"file": "a", "glob": "b"}, {"file": 5}, {"memory": "k1", "weight": 0}]
)

items: st.SearchStrategy[Any] = st.one_of(
    _paths,
    _with_share(file=_paths),
    _with_share(glob=st.sampled_from(_patterns), limit=st.integers(1, 100)),
    _with_share(glob=st.sampled_from(_patterns)),
    _with_share(note=st.sampled_from(_notes)),
    _with_share(memory=_keys),
    _with_share(memory=st.sampled_from(["*", "k*", "k1*", "none*"])),
    st.builds(_join, _with_share(memory=_keys), _walk_limits),
    _with_share(recall=st.sampled_from(["tea", "who drinks tea?", "word 17", "zebra", "notes"])),
    _wrong,
)
"""Items of every kind but searches, and items that are none."""

batches = st.lists(items, min_size=1, max_size=25)
