"""What is disabled cannot be had by `read` either; what a profile leaves out can."""

from typing import Any

import pytest

from abilities import Abilities, Settings
from tests.support.reading import write_files

ITEMS: dict[str, list[Any]] = {
    "file_read_bulk": ["a.txt", {"file": "a.txt"}, {"glob": "*"}, {"search": "a"}],
    "file_list": [{"glob": "*"}],
    "memory_read_bulk": [{"note": "today"}, {"memory": "k"}],
    "memory_list": [{"memory": "k*"}],
    "bulk_read_memory": [{"memory": "k", "depth": 1}],
    "recall": [{"recall": "a"}],
}
"""What items stand for an ability, by its name."""

ALL = [item for items in ITEMS.values() for item in items]


async def read_all(settings: Settings) -> list[str]:
    write_files(settings.workspace_dir, {"a.txt": "a\n"})
    async with Abilities.open(settings) as abilities:
        payload = await abilities.call("read", {"items": ALL})

    return [record.get("error", {}).get("reason", "found") for record in payload["results"]]


@pytest.mark.parametrize("name", ITEMS)
async def test_items_of_a_disabled_ability_are_refused(name: str, roots: Settings) -> None:
    outcomes = await read_all(roots.model_copy(update={"disabled": (name,)}))

    for item, outcome in zip(ALL, outcomes, strict=True):
        assert (outcome == "disabled") == (item in ITEMS[name]), item


@pytest.mark.parametrize("tools", ["lean", "read", "all"])
async def test_profiles_keep_nothing_from_it(tools: str, roots: Settings) -> None:
    outcomes = await read_all(roots.model_copy(update={"tools": (tools,)}))

    assert "disabled" not in outcomes
    assert outcomes[0] == "found"
