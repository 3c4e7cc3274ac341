"""The statements of docs/scale.md show how large a store is, and who waits."""

import re
from pathlib import Path

import psycopg
import pytest

from abilities import Abilities, Settings

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
CONTENT = "x" * 1_000


def list_statements() -> list[str]:
    """Return the statements of the page."""
    block = re.search(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert block is not None
    return [line for line in block[1].splitlines() if not line.startswith("--")]


async def test_the_statements_of_the_page_show_sizes_and_waiting(
    url: str, settings: Settings
) -> None:
    chosen = settings.model_copy(update={"store_url": url})

    async with Abilities.open(chosen) as abilities:
        for number in range(3):
            memory = {"type": "core", "content": CONTENT, "key": f"k{number}"}
            await abilities.call("store_memory", memory)
        await abilities.call("store_memory", {"type": "core", "content": "new", "key": "k0"})

        with psycopg.connect(url) as connection:
            sizes, history, tables, connections = [
                connection.execute(statement.encode()).fetchall() for statement in list_statements()
            ]

    [(namespace, memories, size)] = sizes
    assert (namespace, memories) == (chosen.namespace, 3)
    assert size == pytest.approx(2 * len(CONTENT), rel=0.1)
    assert history[0][0] == chosen.namespace and history[0][1].endswith("bytes")
    assert {"memories", "history", "links"} <= {name for name, _ in tables}
    assert connections and all(row[3] == [] for row in connections)


async def test_the_command_that_empties_a_store_leaves_one_that_works(
    url: str, settings: Settings
) -> None:
    chosen = settings.model_copy(update={"store_url": url})
    page = (PAGE.parent / "operating.md").read_text()
    command = re.search(r"psql -c '(DROP SCHEMA .+)'`", page)
    assert command is not None
    memory = {"type": "core", "content": CONTENT, "key": "k"}

    async with Abilities.open(chosen) as abilities:
        await abilities.call("store_memory", memory)
    with psycopg.connect(url) as connection:
        connection.execute(command[1].encode())
    async with Abilities.open(chosen) as abilities:
        counted = await abilities.call("query_memories", {})
        stored = await abilities.call("store_memory", memory)

    assert counted["total"] == 0 and stored["created"] is True
