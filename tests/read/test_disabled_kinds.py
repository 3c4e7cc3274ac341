"""What is disabled cannot be had by `read` either; what a profile leaves out can."""

from typing import Any

import pytest

from abilities import Abilities, Settings

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


async def read_reasons(settings: Settings) -> list[str | None]:
    """Return the reason of each item's failure; None for one that was found."""
    async with Abilities.open(settings) as abilities:
        results = (await abilities.call("read", {"items": ALL}))["results"]

    return [record["error"]["reason"] if "error" in record else None for record in results]


def fill(settings: Settings) -> None:
    (settings.workspace_dir / "a.txt").write_text("a\n")


@pytest.mark.parametrize("name", ITEMS)
async def test_items_of_a_disabled_ability_are_refused(name: str, roots: Settings) -> None:
    fill(roots)
    reasons = await read_reasons(roots.model_copy(update={"disabled": (name,)}))

    for item, reason in zip(ALL, reasons, strict=True):
        assert (reason == "disabled") == (item in ITEMS[name]), item


@pytest.mark.parametrize("tools", ["lean", "read", "all"])
async def test_profiles_keep_nothing_from_it(tools: str, roots: Settings) -> None:
    fill(roots)
    reasons = await read_reasons(roots.model_copy(update={"tools": (tools,)}))

    assert "disabled" not in reasons
    assert reasons[0] is None
