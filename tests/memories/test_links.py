"""Links in both directions, their terms, and what becomes of them when a memory is renamed."""

import logging
from typing import Any

import pytest

from abilities import Abilities, Settings
from tests.memories.test_memories import find_reason, link_up, list_keys, open_calls
from tests.support.surfaces import SURFACES, Call, Through


async def link_project(call: Call) -> None:
    """Store people who work on a project, one of them linking to another."""
    await call("store_memory", type="core", key="Aurora", content="a project")
    people = {"Ada": 0.9, "Bo": 0.7, "Cy": 0.5}
    for name, weight in people.items():
        link = {"key": "Aurora", "link_weight": weight, "type": "works on", "term": "since May"}
        await call("store_memory", type="core", key=name, content=name, links=[link])

    await call("store_memory", type="core", key="Di", content="Di", links=[{"key": "Ada"}])
    await call("store_memory", type="core", key="Aurora", content="a project", links=[{"key": "x"}])


@pytest.mark.parametrize("surface", SURFACES)
async def test_who_works_on_a_project_is_one_call(surface: str, roots: Settings) -> None:
    async with open_calls(roots) as call:
        await link_project(call)

    arguments: dict[str, Any] = {"key": "Aurora", "direction": "in", "depth": 1}
    walk = await SURFACES[surface](roots, "bulk_read_memory", arguments)

    assert list_keys(walk) == ["Aurora", "Ada", "Bo", "Cy"]
    assert [entry["combinedScore"] for entry in walk["associatedMemories"]] == [0.54, 0.42, 0.3]
    assert walk["associatedMemories"][0]["link"] == {"type": "works on", "link_weight": 0.9}
    assert [cut["key"] for cut in walk["metadata"]["frontier"]] == ["Di"]

    concise = await SURFACES[surface](
        roots, "bulk_read_memory", {**arguments, "direction": "both", "detail": "concise"}
    )
    kinds = [(one.get("link"), one.get("direction")) for one in concise["associatedMemories"]]
    assert kinds[:3] == [("works on", "in")] * 3

    arguments["bulkRead"] = True
    assert await SURFACES[surface](roots, "memory_get", arguments) == walk


async def test_both_directions_in_one_walk(roots: Settings, through: Through) -> None:
    call = through(roots)
    await link_up(call, B="A", A="C", D="C")

    walk = await call("bulk_read_memory", key="A", direction="both")

    assert list_keys(walk) == ["A", "B", "C", "D"]
    directions = [entry["link"].get("direction", "out") for entry in walk["associatedMemories"]]
    assert directions == ["in", "out", "in"]


async def test_a_memory_tells_what_leads_to_it(roots: Settings, through: Through) -> None:
    call = through(roots)
    await link_project(call)

    out = (await call("memory_get", key="Aurora"))["data"]
    assert (out["links_total"], out["backlinks_total"]) == (1, 3)
    assert "backlinks" not in out

    incoming = (await call("memory_get", key="Aurora", direction="in"))["data"]
    assert "links" not in incoming
    assert incoming["backlinks"] == [
        {"key": "Ada", "link_weight": 0.9, "type": "works on", "term": "since May"},
        {"key": "Bo", "link_weight": 0.7, "type": "works on", "term": "since May"},
        {"key": "Cy", "link_weight": 0.5, "type": "works on", "term": "since May"},
    ]

    both = (await call("memory_get", key="Aurora", direction="both"))["data"]
    assert (both["links"], both["backlinks"]) == (out["links"], incoming["backlinks"])
    assert (await call("memory_get", key="Di"))["data"]["backlinks_total"] == 0


async def test_a_term_stays_until_it_is_changed(roots: Settings, through: Through) -> None:
    call = through(roots)
    await call("store_memory", type="core", key="a", content="a", links=[{"key": "b", "term": "t"}])

    async def change(**link: object) -> Any:
        links = [{"key": "b", **link}]
        await call("store_memory", type="core", key="a", content="a", links=links)
        return (await call("memory_get", key="a"))["data"]["links"]

    assert await change(link_weight=0.7) == [{"key": "b", "link_weight": 0.7, "term": "t"}]
    assert await change(link_weight=0.7, term="") == [{"key": "b", "link_weight": 0.7}]


async def test_renaming_keeps_what_links_to_a_memory(roots: Settings, through: Through) -> None:
    call = through(roots)
    await link_up(call, A="B", B="A B C", C="B")
    stored = await call("memory_get", key="B")

    renamed = await call("update_memory", id=stored["data"]["id"], key="Z")

    assert renamed["updated_fields"] == ["key"]
    assert renamed["memory"]["key"] == "Z"
    assert await find_reason(call, "memory_get", key="B") == "not_found"
    assert list_keys(await call("bulk_read_memory", key="A")) == ["A", "Z", "C"]

    links = (await call("memory_get", key="Z", direction="both"))["data"]
    assert [link["key"] for link in links["links"]] == ["A", "Z", "C"]
    assert [link["key"] for link in links["backlinks"]] == ["A", "C", "Z"]
    assert links["backlinks_total"] == 3


async def test_of_two_links_that_become_one_the_heavier_stays(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    links = [{"key": "old", "link_weight": 0.4}, {"key": "new", "link_weight": 0.6}]
    await call("store_memory", type="core", key="a", content="a", links=links)
    old = await call("store_memory", type="core", key="old", content="o")
    await call("update_memory", id=old["id"], key="new")

    data = (await call("memory_get", key="a"))["data"]
    assert data["links"] == [{"key": "new", "link_weight": 0.6}]
    assert list_keys(await call("bulk_read_memory", key="a")) == ["a", "new"]


async def test_a_key_in_use_is_not_taken(roots: Settings, through: Through) -> None:
    call = through(roots)
    a, b = [await call("store_memory", type="core", key=key, content=key) for key in "ab"]

    assert await find_reason(call, "update_memory", id=a["id"], key="b") == "key_taken"
    await call("delete_memory", id=b["id"], permanent=True)
    assert (await call("update_memory", id=a["id"], key="b"))["updated_fields"] == ["key"]


async def test_versions_never_repeat(roots: Settings, through: Through) -> None:
    call = through(roots)
    a = await call("store_memory", type="core", key="a", content="a")
    same = await call("store_memory", type="core", key="a", content="a")
    b = await call("store_memory", type="core", key="b", content="b")
    await call("delete_memory", id=b["id"], permanent=True)
    again = await call("store_memory", type="core", key="b", content="b")

    versions = [answer["memory"]["version"] for answer in (a, same, b, again)]
    assert versions == [1, 1, 2, 4]  # the deletion was a change too


@pytest.mark.requirement("R4.5.7")
async def test_cycles_are_counted_in_the_log(
    roots: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_calls(roots) as call:
        await link_up(call, A="B", B="A")
        with caplog.at_level(logging.DEBUG, "abilities"):
            await call("bulk_read_memory", key="A")

    assert "a walk met cycles: 1" in caplog.text


async def test_an_answer_shows_as_many_links_as_fit_and_the_rest_is_on_the_next_pages(
    roots: Settings,
) -> None:
    """A change that is made must be acknowledged, however large its links are."""
    settings = roots.model_copy(update={"max_response_bytes": 40_000})
    wide = "\u0001" * 200
    links = [{"key": f"{n:02}{'😀' * 198}", "type": wide[:50], "term": wide} for n in range(20)]

    async with Abilities.open(settings) as abilities:
        values = {"content": "\u0001" * 5_000, "summary": wide, "metadata": {"m": "x" * 4_000}}
        stored = await abilities.call(
            "store_memory", {"key": "hub", "type": "core", "links": links, **values}
        )
        changed = await abilities.call(
            "update_memory", {"id": stored["id"], "summary": "s", "links": [{"key": "hub"}]}
        )
        for link in links:
            back = {**link, "key": "hub"}
            source = {"key": link["key"], "type": "core", "content": "c", "links": [back]}
            await abilities.call("store_memory", source)

        shown: dict[str, list[str]] = {"links": [], "backlinks": []}
        offset = 0
        while offset < 21:
            arguments = {"key": "hub", "direction": "both", "links_offset": offset}
            page = await abilities.call("memory_get", arguments)
            for name, keys in shown.items():
                keys += [link["key"] for link in page["data"].get(name, [])]
            offset += max(len(page["data"].get(name, [])) for name in shown)

    assert 0 < len(stored["memory"]["links"]) < 20
    assert changed["updated_fields"] == ["summary", "links"]
    expected = ["hub", *(link["key"] for link in links)]
    assert [sorted(keys) for keys in shown.values()] == [sorted(expected)] * 2
