"""Fixtures of the tests of `abilities doctor`."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from abilities import Abilities, Settings
from abilities.helpers.tokens import TokenFile


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that others may enter, as a home may be."""
    with tempfile.TemporaryDirectory(prefix="abilities-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def sound(base: Path) -> Settings:
    """Two roots, a store with a memory and a token, all of them private and apart."""
    for name in ("agent", "workspace", "state"):
        (base / name).mkdir()
        (base / name).chmod(0o755)
    settings = Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        store_url=f"sqlite:///{base}/state/memory.db",
        tokens_file=base / "state" / "tokens.json",
    )
    TokenFile(settings.tokens_file).add("default", "read")

    async def fill() -> None:
        async with Abilities.open(settings) as abilities:
            await abilities.call("store_memory", {"type": "core", "content": "x"})

    asyncio.run(fill())
    return settings
