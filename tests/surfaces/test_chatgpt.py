"""`search` and `fetch`: the shapes that ChatGPT expects, on every surface, by a setting."""

import pytest

from abilities import Abilities, AbilityError, Settings
from tests.support.reading import write_files
from tests.support.surfaces import SURFACES, with_changes

URL = "http://localhost:8000"
MEMORY = {"type": "core", "key": "people/Ada", "content": "Ada drinks green tea."}


@pytest.fixture
def chatgpt(roots: Settings) -> Settings:
    write_files(roots.agent_dir, {"MEMORY.md": "# Notes\n\nAda drinks tea in the morning.\n"})
    return with_changes(roots, chatgpt=True, public_url=URL)


@pytest.mark.parametrize("surface", SURFACES)
async def test_they_answer_as_chatgpt_expects_on_every_surface(
    chatgpt: Settings, surface: str
) -> None:
    call = SURFACES[surface]
    await call(chatgpt, "store_memory", MEMORY)

    found = await call(chatgpt, "search", {"query": "What does Ada drink?"})
    memory = await call(chatgpt, "fetch", {"id": "memory:people/Ada"})
    note = await call(chatgpt, "fetch", {"id": "file:MEMORY.md"})

    results = [
        {"id": "memory:people/Ada", "title": "people/Ada", "url": f"{URL}/#/memory/people%2FAda"},
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


async def test_what_cannot_be_fetched_is_refused_as_elsewhere(chatgpt: Settings) -> None:
    write_files(chatgpt.workspace_dir, {".env": "SECRET=1"})
    async with Abilities.open(chatgpt) as abilities:
        await abilities.call("store_memory", MEMORY)
        for wrong, reason in (
            ("memory:none", "not_found"),
            ("memory:people/*", "not_found"),
            ("file:none.txt", "not_found"),
            ("file:../secret", "parent_traversal"),
            ("file:/etc/passwd", "absolute_path"),
            ("file:.env", "denied"),
            ("people/Ada", "invalid_format"),
            ("memory:", "invalid_format"),
            ("note:today", "invalid_format"),
        ):
            with pytest.raises(AbilityError) as raised:
                await abilities.call("fetch", {"id": wrong})
            assert raised.value.fault.reason == reason, wrong


async def test_they_do_nothing_that_is_disabled_and_see_no_other_namespace(
    chatgpt: Settings, roots: Settings
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

    async with Abilities.open(roots) as abilities:
        names = {ability.name for ability in abilities.offered}
    assert names.isdisjoint({"search", "fetch"}), "without the setting they are not there"
