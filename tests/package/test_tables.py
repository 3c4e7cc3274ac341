"""Concise answers in TOON: tables that read back exactly and are no larger than the JSON."""

from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from toon_format import loads

from abilities import Abilities, Settings, render
from abilities.declarations.memory import is_key
from abilities.helpers.reply.detail import FILE, MEMORY, TARGET, RecordShape, shape_record
from abilities.helpers.reply.formats import Format
from tests.support.stores import tamper
from tests.support.tier import size

many = hypothesis_settings(
    max_examples=size("ABILITIES_EXAMPLES", quick=100, full=1_000), deadline=None
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
DAYS = st.dates().map(str)
SCORES = st.integers(0, 10**6).map(lambda rank: rank / 10**6)
FAILURES = st.sampled_from(["not_found", "denied", "response_budget", "checksum_mismatch"])


@st.composite
def full_records(draw: st.DrawFn, leading: Payload, data: Payload) -> Payload:
    """Return a full record: a whole one, a cut one, or a failed one."""
    if draw(st.integers(0, 3)) == 0:
        return {**leading, "success": False, "error": {"reason": draw(FAILURES)}}

    content = draw(TEXTS)
    record: Payload = {**leading, "success": True, "data": {**data, "content": content}}
    if content and draw(st.booleans()):  # at least one character is left
        record["truncation"] = {"next": {"resume": draw(POINTS)}}

    return record


@st.composite
def files(draw: st.DrawFn) -> Payload:
    """Return a full record of a file."""
    path = draw(KEYS)
    data = {"source": draw(st.sampled_from(["agent", "workspace"])), "version": draw(VERSIONS)}
    record = draw(full_records({"input": path}, data))
    if "truncation" in record:
        record["truncation"]["next"] = f"{path}#{draw(POINTS)}"

    return record


@st.composite
def steps(draw: st.DrawFn) -> Payload:
    """Return a full record of a walk."""
    trailing = {"depth": draw(st.integers(1, 6)), "parent": draw(KEYS)}
    trailing["combinedScore"] = draw(SCORES)
    version = draw(st.integers(1, 10**9))
    return {**draw(full_records({"key": draw(KEYS)}, {"version": version})), **trailing}


@st.composite
def targets(draw: st.DrawFn) -> Payload:
    """Return a full record of a note or a memory."""
    data = draw(
        st.builds(lambda day: {"type": "short_term", "date": day}, DAYS)
        | st.builds(lambda key: {"type": "stored", "key": key}, KEYS)
    )
    return draw(full_records({"input": orjson.dumps(data).decode()}, data))


def shape_all(records: list[Payload], shape: RecordShape) -> list[Payload]:
    return [shape_record(record, shape) for record in records]


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


def count_lines(toon: str, name: str) -> int:
    """Return the lines of a list of records: a header, and a row for each."""
    lines = toon.split("\n")
    (header,) = (number for number, line in enumerate(lines) if line.startswith(f"{name}["))
    rows = 0
    while header + 1 + rows < len(lines) and lines[header + 1 + rows].startswith("  "):
        rows += 1

    return 1 + rows


@many
@given(st.lists(files(), min_size=1, max_size=25), st.lists(st.booleans(), max_size=2))
def test_files_are_a_table(full: list[Payload], extras: list[bool]) -> None:
    records = shape_all(full, FILE)
    summary = dict.fromkeys(("requested", "succeeded", "failed", "truncated"), len(full))
    payload: Payload = {"results": records, "summary": {**summary, "returned_chars": 0}}
    cut = [record["next"] for record in records if "next" in record]
    if cut:
        payload["next_request"] = {"paths": cut, "detail": "concise"}

    check_toon(payload)
    assert count_lines(render(payload, "toon"), "results") == 1 + len(records)


@many
@given(
    steps().map(lambda record: shape_record(record, MEMORY)),
    st.lists(steps(), max_size=50),
    st.lists(KEYS, max_size=10),
)
def test_a_walk_is_a_table(target: Payload, full: list[Payload], frontier: list[str]) -> None:
    for name in ("score", "depth", "parent"):  # only those that were reached have them
        target.pop(name, None)
    records = [target, *shape_all(full, MEMORY)]
    payload: Payload = {"targetMemory": records[0], "associatedMemories": records[1:]}
    if frontier:
        payload["metadata"] = {"limitsReached": ["total"], "frontier": frontier}

    missing: list[Payload] = []
    for record in records:
        target = {"type": "stored", "key": record["key"]}
        if "next" in record:
            missing.append({**target, "resume": record["next"]})
        elif record.get("reason") == "response_budget":
            missing.append(target)
    if missing:
        payload["next_requests"] = [{"targets": missing[:25]}, {"targets": missing[25:]}]
        payload["next_requests"] = [each for each in payload["next_requests"] if each["targets"]]

    check_toon(payload)
    if len(records) > 1:
        assert count_lines(render(payload, "toon"), "associatedMemories") == len(records)


@many
@given(st.lists(targets(), min_size=1, max_size=25))
def test_notes_and_memories_are_a_table(full: list[Payload]) -> None:
    """A malformed target beside one other may take three bytes more: its rule has a column."""
    records = shape_all(full, TARGET)
    summary = dict.fromkeys(("requested", "succeeded", "failed", "truncated"), len(full))
    payload: Payload = {"results": records, "summary": {**summary, "returned_chars": 0}}
    cut: list[Payload] = []
    for record in records:
        if "next" in record:
            target: Payload = {
                name: record[name] for name in ("type", "date", "key") if name in record
            }
            cut.append({**target, "resume": record["next"]})
    if cut:
        payload["next_request"] = {"targets": cut}

    check_toon(payload)


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
    (folder / "agent").mkdir()
    settings = Settings(
        agent_dir=folder / "agent",
        workspace_dir=folder / "agent",
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
    content = "word " * 40
    written: Payload = {}

    async with Abilities.open(roots.model_copy(update={"detail": "concise"})) as abilities:
        for number, name in enumerate(names):
            (roots.workspace_dir / name).write_text(content)
            (roots.agent_dir / "memory").mkdir(exist_ok=True)
            (roots.agent_dir / "memory" / f"2026-01-{number + 1:02}.md").write_text(content)
            links = [{"key": other, "link_weight": 0.777} for other in names if other != name]
            memory = {"type": "core", "key": name, "content": content, "links": links}
            written = await abilities.call("store_memory", {**memory, "tags": ["a", "b"]})

        days = [{"type": "short_term", "date": f"2026-01-{day:02}"} for day in range(1, 21)]
        files = await abilities.call("file_read_bulk", {"paths": names})
        notes = await abilities.call("memory_read_bulk", {"targets": days})
        walk = await abilities.call("bulk_read_memory", {"key": names[0], "breadth": 20})
        found = await abilities.call("query_memories", {"limit": 20})

    def count_bytes(payload: Payload, format: Format) -> float:
        text = render(payload, format)
        for name in names:
            text = text.replace(name, "")

        return (len(text.encode()) - 20 * len(content)) / 20

    assert len(render(written).encode()) <= 150
    assert (count_bytes(files, "text") <= 70) and (count_bytes(files, "json") <= 110)
    assert (count_bytes(notes, "text") <= 70) and (count_bytes(notes, "json") <= 100)
    assert (count_bytes(walk, "text") <= 75) and (count_bytes(found, "text") <= 60)
    assert (count_bytes(walk, "json") <= 110) and (count_bytes(walk, "toon") <= 45)
    assert (count_bytes(found, "json") <= 90) and (count_bytes(found, "toon") <= 40)
