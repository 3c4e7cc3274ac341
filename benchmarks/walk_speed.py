"""How long a walk takes in process, from the call to its payload, on a large store."""

from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject
from benchmarks.generate import prepare_store
from benchmarks.measure import Measured, run_shuffled
from benchmarks.peers import LARGE_BOUND

ROOTS = 50

WALKS: dict[str, JsonObject] = {
    "default": {},
    "maximum": {"depth": 6, "breadth": 20, "total": 50},
}
WANTED = {"default": "<= 0.5 ms", "maximum": "<= 1.2 ms"}


async def measure_walk_speed(base: Path, rounds: int, size: int) -> list[Measured]:
    """Walks in process through the whole ability, from some roots that were read before."""
    settings = Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        store_url=f"sqlite:///{prepare_store(base, size)}",
        max_response_bytes=LARGE_BOUND,
    )
    roots = [f"k{2 + number * 7919 % (size - 2):07}" for number in range(ROOTS)]

    async with Abilities.open(settings) as abilities:
        variants = {name: prepare_walk(abilities, roots, limits) for name, limits in WALKS.items()}
        for walk in variants.values():
            for _ in roots:
                await walk()

        timings = await run_shuffled(variants, rounds * 10)

    results: list[Measured] = []
    for name, wanted in WANTED.items():
        what = f"ms for a {name} walk in process at {size:,} memories"
        results.append(Measured("8b", what, wanted, timings[name] * 1000, bound=LARGE_BOUND))

    return results


def prepare_walk(
    abilities: Abilities, roots: list[str], limits: JsonObject
) -> Callable[[], Awaitable[JsonObject]]:
    """Return a function that walks from the next root."""
    requests = cycle([{"key": root, **limits} for root in roots])
    return lambda: abilities.call("bulk_read_memory", next(requests))
