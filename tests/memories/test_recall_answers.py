"""`recall`'s answer: what fits of the rankings, counted as it is sent, and how it goes on."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from toon_format import loads

from abilities import Refused, parse_text, render
from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.recall import RecallAnswer, RecallInput
from abilities.helpers.memory.recall_answers import ELLIPSIS, RecallBound, build_recall_answer
from abilities.helpers.memory.recalling import RecallResult, check_cursors, parse_positions
from abilities.helpers.memory.targets import NotePart, Target
from abilities.helpers.reply.formats import Format
from abilities.helpers.search.passages import MAX_SENTENCE_BYTES, split_sections, split_sentences
from abilities.helpers.search.ranking import SCORE_ONE, RankedEntry, Ranking
from abilities.helpers.store.model import Row, StoredMemory
from abilities.helpers.text import WHOLE, Piece
from tests.support.reading import drop_nulls
from tests.support.tier import size

many = hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=40, full=400))

Payload = dict[str, Any]

FORMATS: dict[str, tuple[Format, ...]] = {
    "json": ("json",),
    "text": ("text",),
    "both": ("text", "json"),
    "toon": ("toon",),
}
MOST_BYTES = 64_000

FORGED = ['"\\\n', "\n01234567 {}\n", '{"results":[1]}\n', "世界", "🙂", "e\u0301", "a b ", "\t"]
texts = st.lists(st.sampled_from([*FORGED, "plain words "]), min_size=1, max_size=5).map("".join)
contents = st.builds(lambda text, times: (text * times)[:5_000], texts, st.integers(1, 400))


def build_memory(key: str, content: str) -> StoredMemory:
    """Return a stored memory with this key and content."""
    day = "2026-02-03T04:05:06.789Z"
    row = Row(
        "default", key, "id", 0, 0.6, 0, "core", "medium", "", day, day, "[]", "", "{}", content
    )
    return StoredMemory(row)


def build_parts(content: str) -> list[NotePart]:
    """Return the parts of the lasting notes with this text."""
    target = Target("long_term", WHOLE, "MEMORY.md")
    piece = Piece(content)
    return [
        NotePart(target, "2026-02-03", piece, section, {}) for section in split_sections(content)
    ]


@st.composite
def results(draw: st.DrawFn) -> RecallResult:
    """Return rankings whose entries are whole, damaged, notes, and found by a link."""
    memories: dict[str, StoredMemory | Exception] = {}
    parts: dict[str, NotePart] = {}
    if draw(st.booleans()):
        note = "\n".join(draw(st.lists(texts.map("# a\n{}".format), max_size=6)))
        parts = {part.name: part for part in build_parts(note)}

    names = [(name, True) for name in parts]
    for number in range(draw(st.integers(0, 12))):
        key = draw(st.sampled_from(["k", "Ada 🙂", 'q"'])) + str(number)
        names.append((key, False))
        memories[key] = build_memory(key, draw(contents))
        if draw(st.integers(0, 9)) == 0:
            memories[key] = Refused("checksum_mismatch")

    entries: list[list[RankedEntry]] = [[] for _ in range(draw(st.integers(1, 3)))]
    for place, (name, is_note) in enumerate(draw(st.permutations(names))):
        via = draw(st.sampled_from([None, None, "k0"]))
        score = (len(names) - place) * SCORE_ONE // 3
        words = () if via else ("word",)
        own = draw(st.sampled_from(entries))
        own.append(RankedEntry(name, is_note, score, 0 if via else score, via, words))

    unknown = tuple(draw(st.lists(texts, max_size=12)))
    return RecallResult([Ranking(tuple(one), unknown) for one in entries], memories, parts)


def load(result: RecallResult, starts: list[int], room: int) -> RecallResult:
    """Return a result with only those memories that a store loads, in turns, up to its room."""
    loaded: dict[str, StoredMemory | Exception] = {}
    used = 0

    for turn in range(max(len(ranking.entries) for ranking in result.rankings)):
        for start, ranking in zip(starts, result.rankings, strict=True):
            for entry in ranking.entries[start + turn :][:1]:
                if entry.is_note or used > room:
                    continue
                memory = loaded[entry.name] = result.memories[entry.name]
                if isinstance(memory, StoredMemory):
                    used += len(memory.row.content.encode())

    return result._replace(memories=loaded)


def answer(arguments: Payload, result: RecallResult, bound: RecallBound) -> Payload:
    """Return the answer to a call, as the ability makes it."""
    call = RecallInput.model_validate(arguments)
    starts = parse_positions(call)
    loaded = load(result, starts, bound.max_bytes)
    check_cursors(call, loaded.rankings)
    return build_recall_answer(call, loaded, starts, bound)


def list_records(payload: Payload) -> list[list[Payload]]:
    """Return the records of each question."""
    return [record.get("data", record)["memories"] for record in payload["results"]]


def name_record(record: Payload, result: RecallResult) -> list[str]:
    """Return the names of the entries that a record may be of; parts of a note may be alike."""
    if "key" in record:
        return [record["key"]]

    return [n for n, part in result.parts.items() if part.content.startswith(record["content"])]


@many
@given(
    results(),
    st.sampled_from(list(FORMATS)),
    st.sampled_from(["concise", "full"]),
    st.integers(1_200, 4_000),
)
def test_following_the_next_request_gives_each_memory_once_within_the_bound(
    result: RecallResult, formats: str, detail: str, max_tokens: int
) -> None:
    queries = ["what?", 'who "is" it?', "世界 " * 40][: len(result.rankings)]
    arguments: Payload = {"queries": queries, "max_tokens": max_tokens, "detail": detail}
    bound = RecallBound(TOKEN_BYTES * max_tokens, MOST_BYTES, False, FORMATS[formats])
    seen: list[list[Payload]] = [[] for _ in queries]
    request: Payload | None = arguments

    while request is not None:
        payload = answer(request, result, bound)

        assert all(len(render(payload, f).encode()) <= bound.max_bytes for f in bound.formats)
        assert parse_text(render(payload, "text")) == payload
        RecallAnswer.model_validate(payload)
        shown = list_records(payload)
        assert sum("next" in r and "key" in r for records in shown for r in records) <= 1
        for own, records in zip(seen, shown, strict=True):
            own += records
        if any(ranking.entries for ranking in result.rankings):
            assert any(shown)
        request = payload.get("next_request")
        if request is not None:
            assert {**request, "after": None} == {**arguments, "after": None}

    for own, ranking in zip(seen, result.rankings, strict=True):
        assert len(own) == len(ranking.entries)
        for record, entry in zip(own, ranking.entries, strict=True):
            assert entry.name in name_record(record, result)
            check_record(record, entry, result)


def check_record(record: Payload, entry: RankedEntry, result: RecallResult) -> None:
    """Check that a record is the whole memory, or a part that says how it goes on."""
    memory = result.memories.get(entry.name)
    assert record["score"] == pytest.approx(entry.score / SCORE_ONE, abs=0.005)
    assert record.get("via") == entry.via

    if isinstance(memory, Exception):
        assert "content" not in record
        assert record.get("reason") or record["error"]["reason"]
    elif memory is not None:
        content = memory.row.content
        assert record["content"]
        assert ("next" in record) == (record["content"] != content)

        places = record.get("starts_at", 0)
        parts = record["content"].split(ELLIPSIS)
        for part, place in zip(parts, places if len(parts) > 1 else [places], strict=True):
            assert content[place : place + len(part)] == part


SENTENCES = [f"Nothing of note on day {day}, as before." for day in range(60)]


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        pytest.param(0, (0, 1), id="at the beginning"),
        pytest.param(30, (29, 30, 31), id="in the middle, with its neighbors"),
        pytest.param(59, (58, 59), id="at the end"),
    ],
)
def test_a_content_that_does_not_fit_is_cut_to_the_sentences_with_the_words_of_the_question(
    place: int, shown: tuple[int, ...]
) -> None:
    sentences = list(SENTENCES)
    sentences[place] = "The password of the vault is kept by Ada."
    content = " ".join(sentences)
    entry = RankedEntry("k", False, SCORE_ONE, SCORE_ONE, None, ("vault", "day"))
    result = RecallResult([Ranking((entry,), ())], {"k": build_memory("k", content)}, {})
    bound = RecallBound(600, MOST_BYTES, False, ("json",))

    payload = answer({"queries": ["Which day, and what of the vault?"]}, result, bound)

    ((record,),) = list_records(payload)
    assert all(sentences[number] in record["content"] for number in shown)
    check_record(record, entry, result)
    follows = orjson.loads(record["next"])
    assert follows["key"] == "k"
    assert ("resume" in follows) == (ELLIPSIS not in record["content"] and place == 0)


def test_a_content_that_is_cut_among_spaces_says_how_it_goes_on() -> None:
    memory = build_memory("k", "word" + "\t" * 4_000)
    entry = RankedEntry("k", False, SCORE_ONE, SCORE_ONE, None, ("word",))
    result = RecallResult([Ranking((entry,), ())], {"k": memory}, {})
    bound = RecallBound(TOKEN_BYTES * 1_200, MOST_BYTES, False, ("json",))

    payload = answer({"queries": ["word"], "max_tokens": 1_200}, result, bound)

    ((record,),) = list_records(payload)
    assert len(record["content"]) < len(memory.row.content)
    assert "next" in record


@many
@given(results(), st.integers(1_200, 16_000))
def test_memories_are_taken_in_turns_whole_as_long_as_they_fit(
    result: RecallResult, max_tokens: int
) -> None:
    arguments = {"queries": ["q"] * len(result.rankings), "max_tokens": max_tokens}
    bound = RecallBound(TOKEN_BYTES * max_tokens, MOST_BYTES, False, ("json",))

    payload = answer(arguments, result, bound)

    counts = [len(records) for records in list_records(payload)]
    lengths = [len(ranking.entries) for ranking in result.rankings]
    left = [count for count, length in zip(counts, lengths, strict=True) if count < length]
    for count, length in zip(counts, lengths, strict=True):
        assert count == length or max(counts) - count <= 1
    assert bool(left) == ("next_request" in payload)


@many
@given(results())
def test_as_toon_concise_answers_are_tables_no_larger_than_the_json(result: RecallResult) -> None:
    bound = RecallBound(MOST_BYTES, MOST_BYTES, False, ("json",))
    payload = answer({"queries": ["q"] * len(result.rankings)}, result, bound)

    toon = render(payload, "toon")

    # Several records pay for a table's head, unless they are few and of several kinds.
    allowance = 0
    for records in list_records(payload):
        kinds = {("filename" in record, "reason" in record) for record in records}
        if len(kinds) > 1:
            allowance += 80
        elif len(records) < 2:
            allowance += 16
    assert len(toon.encode()) <= len(render(payload).encode()) + allowance
    assert drop_nulls(loads(toon)) == payload


@many
@given(contents)
def test_sentences_are_short_and_leave_nothing_out_but_space(content: str) -> None:
    sentences = split_sentences(content)

    assert all(len(content[start:end].encode()) <= MAX_SENTENCE_BYTES for start, end in sentences)
    shown = [place for start, end in sentences for place in range(start, end)]
    assert shown == sorted(set(shown))
    left_out = set(range(len(content))) - set(shown)
    assert "".join(content[place] for place in left_out).strip() == ""
