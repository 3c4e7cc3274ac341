"""`search` and `fetch`: the shapes that ChatGPT expects, on every surface, by a setting."""

from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings
from tests.support.reading import write_files
from tests.support.surfaces import SURFACES

URL = "http://localhost:8000"
MEMORY = {"type": "core", "key": "people/Ada", "content": "Ada drinks green tea."}


@pytest.fixture
def chatgpt(roots: Settings) -> Settings:
    write_files(roots.agent_dir, {"MEMORY.md": "# Notes\n\nAda drinks tea in the morning.\n"})
    return with_changes(roots, chatgpt=True, public_url=URL)


def with_changes(settings: Settings, **changes: Any) -> Settings:
    return Settings(**{**settings.model_dump(exclude_unset=True), **changes})


@pytest.mark.parametrize("surface", SURFACES)
async def test_they_answer_in_the_shapes_of_chatgpt_on_every_surface(
    chatgpt: Settings, surface: str
) -> None:
    call = SURFACES[surface]
    await call(chatgpt, "store_memory", MEMORY)

    found = await call(chatgpt, "search", {"query": "What does Ada drink?"})
    memory = await call(chatgpt, "fetch", {"id": "memory:people/Ada"})
    note = await call(chatgpt, "fetch", {"id": "file:MEMORY.md"})

    results = [
        {
            "id": "memory:people/Ada",
            "title": "people/Ada",
            "url": f"{URL}/#/memory/people%2FAda",
        },
        {"id": "file:MEMORY.md", "title": "MEMORY.md", "url": f"{URL}/#/files"},
    ]
    assert sorted(found["results"], key=str) == sorted(results, key=str)
    assert memory["metadata"].pop("modified_at")
    assert memory == {**results[0], "text": MEMORY["content"], "metadata": {}}
    assert {name: note[name] for name in results[1]} == results[1]
    assert "in the morning" in note["text"]


async def test_the_rest_of_a_large_file_is_fetched_by_its_id(chatgpt: Settings) -> None:
    content = 'a "quoted" line\n' * 9_000
    write_files(chatgpt.workspace_dir, {"large.txt": content})

    text, next_id = "", "file:large.txt"
    async with Abilities.open(chatgpt) as abilities:
        while next_id:
            page = await abilities.call("fetch", {"id": next_id})
            text += page["text"]
            next_id = page["metadata"].get("next", "")

    assert text == content


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("memory:none", "not_found"),
        ("memory:people/*", "not_found"),
        ("file:none.txt", "not_found"),
        ("file:../secret", "parent_traversal"),
        ("file:/etc/passwd", "absolute_path"),
        ("file:.env", "denied"),
        ("people/Ada", "invalid_format"),
        ("memory:", "invalid_format"),
        ("note:today", "invalid_format"),
    ],
)
async def test_what_cannot_be_fetched_is_refused_as_elsewhere(
    chatgpt: Settings, wrong: str, reason: str
) -> None:
    write_files(chatgpt.workspace_dir, {".env": "SECRET=1"})

    async with Abilities.open(chatgpt) as abilities:
        await abilities.call("store_memory", MEMORY)
        with pytest.raises(AbilityError) as raised:
            await abilities.call("fetch", {"id": wrong})

    assert raised.value.fault.reason == reason


async def test_they_do_nothing_that_is_disabled_and_see_no_other_namespace(
    chatgpt: Settings,
) -> None:
    disabled = with_changes(chatgpt, disabled=("recall", "file_read_bulk"))
    async with Abilities.open(disabled) as abilities:
        for name, arguments in (("search", {"query": "Ada"}), ("fetch", {"id": "file:MEMORY.md"})):
            with pytest.raises(AbilityError) as raised:
                await abilities.call(name, arguments)
            assert raised.value.fault.reason == "disabled"

    async with Abilities.open(with_changes(chatgpt, read_namespaces=("team",))) as abilities:
        team = abilities.for_namespace("team")
        await team.call("store_memory", {**MEMORY, "key": "theirs"})
        found = await abilities.call("search", {"query": "What does Ada drink?"})

    assert [result["title"] for result in found["results"]] == ["MEMORY.md"]


async def test_without_the_setting_they_are_not_there(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        names = {ability.name for ability in abilities.offered}

    assert names.isdisjoint({"search", "fetch"})
