"""Concise answers in TOON: tables that read back exactly and are no larger than the JSON."""

from itertools import takewhile
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from toon_format import loads

from abilities import Abilities, Settings, render
from abilities.declarations.memory import is_key
from abilities.helpers.reply.formats import Format
from tests.support.reading import drop_nulls
from tests.support.stores import tamper
from tests.support.tier import size

few = hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=8, full=100))

Payload = dict[str, Any]

SPECIAL = ['a, "b"', "one\ntwo\r\n", "- x: 1", "true", "null", "12", "1e5", "", " ", "#", "a|b\tc"]
PARTS = st.sampled_from(SPECIAL) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
)
TEXTS = st.lists(PARTS, max_size=4).map("".join)
KEYS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=40).filter(
    is_key
)


class Item(NamedTuple):
    """A memory and a file of the same text; the row of the memory may be damaged later."""

    key: str
    text: str
    is_damaged: bool


ITEMS = st.builds(
    Item,
    KEYS,
    # Some are so long that not all of a walk fits into its answer.
    st.builds(
        lambda text, times: (text * times)[:5_000],
        TEXTS.map(lambda text: text or "x"),
        st.sampled_from([1, 1, 1, 200]),
    ),
    st.integers(0, 5).map(lambda number: number == 0),
)


LONGER_ESCAPE = len(r"\u000c") - len(r"\f")
"""What a backspace or a form feed costs more in TOON, which has no short escapes for them."""


def count_longer_escapes(value: Any) -> int:
    """Return how many characters TOON escapes at greater length than JSON."""
    if isinstance(value, dict):
        return sum(map(count_longer_escapes, value.values()))
    if isinstance(value, list):
        return sum(map(count_longer_escapes, value))

    return value.count("\b") + value.count("\f") if isinstance(value, str) else 0


def check_toon(payload: Payload) -> None:
    """Check that a concise payload comes back from TOON, and is no larger in it than in JSON."""
    toon = render(payload, "toon")
    bound = len(render(payload).encode()) + LONGER_ESCAPE * count_longer_escapes(payload)

    assert drop_nulls(loads(toon)) == payload
    assert len(toon.encode()) <= bound


def check_table(payload: Payload, name: str) -> None:
    """Check an answer in TOON, and that its list of records has a line for each."""
    check_toon(payload)
    if payload[name]:
        lines = render(payload, "toon").split("\n")
        (header,) = (number for number, line in enumerate(lines) if line.startswith(f"{name}["))
        rows = takewhile(lambda line: line.startswith("  "), lines[header + 1 :])
        assert len(list(rows)) == len(payload[name])


@few
@given(
    st.lists(ITEMS, min_size=1, max_size=50, unique_by=lambda item: item.key),
    st.lists(KEYS, max_size=3),
    st.integers(1, 20),
    st.integers(1, 50),
    st.integers(1, 5_000),
)
async def test_records_are_a_table_that_is_no_larger_than_their_json(
    tmp_path_factory: pytest.TempPathFactory,
    items: list[Item],
    missing: list[str],
    breadth: int,
    total: int,
    most_chars: int,
) -> None:
    folder = tmp_path_factory.mktemp("store")
    settings = Settings(
        agent_dir=folder,
        workspace_dir=folder,
        store_url=f"sqlite:///{folder}/memory.db",
        max_response_bytes=40_000,
        detail="concise",
    )
    keys = [item.key for item in items]

    async with Abilities.open(settings) as abilities:
        for number, item in enumerate(items):
            (folder / f"{number}, or: so.txt").write_text(item.text)
            links = [{"key": key} for key in keys[number + 1 : number + 4]]
            memory = {"type": "core", "key": item.key, "content": item.text, "links": links}
            check_toon(await abilities.call("store_memory", memory))

        for item in items[1:]:  # without the first there is no walk
            if item.is_damaged:
                tamper(settings, "UPDATE memories SET summary = 'x' WHERE key = ?", item.key)

        paths = [f"{number}, or: so.txt" for number in range(len(items))][:20] + missing
        targets = [{"type": "stored", "key": key} for key in (*keys[:20], *missing)]
        reading = {"paths": paths, "max_chars_per_file": most_chars}
        recalling = {"targets": targets, "max_chars_per_item": most_chars}
        limits = {"depth": 6, "breadth": breadth, "total": total}
        check_table(await abilities.call("file_read_bulk", reading), "results")
        check_table(await abilities.call("memory_read_bulk", recalling), "results")
        walked = await abilities.call("bulk_read_memory", {"key": keys[0], **limits})
        check_table(walked, "associatedMemories")
        check_toon(await abilities.call("query_memories", {"limit": len(keys)}))
        check_toon(await abilities.call("memory_get", {"key": keys[0]}))


async def test_concise_answers_cost_few_bytes_beyond_their_contents(roots: Settings) -> None:
    """Names of items are not counted; what stands around the records is."""
    names = [f"{number:02}".ljust(40, "n") for number in range(20)]
    days = [f"2026-01-{day:02}" for day in range(1, 21)]
    content = "word " * 40
    (roots.agent_dir / "memory").mkdir()

    async with Abilities.open(roots.model_copy(update={"detail": "concise"})) as abilities:
        for name, day in zip(names, days, strict=True):
            (roots.workspace_dir / name).write_text(content)
            (roots.agent_dir / "memory" / f"{day}.md").write_text(content)
            links = [{"key": other, "link_weight": 0.777} for other in names if other != name]
            memory = {"type": "core", "key": name, "content": content, "links": links}
            written = await abilities.call("store_memory", {**memory, "tags": ["a", "b"]})
            assert len(render(written).encode()) <= 150

        notes = [{"type": "short_term", "date": day} for day in days]
        answers = {
            "files": await abilities.call("file_read_bulk", {"paths": names}),
            "notes": await abilities.call("memory_read_bulk", {"targets": notes}),
            "walk": await abilities.call("bulk_read_memory", {"key": names[0], "breadth": 20}),
            "found": await abilities.call("query_memories", {"limit": 20}),
        }

    most: dict[str, dict[Format, int]] = {
        "files": {"text": 70, "json": 110},
        "notes": {"text": 70, "json": 100},
        "walk": {"text": 75, "json": 110, "toon": 45},
        "found": {"text": 60, "json": 90, "toon": 40},
    }
    for kind, bounds in most.items():
        for form, bound in bounds.items():
            text = render(answers[kind], form)
            for name in names:
                text = text.replace(name, "")
            assert (len(text.encode()) - 20 * len(content)) / 20 <= bound, (kind, form)
