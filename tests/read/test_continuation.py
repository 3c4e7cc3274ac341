"""Properties of `read`: bound, order, exactly once, one content cut at most, formats."""

from functools import partial
from typing import Any, get_args

import pytest
import toon_format
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, parse_text, render
from abilities.declarations.fields import OutputFormat
from abilities.helpers.files import file_walk
from tests.read.conftest import BOUND, Opened
from tests.support.read_collecting import Collected, collect, count_cut, is_atomic
from tests.support.read_samples import batches
from tests.support.reading import drop_nulls, follow, read, write_files
from tests.support.surfaces import with_changes
from tests.support.tier import size

Payload = dict[str, Any]

EXAMPLES = size("ABILITIES_EXAMPLES", quick=8, full=20)
some = hypothesis_settings(max_examples=EXAMPLES)


def build_request(
    items: list[Any], max_tokens: int | None, output_format: str | None, detail: str | None
) -> Payload:
    asked = {"max_tokens": max_tokens, "output_format": output_format, "detail": detail}
    return {"items": items, **{name: value for name, value in asked.items() if value is not None}}


requests = st.builds(
    build_request,
    batches,
    st.one_of(st.integers(1_000, 4_000), st.integers(4_000, 30_000), st.none()),
    st.sampled_from([None, *get_args(OutputFormat)]),
    st.sampled_from([None, "full", "concise"]),
)


async def read_within(
    abilities: Abilities, bound: int, is_structured: bool, request: Payload
) -> Payload:
    """Return the payload of a reply that keeps its bound as it is sent, in every reading of it."""
    reply = await abilities.reply("read", request, for_model=True, structured=is_structured)
    payload = reply.payload
    assert "error" not in payload, payload

    assert len(reply.text.encode()) <= bound
    if is_structured:
        assert len(render(payload).encode()) <= bound
    assert len(payload["results"]) == len(request["items"])
    assert count_cut(payload) <= 1

    assert parse_text(render(payload, "text")) == payload
    if len(reply.text) < 12_000:  # it is slow
        assert drop_nulls(toon_format.loads(render(payload, "toon"))) == drop_nulls(payload)
    return payload


LIST_THAT_FILLS_A_REPLY: list[Any] = [
    *(
        {},
        {"recall": "who drinks tea?", "weight": 8},
        "small/36.txt",
        {"glob": "../x", "limit": 74},
    ),
    *({"glob": "**/*"}, {"note": "long_term", "weight": 1}, {"glob": "odd/*", "weight": 7}),
    *({"memory": "k27"}, {"recall": "tea"}, {"glob": "[a"}, {"limit": 78, "glob": "../x"}),
    *({"glob": "middle/*.md"}, {"glob": "../x", "limit": 92, "weight": 2}),
    *({"glob": "odd/*", "limit": 62, "weight": 2}, {"glob": "*.none"}),
    *({"memory": "k*", "weight": 8}, {"memory": "k10", "depth": 3}, "small/09.txt", 5),
    {"file": "middle/3.md#L5-"},
]
"""With 1,275 tokens, the second reply has room for the rest of the list and for nothing else."""

TWO_LISTS: list[Any] = [
    *("middle/2.md#L5-", {"glob": "small/*"}, {"memory": "k1*", "weight": 6}),
    *({"memory": "k6", "weight": 9, "total": 1, "depth": 1}, {"file": "middle/both.md#L5-"}),
    *({"note": "2025-01-01"}, {"memory": "*"}, {"note": "yesterday"}, {"memory": "k21"}),
    *({"note": "last 7 days"}, {"glob": "small/*", "weight": 6}),
    *({"glob": "*.none", "limit": 64, "weight": 5}, {"file": "middle/4.md"}),
    *({"memory": "k1*", "weight": 3}, {"note": "long_term", "weight": 8}),
    *({"memory": "k10", "weight": 2}, {"memory": "k1*", "weight": 1}),
    *({"memory": "k11", "weight": 2}, {"glob": "middle/*.md"}, {"file": "small/19.txt#L9-L3"}),
]
"""With 1,334 tokens, what is left after the lists needs more room than they did."""


@some
@example(build_request(LIST_THAT_FILLS_A_REPLY, 1_275, None, "full"), True)
@example(build_request(TWO_LISTS, 1_334, "text", "full"), True)
@example(build_request(["small/09.txt", {"glob": "odd/*"}], 2_000, "auto", None), False)
@given(requests, st.booleans())
def test_following_brings_each_content_once_within_the_bound(
    opened: Opened, asked: Payload, is_structured: bool
) -> None:
    opened.runner.run(follow_and_check(opened, asked, is_structured))


async def follow_and_check(opened: Opened, request: Payload, is_structured: bool) -> None:
    everything = {name: value for name, value in request.items() if name != "max_tokens"}
    expected = await collect(partial(opened.unbounded.call, "read"), everything, 1)

    allowed = await find_allowed(opened.bounded, request, is_structured)
    bound = min(BOUND, 4 * allowed.get("max_tokens", BOUND))
    read = partial(read_within, opened.bounded, bound, is_structured)
    check_collected(await collect(read, allowed), expected)


async def find_allowed(abilities: Abilities, request: Payload, is_structured: bool) -> Payload:
    """Return a request, with as many tokens as the refusal says if it asked for too few."""
    reply = await abilities.reply("read", request, for_model=True, structured=is_structured)
    error = reply.payload.get("error")
    if error is None:
        return request

    assert (error["reason"], error["field"]) == ("out_of_range", "max_tokens"), error
    assert error["expected"]["minimum"] > request["max_tokens"]
    return {**request, "max_tokens": error["expected"]["minimum"]}


async def test_globs_that_share_their_bound_bring_no_more_in_parts(roots: Settings) -> None:
    """The third of these gets 40 files, and its first reply, which has fewer, counts the rest."""
    write_files(roots.workspace_dir, {f"{n:03}.txt": f"{n} " * 100 for n in range(120)})
    glob = {"glob": "*.txt", "limit": 80}
    request: Payload = {"items": [glob, glob, {**glob, "weight": 9}]}
    whole_settings = with_changes(roots, max_response_bytes=1_000_000)

    async with Abilities.open(whole_settings) as abilities:
        expected = await collect(partial(abilities.call, "read"), request, 1)
    async with Abilities.open(roots) as abilities:
        collected = await collect(partial(abilities.call, "read"), {**request, "max_tokens": 5_000})

    assert [len(item.leaves) for item in expected] == [80, 80, 40]
    check_collected(collected, expected)


def check_collected(collected: list[Collected], expected: list[Collected]) -> None:
    """Check that what came in parts is what comes as a whole."""
    for item, whole in zip(collected, expected, strict=True):
        check_item(item, whole)


def check_item(item: Collected, whole: Collected) -> None:
    if whole.error is not None:
        assert item.error == whole.error
        return

    assert item.error is None
    assert [leaf.record for leaf in item.leaves] == [leaf.record for leaf in whole.leaves]
    for leaf, expected in zip(item.leaves, whole.leaves, strict=True):
        assert leaf.remembered == expected.remembered
        if is_atomic(leaf) and leaf.content != expected.content:
            assert leaf.content and str(expected.content).startswith(leaf.content)
        else:
            assert leaf.content == expected.content

    assert item.more == whole.more
    assert item.group == whole.group


async def test_a_slow_glob_goes_on(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"folder{number}/file.txt" for number in range(6)]
    write_files(roots.workspace_dir, paths)
    monkeypatch.setattr(file_walk, "SECONDS", 0.0)
    request = {"items": [{"glob": "**/*.txt", "limit": 5}]}

    async with Abilities.open(roots) as abilities:
        answers = [answer async for answer in follow(abilities, "read", request)]

    assert [record["data"]["content"] for record in list_records(answers)] == paths[:5]
    assert len(answers) > 2


def list_records(answers: list[Payload]) -> list[Payload]:
    """Return the records of what the one item of each answer found."""
    return [record for answer in answers for record in answer["results"][0]["data"]["items"]]


async def test_a_file_of_a_glob_has_the_same_path_in_each_of_its_pieces(roots: Settings) -> None:
    text = "line of text\n" * 700
    write_files(roots.workspace_dir, {"b": "another file\n", "b#byte=2": text})
    request: Payload = {"items": [{"glob": "b#*"}], "max_tokens": 1_000}

    async with Abilities.open(roots) as abilities:
        answers = [answer async for answer in follow(abilities, "read", request)]
        assert await read(abilities, "b#byte=2#L1-") == [text]

    records = list_records(answers)
    assert len(records) > 2 and {record["path"] for record in records} == {"b#byte=2#L1-"}
    assert "".join(record["data"]["content"] for record in records) == text


@pytest.mark.parametrize(("ability", "argument"), [("file_read_bulk", "paths"), ("read", "items")])
async def test_requests_that_are_as_long_as_they_may_be_go_on_to_the_end(
    ability: str, argument: str, roots: Settings
) -> None:
    folders = f"{'x' * 240}/{'y' * 250}/{'z' * 250}/{'w' * 250}.txt"
    paths = [*(f"{number}{folders}" for number in range(8)), f"{'t' * 170}.txt"]
    write_files(roots.workspace_dir, {path: path[0] * 90_000 for path in paths})
    request = {argument: paths, "detail": "concise"}
    assert 8_192 - 40 < len("".join(f'"{path}"' for path in paths)) <= 8_192

    async with Abilities.open(roots) as abilities:
        answers = [answer async for answer in follow(abilities, ability, request)]

    requests = [answer["next_request"][argument] for answer in answers[:-1]]
    assert sum(answer["summary"]["returned_chars"] for answer in answers) == 90_000 * len(paths)
    assert max(len("".join(sent)) for sent in requests) > len("".join(paths))
