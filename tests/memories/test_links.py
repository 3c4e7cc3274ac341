"""Links in both directions, as answers show them."""

from functools import partial

from abilities import Settings
from tests.memories.calls import get, list_keys, open_calls, store
from tests.support.surfaces import Call, Through


async def link_project(call: Call) -> None:
    """Store people who work on a project, one of them linking to another."""
    for name, weight in {"Ada": 0.9, "Bo": 0.7, "Cy": 0.5}.items():
        link = {"key": "Aurora", "link_weight": weight, "type": "works on", "term": "since May"}
        await store(call, name, links=[link])

    await store(call, "Di", links=[{"key": "Ada"}])
    await store(call, "Aurora", "a project", links=[{"key": "x"}])


async def test_who_works_on_a_project_is_one_call(
    roots: Settings, call: Call, through: Through
) -> None:
    await link_project(call)
    ask = partial(through(roots), key="Aurora", depth=1)

    walk = await ask("bulk_read_memory", direction="in")
    assert list_keys(walk) == ["Aurora", "Ada", "Bo", "Cy"]
    assert [entry["combinedScore"] for entry in walk["associatedMemories"]] == [0.54, 0.42, 0.3]
    assert walk["associatedMemories"][0]["link"] == {"type": "works on", "link_weight": 0.9}
    assert [cut["key"] for cut in walk["metadata"]["frontier"]] == ["Di"]
    assert await ask("memory_get", direction="in", bulkRead=True) == walk

    full, concise = [
        (await ask("bulk_read_memory", direction="both", detail=detail))["associatedMemories"]
        for detail in ("full", "concise")
    ]
    for record, short in zip(full[:3], concise[:3], strict=True):
        assert record["link"] == {**record["link"], "type": "works on", "direction": "in"}
        assert (short["link"], short["direction"]) == ("works on", "in")


async def test_an_answer_shows_as_many_links_as_fit_and_the_rest_is_on_the_next_pages(
    roots: Settings,
) -> None:
    """A change that is made must be acknowledged, however large its links are."""
    wide = "\u0001" * 200
    links = [{"key": f"{n:02}{'😀' * 198}", "type": wide[:50], "term": wide} for n in range(20)]
    metadata = {"m": "x" * 4_000}

    async with open_calls(roots.model_copy(update={"max_response_bytes": 40_000})) as call:
        stored = await store(
            call, "hub", "\u0001" * 5_000, summary=wide, metadata=metadata, links=links
        )
        changed = await call("update_memory", id=stored["id"], summary="s", links=[{"key": "hub"}])
        for link in links:
            await store(call, link["key"], links=[{**link, "key": "hub"}])

        shown: dict[str, list[str]] = {"links": [], "backlinks": []}
        offset = 0
        while offset < 21:
            page = await get(call, "hub", direction="both", links_offset=offset)
            for name, keys in shown.items():
                keys += [link["key"] for link in page.get(name, [])]
            offset += max(len(page.get(name, [])) for name in shown)

    assert 0 < len(stored["memory"]["links"]) < 20
    assert changed["updated_fields"] == ["summary", "links"]
    expected = sorted(["hub", *(link["key"] for link in links)])
    assert [sorted(keys) for keys in shown.values()] == [expected, expected]
