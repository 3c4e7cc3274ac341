"""Properties of the envelope: order and count, the bound, lossless continuation."""

import asyncio
import codecs
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, render
from abilities.helpers.reply.budget import count_fitting_chars, measure_escaped
from abilities.helpers.text import (
    UTF_8,
    WHOLE,
    Encoding,
    Piece,
    back_off,
    byte_length,
    count_replaced,
    decode,
    detect_encoding,
    hash_version,
    replace_markers,
    splits_character,
)
from tests.support.reading import OpenFile, follow, list_outcomes, noting_reads, write_files
from tests.support.tier import size

EXAMPLES = size("ABILITIES_EXAMPLES", quick=10, full=60)
many = hypothesis_settings(max_examples=EXAMPLES * 5)
some = hypothesis_settings(max_examples=EXAMPLES)

ALPHABET = list('abc \n\r\t"\\\u0001\u007fäß世界\u0301\ufe0f\u200d👩👧🇩🇪🇫각\u1100\u1161\ufffd')
texts = st.text(st.sampled_from(ALPHABET), max_size=300)
MARKERS = "\ud801\ud802\ud803"
BOUNDARY_BYTES = "80 8f 90 9f a0 bf c0 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff"
raws = st.lists(
    st.one_of(texts.map(str.encode), st.binary(max_size=6).filter(lambda raw: 0 not in raw))
).map(b"".join)
UTF_16 = [Encoding("utf-16-le", 2, 2), Encoding("utf-16-be", 2, 2)]


def decode_whole(raw: bytes) -> str:
    """Decode a file's bytes with Python's own decoders."""
    encoding = detect_encoding(raw)
    return raw[encoding.bom :].decode(encoding.codec, "replace")


@pytest.mark.parametrize("encoding", UTF_16, ids=lambda encoding: str(encoding.name))
def test_a_position_in_utf_16_is_inside_of_a_pair_or_not(encoding: Encoding) -> None:
    order: Literal["little", "big"] = "little" if encoding.name == "utf-16-le" else "big"
    edges = (0x0000, 0x0041, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFFFF)
    for units in product(edges, repeat=2):
        raw = b"".join(unit.to_bytes(2, order) for unit in units)
        try:
            is_pair = len(raw.decode(encoding.codec)) == 1
        except UnicodeDecodeError:
            is_pair = False
        splits = [splits_character(raw, at, encoding) for at in (0, 2, 4)]
        assert splits == [False, is_pair, False], units


def test_a_version_stands_for_the_4_kib_before_it_in_twelve_digits() -> None:
    before = bytes(range(256)) * 20

    assert len(hash_version(b"")) == len(hash_version(before)) == 12

    for distance, counts in ((1, True), (4096, True), (4097, False)):
        changed = bytearray(before)
        changed[-distance] ^= 1
        assert (hash_version(bytes(changed)) != hash_version(before)) == counts, distance

    text = "ab" * 5_000

    assert Piece(text).resume(9_000) == f"byte=9000@{hash_version(text[:9_000].encode())}"
    assert Piece(text).widest_resume() == "byte=10000@000000000000"
    assert not Piece(text).rest


SEQUENCES = [*map(str.encode, "aé€😀"), *map(bytes.fromhex, BOUNDARY_BYTES.split())]
BROKEN = st.lists(st.sampled_from(SEQUENCES), max_size=12).map(b"".join)


@many
@given(st.one_of(raws, BROKEN), st.booleans())
def test_decoding_shows_what_python_shows_sequence_by_sequence(raw: bytes, final: bool) -> None:
    sizes: list[int] = []

    def note(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        sizes.append(error.end - error.start)
        return "\ufffd", error.end

    codecs.register_error("tests.note", note)
    expected, consumed = codecs.utf_8_decode(raw, "tests.note", final)
    text, marked = decode(raw, UTF_8, final=final)

    assert replace_markers(text) == expected
    assert [byte_length(char, UTF_8) for char in text if char in MARKERS] == sizes
    assert byte_length(text, UTF_8) == consumed
    assert marked == (count_replaced(text) > 0) == bool(sizes)


@many
@given(st.binary(max_size=60), st.sampled_from(UTF_16))
def test_decoding_utf_16_loses_no_byte(raw: bytes, encoding: Encoding) -> None:
    text, _ = decode(raw, encoding, final=True)

    assert replace_markers(text) == raw.decode(encoding.codec, "replace")
    assert byte_length(text, encoding) == len(raw)


@many
@given(texts, st.integers(1, 320))
def test_a_cut_backs_off_a_little_and_never_to_nothing(text: str, at: int) -> None:
    place = back_off(text, at)

    assert place == len(text) if at >= len(text) else at - 32 <= place <= at
    assert place > 0 or not text


@pytest.mark.parametrize(
    ("text", "at", "place"),
    [
        ("e\u0301x", 1, 1),
        ("xe\u0301", 2, 1),
        ("a\r\nb", 2, 1),
        ("a👩\u200d👧b", 2, 1),
        ("a👩\u200d👧b", 3, 1),
        ("a👍🏽b", 2, 1),
        ("a❤\ufe0fb", 2, 1),
        ("🇩🇪🇫🇷", 3, 2),
        ("🇩🇪🇫🇷", 2, 2),
        ("x각", 1, 1),
        ("x\u1100\u1161\u11a8", 2, 1),
        ("xनि", 2, 1),
        ("abc", 2, 2),
        ("abc", 9, 3),
    ],
)
def test_a_cut_keeps_what_readers_see_as_one_character(text: str, at: int, place: int) -> None:
    assert back_off(text, at) == place


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        *(("\r", "\n", True), ("\n", "\r", False), ("a", "\n", False), ("\r", "a", False)),
        *(("\r", "\u0301", True), ("\t", "\n", False), ("\r", "\t", False)),
        *(("a", "\u02ff", False), ("a", "\u0300", True), ("a", "\u0903", True)),
        *(("a", "\u20dd", True), ("a", "\U0001f3fa", False), ("a", "\U0001f3fb", True)),
        *(("\u200d", "世", True), ("世", "\u200d", True), ("\u200c", "世", False)),
        *(("a", "\U0001f3ff", True), ("a", "\U0001f400", False), ("a", "\U000e001f", False)),
        *(("a", "\U000e0020", True), ("a", "\U000e007f", True), ("a", "\U000e0080", False)),
        *(("\u10ff", "\u1161", False), ("\u1100", "\u115f", False), ("\u1100", "\u1160", True)),
        *(("\u11ff", "\u11ff", True), ("\u1200", "\u1161", False), ("\u1100", "\u1200", False)),
        *(("\uabff", "\u11a8", False), ("\uac00", "\u1160", True), ("\ud7a3", "\u11ff", True)),
        *(("\ud7a4", "\u11a8", False), ("\uac00", "\u115f", False), ("\uac00", "\u1200", False)),
        *(("\U0001f1e6", "\U0001f1ff", True), ("\U0001f1ff", "\U0001f1e6", True)),
        *(("\U0001f1e5", "\U0001f1e6", False), ("\U0001f200", "\U0001f1e6", False)),
        *(("\U0001f1e6", "\U0001f1e5", False), ("\U0001f1e6", "\U0001f200", False)),
    ],
)
def test_a_cut_parts_two_that_are_not_one_character(before: str, after: str, is_one: bool) -> None:
    assert (back_off(f"xy{before}{after}", 3) < 3) == is_one


def test_a_cut_looks_back_no_further_than_it_says() -> None:
    marks, flags = "\u0301" * 40, "\U0001f1e6" * 200

    assert [back_off(f"ab{marks}", at) for at in (31, 32, 33)] == [1, 1, 33]
    assert [back_off(flags, at) for at in (1, 2, 3, 60, 61, 62, 63)] == [1, 2, 2, 60, 60, 62, 62]
    assert [back_off(f"x{flags}", at) for at in (1, 2, 3, 4)] == [1, 1, 3, 3]
    assert [back_off(flags, at) for at in (65, 66, 67, 97)] == [65, 66, 67, 97]


@pytest.mark.parametrize("name", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_position_inside_of_a_character_is_known_by_the_bytes_around_it(name: str) -> None:
    encoding = Encoding(name, 0, 1 if name == "utf-8" else 2)
    seen = 0
    edges = (0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF)
    for point in (*range(0, 0xD800, 97), *range(0xE000, 0x110000, 997), *edges):
        start, raw = len("a".encode(name)), f"a{chr(point)}b".encode(name)
        end = len(raw) - start
        for at in range(0, len(raw), encoding.unit):
            assert splits_character(raw, at, encoding) == (start < at < end), (point, at)
            seen += 1

    assert seen > 5_000


def test_no_position_is_inside_of_bytes_that_are_no_character() -> None:
    for digits in ("c328", "e28278", "f09f98", "c080", "f5808080", "eda080", "8080"):
        raw = b"a" + bytes.fromhex(digits)
        assert not any(splits_character(raw, at, UTF_8) for at in range(len(raw)))


@many
@given(texts, st.integers(0, 1000))
def test_what_fits_is_the_longest_prefix_that_does(text: str, room: int) -> None:
    count = count_fitting_chars(text, room)

    assert measure_escaped(text[:count]) <= room
    assert count == len(text) or measure_escaped(text[: count + 1]) > room
    assert [count_fitting_chars("abc", room) for room in (-5, 0, 1, 3, 4)] == [0, 0, 1, 3, 3]


@some
@given(st.sampled_from([b"", b"\xef\xbb\xbf"]), raws, st.integers(1, 40))
def test_following_resume_points_brings_every_byte_once(bom: bytes, raw: bytes, chars: int) -> None:
    assert "".join(_follow_resume_points(bom + raw, chars)) == decode_whole(bom + raw)


@some
@given(texts, st.sampled_from(["le", "be"]), st.integers(1, 40))
def test_following_resume_points_through_utf_16(text: str, order: str, chars: int) -> None:
    raw = ("\ufeff" + text).encode(f"utf-16-{order}")
    assert "".join(_follow_resume_points(raw, chars)) == text


def _follow_resume_points(raw: bytes, chars: int) -> list[str]:
    with OpenFile(raw) as file:
        pieces = list(file.follow(WHOLE, chars))

    assert all(len(piece.text) <= chars for piece in pieces)
    return [replace_markers(piece.text) for piece in pieces]


contents = st.one_of(
    texts,
    st.builds(lambda text, times: text * times, texts, st.sampled_from([5, 40, 400])),
    st.builds(
        lambda char, times: char * times,
        st.sampled_from(ALPHABET),
        st.sampled_from([700, 9_000, 60_000]),
    ),
)


@pytest.mark.requirement("R5.4.2", "R5.6.3", "R5.6.4")
@hypothesis_settings(max_examples=max(EXAMPLES // 2, 10))
@given(
    files=st.lists(st.one_of(contents.map(str.encode), raws), min_size=1, max_size=12),
    picks=st.lists(st.integers(0, 13), min_size=1, max_size=25),
    chars=st.sampled_from([500, 4_001, 20_000, 100_000]),
    limit=st.sampled_from([40_000, 64_000, 200_000]),
)
def test_following_next_request_returns_every_byte_of_every_item_once(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[bytes],
    picks: list[int],
    chars: int,
    limit: int,
) -> None:
    asyncio.run(_follow_next_requests(tmp_path_factory.mktemp("files"), files, picks, chars, limit))


async def _follow_next_requests(
    base: Path, files: list[bytes], picks: list[int], chars: int, limit: int
) -> None:
    write_files(base, {f"{n}.txt": raw for n, raw in enumerate(files)})
    expected = {f"{n}.txt": decode_whole(raw) for n, raw in enumerate(files)}
    settings = Settings(workspace_dir=base, agent_dir=base, max_response_bytes=limit)
    asked = {"paths": [f"{n}.txt" for n in picks], "max_chars_per_file": chars}
    texts = {f"{n}.txt": "" for n in sorted(set(picks))}
    request: dict[str, Any] = {**asked, "paths": list(texts)}

    async with Abilities.open(settings) as abilities:
        check_reply(await abilities.call("file_read_bulk", asked), asked, limit)

        while request:
            with noting_reads() as reads:
                payload = await abilities.call("file_read_bulk", request)

            check_reply(payload, request, limit)
            check_reads({read.path.name for read in reads if read.came}, payload, chars, limit)
            for data in (record["data"] for record in payload["results"] if record["success"]):
                texts[data["path"]] += data["content"]
            request = payload.get("next_request", {})

    assert texts == {path: expected.get(path, "") for path in texts}


def check_reads(seen: set[str], payload: dict[str, Any], chars: int, limit: int) -> None:
    """Check that no file was read in vain: only escapes take the room of one that is small."""
    for record in payload["results"]:
        if not record["success"] and record["error"]["reason"] == "response_budget":
            name, _, place = record["input"].partition("#byte=")
            left = record["error"]["size_bytes"] - int(place.partition("@")[0] or 0)
            assert name not in seen or min(left, chars) <= limit // len(payload["results"])


def check_reply(payload: dict[str, Any], request: dict[str, Any], limit: int) -> None:
    """Check what holds for every reply, whatever was requested."""
    records = payload["results"]

    assert [record["input"] for record in records] == request["paths"]
    assert len(render(payload).encode()) <= limit

    summary = payload["summary"]
    contents = [r["data"]["content"] for r in records if r["success"]]

    assert summary["requested"] == len(records) == summary["succeeded"] + summary["failed"]
    assert summary["truncated"] == sum("truncation" in record for record in records)
    assert summary["returned_chars"] == sum(map(len, contents))

    rest = [r["truncation"]["next"] for r in records if "truncation" in r]
    failed = [r for r in records if not r["success"]]
    budget = [r["input"] for r in failed if r["error"]["reason"] == "response_budget"]
    following = payload.get("next_request", {"paths": []})

    assert sorted(following["paths"]) == sorted([*rest, *budget])

    if rest or budget:
        assert following == {**request, "paths": following["paths"]}
        assert summary["succeeded"] > 0, "at least one item has content, so continuation ends"

    cut = [record for record in records if "truncation" in record]
    assert sum(record["truncation"]["reason"] == "budget" for record in cut) <= 1
    for record in cut:
        assert record["truncation"]["returned_chars"] == len(record["data"]["content"]) > 0


@pytest.mark.requirement("R5.6.4")
@pytest.mark.parametrize("name", ["q" * 200, '"' * 160, "世" * 80, "🙂" * 60])
@pytest.mark.parametrize("fill", ["\x01", '"', "x", "🙂", "\n"])
async def test_the_bound_holds_with_the_longest_names_and_the_costliest_text(
    roots: Settings, name: str, fill: str
) -> None:
    path = f"{name}/{name}/f"
    write_files(roots.workspace_dir, {path: fill * 30_000})
    count = min(25, 8000 // (len(render(path).encode()) + 2))
    settings = roots.model_copy(update={"max_response_bytes": 40_000})
    request: dict[str, Any] | None = {"paths": [path] * count}
    total, replies = 0, 0

    async with Abilities.open(settings) as abilities:
        while request is not None and replies < 3:
            payload = await abilities.call("file_read_bulk", request)
            check_reply(payload, request, 40_000)
            total += payload["summary"]["returned_chars"]
            request, replies = payload.get("next_request"), replies + 1

    assert total > 0


@pytest.mark.requirement("R5.6.4", "R5.8.2")
async def test_the_bound_holds_among_hostile_items(roots: Settings) -> None:
    long = "/".join(["🙂" * 60] * 3) + "/f"
    write_files(roots.workspace_dir, {long: "text" * 30_000})
    hostile = ["\x01" * 200, "\x02" * 2000, {"k": "\x03" * 150}, ["é" * 190], *(["\\" * 150] * 8)]
    settings = roots.model_copy(update={"max_response_bytes": 40_000})

    async with Abilities.open(settings) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": [*hostile, long]})

    assert len(render(payload).encode()) <= 40_000
    assert payload["results"][-1]["data"]["content"]


async def test_memory_targets_continue_byte_for_byte(roots: Settings) -> None:
    text = "käse und 世界 👩‍👩‍👧‍👦\r\n" * 3_000
    write_files(roots.agent_dir, {"MEMORY.md": "\ufeff" + text})
    targets = [{"type": "long_term"}, {"type": "short_term"}]
    request = {"targets": targets, "max_chars_per_item": 7_777}

    async with Abilities.open(roots) as abilities:
        replies = [reply async for reply in follow(abilities, "memory_read_bulk", request)]

    assert "".join(list_outcomes(reply)[0] for reply in replies) == text
