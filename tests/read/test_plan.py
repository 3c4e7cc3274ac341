"""`plan`: what it predicts is what the call of its next request brings."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, render
from tests.read.conftest import Opened
from tests.read.test_continuation import requests
from tests.support.read_collecting import measure_input
from tests.support.tier import size

Payload = dict[str, Any]

EXAMPLES = size("ABILITIES_EXAMPLES", quick=25, full=100)


@hypothesis_settings(max_examples=EXAMPLES)
@given(requests, st.booleans(), st.one_of(st.none(), st.integers()))
def test_what_a_plan_predicts_is_what_comes(
    opened: Opened, asked: Payload, is_structured: bool, seed: int | None
) -> None:
    opened.runner.run(compare_plan(opened, asked, is_structured, seed))


async def compare_plan(
    opened: Opened, asked: Payload, is_structured: bool, seed: int | None
) -> None:
    async def call(request: Payload) -> Payload:
        reply = await opened.bounded.reply(
            "read", request, for_model=True, structured=is_structured
        )
        return reply.payload

    request = asked
    if seed is not None:
        known = await make_some_known(opened.unbounded, asked["items"], random.Random(seed))
        request = {**asked, "items": known}

    planned = await call({**request, "plan": True})
    if "error" in planned:
        assert planned == await call(request)
        return

    assert planned["next_request"] == request
    check_plan(planned, await call(request))


async def make_some_known(
    abilities: Abilities, items: list[Any], numbers: random.Random
) -> list[Any]:
    """Return the items, some of them with the version that they have."""
    reply = await abilities.call("read", {"items": items, "detail": "full"})
    known: list[Any] = []

    for item, record in zip(items, reply["results"], strict=True):
        version = record.get("data", {}).get("version")
        if isinstance(item, dict) and version is not None and numbers.random() < 0.5:
            item = {**item, "known": version}
        known.append(item)

    return known


def check_plan(planned: Payload, reply: Payload) -> None:
    """Check that a plan tells of each item what its record holds."""
    summary = {**planned["summary"]}
    assert summary.pop("reply_bytes") == len(render(reply).encode())
    assert summary == reply["summary"]

    for told, record in zip(planned["results"], reply["results"], strict=True):
        assert len(render(told).encode()) - measure_input(told) <= 110
        assert told["input"] == record["input"]
        assert told.get("unchanged") == record.get("unchanged")

        reason = record.get("error", record).get("reason")
        if reason is not None and reason != "response_budget":
            assert told["reason"] == reason
            continue

        assert "reason" not in told
        if "unchanged" not in told:
            check_granted(told, record)


def check_granted(told: Payload, record: Payload) -> None:
    data: Payload = record.get("data", record)
    contents = [inner.get("data", inner) for inner in data.get("items", [data])]
    granted = sum(len(inner.get("content", "").encode()) for inner in contents)

    assert told["granted_bytes"] == granted <= told["bytes"]
    assert told["granted_tokens"] == -(-granted // 4)
    assert told["tokens"] == -(-told["bytes"] // 4)

    if "items" in data:
        assert told["granted_items"] == len(contents) <= told["items"]
    elif "items" in told:
        assert told["granted_items"] == 0


async def test_a_plan_says_of_which_items_more_match_than_it_lists(app: Abilities) -> None:
    items = ["large.log", {"glob": "**/*", "limit": 2}, {"glob": "large.log"}]

    planned = await app.call("read", {"items": items, "plan": True})
    reply = await app.call("read", {"items": items})

    assert planned["more"] == [1]
    assert planned["results"][1]["items"] == 2
    assert ["more" in record["data"] for record in reply["results"]] == [False, True, False]


@pytest.mark.parametrize("detail", ["full", "concise"])
async def test_a_plan_reads_nothing_into_the_reply(app: Abilities, detail: str) -> None:
    items = ["large.log", {"glob": "**/*"}, {"note": "last 31 days"}, {"recall": "tea"}, "none"]
    items += [{"memory": "k1", "depth": 6, "total": 50}, {"memory": "k2"}]

    planned = await app.call("read", {"items": items, "plan": True, "detail": detail})

    described = planned["results"]
    assert len(render(planned).encode()) < 2_000
    assert all("content" not in told and "data" not in told for told in described)
    assert described[0]["bytes"] == 80_000
    assert described[1]["items"] == 25
    assert described[4] == {"input": "none", "reason": "not_found"}
