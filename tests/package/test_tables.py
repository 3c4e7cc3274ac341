"""Concise answers in TOON: tables that read back exactly and are no larger than the JSON."""

from itertools import takewhile
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from toon_format import loads

from abilities import Abilities, Settings, render
from abilities.declarations.memory import is_key
from abilities.helpers.reply.detail import FILE, MEMORY, TARGET, shape_record
from abilities.helpers.reply.formats import Format
from tests.support.stores import tamper
from tests.support.tier import size

many = hypothesis_settings(
    max_examples=size("ABILITIES_EXAMPLES", quick=150, full=2_000), deadline=None
)
few = hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=5, full=50), deadline=None)

Payload = dict[str, Any]

SPECIAL = ['a, "b"', "one\ntwo\r\n", "- x: 1", "true", "null", "12", "1e5", "", " ", "#", "a|b\tc"]
PARTS = st.sampled_from(SPECIAL) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
)
TEXTS = st.lists(PARTS, max_size=4).map("".join)
KEYS = st.text(min_size=1, max_size=40).filter(is_key)
VERSIONS = st.text("0123456789abcdef", min_size=12, max_size=12)
POINTS = st.builds("byte={}@{}".format, st.integers(1, 10**6), VERSIONS)
FAILURES = st.sampled_from(["not_found", "denied", "response_budget", "checksum_mismatch"])


class Table(NamedTuple):
    """An answer, and the name and the length of its list of records."""

    payload: Payload
    name: str
    length: int


def draw_record(draw: st.DrawFn, leading: Payload, data: Payload) -> Payload:
    """Return a full record: a whole one, a cut one, or a failed one."""
    if draw(st.integers(0, 3)) == 0:
        return {**leading, "success": False, "error": {"reason": draw(FAILURES)}}

    content = draw(TEXTS)
    record: Payload = {**leading, "success": True, "data": {**data, "content": content}}
    if content and draw(st.booleans()):  # at least one character is left
        record["truncation"] = {"next": {"resume": draw(POINTS)}}

    return record


def build_bulk(records: list[Payload], rest: Payload) -> Table:
    """Return the answer of a bulk read, which says how to go on if ``rest`` is not empty."""
    summary = dict.fromkeys(("requested", "succeeded", "failed", "truncated"), len(records))
    payload: Payload = {"results": records, "summary": {**summary, "returned_chars": 0}}
    if any(rest.values()):
        payload["next_request"] = rest

    return Table(payload, "results", len(records))


@st.composite
def files(draw: st.DrawFn) -> Table:
    records: list[Payload] = []
    for path in draw(st.lists(KEYS, min_size=1, max_size=25)):
        data = {"source": draw(st.sampled_from(["agent", "workspace"])), "version": draw(VERSIONS)}
        record = draw_record(draw, {"input": path}, data)
        if "truncation" in record:
            record["truncation"]["next"] = f"{path}#{draw(POINTS)}"
        records.append(shape_record(record, FILE))

    return build_bulk(
        records, {"paths": [record["next"] for record in records if "next" in record]}
    )


@st.composite
def targets(draw: st.DrawFn) -> Table:
    """A malformed target beside one other may take three bytes more: its rule has a column."""
    days = st.builds(lambda day: {"type": "short_term", "date": str(day)}, st.dates())
    keys = st.builds(lambda key: {"type": "stored", "key": key}, KEYS)
    records: list[Payload] = []
    cut: list[Payload] = []
    for data in draw(st.lists(days | keys, min_size=1, max_size=25)):
        full = draw_record(draw, {"input": orjson.dumps(data).decode()}, data)
        records.append(shape_record(full, TARGET))
        if "next" in records[-1]:
            cut.append({**data, "resume": records[-1]["next"]})

    return build_bulk(records, {"targets": cut})


@st.composite
def walks(draw: st.DrawFn) -> Table:
    records: list[Payload] = []
    missing: list[Payload] = []
    for key in draw(st.lists(KEYS, min_size=1, max_size=51)):
        full = draw_record(draw, {"key": key}, {"version": draw(st.integers(1, 10**9))})
        if records:  # only those that were reached have a place
            full |= {"depth": draw(st.integers(1, 6)), "parent": draw(KEYS)}
            full["combinedScore"] = draw(st.integers(0, 10**6)) / 10**6
        record = shape_record(full, MEMORY)
        records.append(record)
        target = {"type": "stored", "key": key}
        if "next" in record:
            missing.append({**target, "resume": record["next"]})
        elif record.get("reason") == "response_budget":
            missing.append(target)

    payload: Payload = {"targetMemory": records[0], "associatedMemories": records[1:]}
    if frontier := draw(st.lists(KEYS, max_size=10)):
        payload["metadata"] = {"limitsReached": ["total"], "frontier": frontier}
    if missing:
        parts = (missing[:25], missing[25:50], missing[50:])
        payload["next_requests"] = [{"targets": part} for part in parts if part]

    return Table(payload, "associatedMemories", len(records) - 1)


def drop_nulls(value: Any) -> Any:
    """Return what TOON holds without the nulls that fill its tables."""
    if isinstance(value, list):
        return [drop_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value

    return {name: drop_nulls(item) for name, item in value.items() if item is not None}


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


@many
@given(files() | targets() | walks())
def test_records_are_a_table(table: Table) -> None:
    check_toon(table.payload)

    if table.length and table.name != "targets":
        lines = render(table.payload, "toon").split("\n")
        (header,) = (n for n, line in enumerate(lines) if line.startswith(f"{table.name}["))
        rows = takewhile(lambda line: line.startswith("  "), lines[header + 1 :])
        assert len(list(rows)) == table.length


class StoredText(NamedTuple):
    """A memory of a generated store: its content, and whether its row is damaged later."""

    content: str
    is_damaged: bool


STORED = st.builds(
    StoredText,
    st.tuples(TEXTS, st.sampled_from([1, 1, 1, 200])).map(lambda made: (made[0] * made[1])[:5_000]),
    st.integers(0, 5).map(lambda number: number == 0),
).filter(lambda memory: bool(memory.content))
"""Some are so long that not all of a walk fits into its answer."""


@few
@given(st.lists(STORED, min_size=1, max_size=50), st.integers(1, 20), st.integers(1, 50))
async def test_no_answer_about_a_store_is_larger_in_toon(
    tmp_path_factory: pytest.TempPathFactory,
    memories: list[StoredText],
    breadth: int,
    total: int,
) -> None:
    folder = tmp_path_factory.mktemp("store")
    settings = Settings(
        agent_dir=folder,
        workspace_dir=folder,
        store_url=f"sqlite:///{folder}/memory.db",
        max_response_bytes=40_000,
        detail="concise",
    )
    keys = [f"memory {number}" for number in range(len(memories))]

    async with Abilities.open(settings) as abilities:
        for number, memory in enumerate(memories):
            links = [{"key": key} for key in keys[number + 1 : number + 4]]
            arguments = {"type": "core", "key": keys[number], "content": memory.content}
            check_toon(await abilities.call("store_memory", {**arguments, "links": links}))

        # Without the first there is no walk.
        for key, memory in zip(keys[1:], memories[1:], strict=True):
            if memory.is_damaged:
                tamper(settings, "UPDATE memories SET summary = 'x' WHERE key = ?", key)

        limits = {"depth": 6, "breadth": breadth, "total": total}
        chosen = [{"type": "stored", "key": key} for key in keys[:25]]
        check_toon(await abilities.call("bulk_read_memory", {"key": keys[0], **limits}))
        check_toon(await abilities.call("query_memories", {"limit": len(keys)}))
        check_toon(await abilities.call("memory_read_bulk", {"targets": chosen}))
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
