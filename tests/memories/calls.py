"""Calls of abilities with keyword arguments, and what tests of memories ask of their answers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.declarations.refusals import Fault
from tests.support.detail_cases import check_schema
from tests.support.surfaces import Call

Payload = dict[str, Any]


def calls_of(app: Abilities) -> Call:
    """Return a function that calls an application, whose answers must be as their schemas say."""

    async def call(name: str, /, **arguments: Any) -> Payload:
        payload = await app.call(name, arguments)
        check_schema(name, payload)
        return payload

    return call


@asynccontextmanager
async def open_calls(settings: Settings) -> AsyncGenerator[Call]:
    """Open an application, and yield a function that calls it with keyword arguments."""
    async with Abilities.open(settings) as app:
        yield calls_of(app)


async def store(call: Call, key: str, content: str = "x", **more: Any) -> Payload:
    """Store a memory."""
    return await call("store_memory", **{"type": "core", "key": key, "content": content, **more})


async def get(call: Call, key: str, **more: Any) -> Payload:
    """Return a memory."""
    data: Payload = (await call("memory_get", key=key, **more))["data"]
    return data


async def find_fault(call: Call, name: str, /, **arguments: Any) -> Fault:
    """Return the fault with which a call is refused."""
    with pytest.raises(AbilityError) as caught:
        await call(name, **arguments)
    return caught.value.fault


async def find_reason(call: Call, name: str, /, **arguments: Any) -> str:
    """Return why a call is refused."""
    return (await find_fault(call, name, **arguments)).reason


async def link_up(call: Call, **edges: str) -> None:
    """Store memories that link to others, for example ``link_up(call, A="B C")``.

    Keys are letters, and the links of each come in falling weight.
    """
    for key in sorted({*edges, *"".join(edges.values()).replace(" ", "")}):
        links = [
            {"key": target, "link_weight": 1 - n / 100}
            for n, target in enumerate(edges.get(key, "").split())
        ]
        await store(call, key, f"content of {key}", links=links)


async def follow_pages(call: Call, name: str, request: Payload) -> AsyncGenerator[Payload]:
    """Yield what a request and those of the following pages answer."""
    while request:
        page = await call(name, **request)
        yield page
        request = page.get("next_request", {})


async def follow(call: Call, name: str, request: Payload, entries: str) -> list[Payload]:
    """Return the entries of all pages."""
    return [entry async for page in follow_pages(call, name, request) for entry in page[entries]]


async def read_whole(call: Call, name: str, **request: Any) -> str:
    """Return the content of the first memory that a request reads, followed to its end."""
    pieces: list[str] = []
    async for payload in follow_pages(call, name, request):
        record = payload if name == "memory_get" else payload["results"][0]
        assert len(orjson.dumps(payload)) <= 64_000
        assert ("next_request" in payload) is ("truncation" in record)
        pieces.append(record["data"]["content"])

    return "".join(pieces)


def list_records(answer: Payload) -> list[Payload]:
    """Return the records of a walk."""
    return [answer["targetMemory"], *answer["associatedMemories"]]


def list_keys(answer: Payload) -> list[str]:
    """Return the keys of a walk."""
    return [record["key"] for record in list_records(answer)]
