"""Inputs that are large in one way: a long log, undecodable text, a full folder, many tokens."""

import hashlib
import json
import secrets
from functools import partial
from pathlib import Path

import httpx

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject
from benchmarks.in_process import build_settings
from benchmarks.measure import Measured, Timings, Work, run_shuffled
from benchmarks.peers import (
    DEFAULT_BOUND,
    LARGE_BOUND,
    Peer,
    read_to_the_end,
    start_filesystem_server,
    start_ours,
)
from tests.support.serving import serving

LOG_LINES = 600_000
RANGES = 25
LATIN_CHARS = 100_000
LISTED = 50_000
TOKENS = 10_000


async def measure_line_ranges(base: Path, rounds: int) -> list[Measured]:
    """25 ranges of lines of a log of 64 MB in one call, against the last range alone."""
    settings = build_settings(base)
    log = settings.workspace_dir / "server.log"
    line = "2026-01-01 12:00:00.000 INFO request 0123456789abcdef answered: 200, {:07} of all {}\n"
    with log.open("w") as file:
        for number in range(1, LOG_LINES + 1):
            file.write(line.format(number, "x" * 25))
    megabytes = log.stat().st_size / 2**20
    assert 60 < megabytes < 64  # lines are refused beyond 64 MiB

    starts = [number * (LOG_LINES // RANGES) - 20 for number in range(1, RANGES + 1)]
    paths = [f"server.log#L{start}-L{start + 9}" for start in starts]
    async with Abilities.open(settings) as abilities:
        variants: dict[str, Work] = {
            "all": partial(read_ranges, abilities, paths),
            "last": partial(read_ranges, abilities, paths[-1:]),
        }
        timings = await run_shuffled(variants, rounds)

    what = f"{RANGES} ranges of lines of a log of {megabytes:.0f} MiB, against the last one alone"
    note = f"{timings['all'] * 1000:,.0f} and {timings['last'] * 1000:,.0f} ms"
    return [
        timings.ratio("17b", what, "<= 1.5x", "all", "last", bound=LARGE_BOUND, note=note),
    ]


async def read_ranges(abilities: Abilities, paths: list[str]) -> None:
    """Read ranges of lines in one call; all of them have ten lines."""
    payload = await abilities.call("file_read_bulk", {"paths": paths})
    for record in payload["results"]:
        assert record["data"]["content"].count("\n") == 10


async def measure_latin(base: Path, rounds: int) -> list[Measured]:
    """100,000 characters of a file in Latin-1 in which every second byte is no UTF-8."""
    settings = build_settings(base)
    text = "aé" * (LATIN_CHARS // 2)
    (settings.workspace_dir / "latin.txt").write_bytes(text.encode("latin-1"))
    request: JsonObject = {"paths": ["latin.txt"], "max_chars_per_file": LATIN_CHARS}

    async with Abilities.open(settings) as abilities:
        payload = await abilities.call("file_read_bulk", request)
        (record,) = payload["results"]
        assert record["data"]["replaced"] == LATIN_CHARS // 2
        timings = await run_shuffled(
            {"latin": partial(abilities.call, "file_read_bulk", request)}, rounds * 3
        )

    what = f"ms for {LATIN_CHARS:,} characters of which every second one is no UTF-8"
    return [Measured("17b", what, "<= 10 ms", timings["latin"] * 1000, bound=LARGE_BOUND)]


async def measure_full_folder(base: Path, rounds: int, files: int = LISTED) -> list[Measured]:
    """All names of a folder of 50,000 files over MCP, against the filesystem server."""
    workspace = base / "workspace"
    for number in range(files):
        (workspace / f"file{number:06}.txt").touch()

    timings: Timings
    with (
        start_ours(base, workspace, bound=LARGE_BOUND) as ours,
        start_filesystem_server(workspace) as theirs,
    ):
        replies = list_all(ours)
        assert sum(reply.count(".txt") for reply in replies) >= files
        assert theirs.call("list_directory", {"path": str(workspace)}).count(".txt") == files

        variants: dict[str, Work] = {
            "ours": partial(list_all, ours),
            "theirs": partial(theirs.call, "list_directory", {"path": str(workspace)}),
        }
        timings = await run_shuffled(
            variants,
            max(rounds // 10, 3),
            warmup_rounds=1,
            processes=[ours.process_id, theirs.process_id],
        )

    folder = f"a folder of {files:,} files over MCP"
    note = f"{len(replies)} calls"
    return [
        Measured(
            "17b",
            f"ms to list {folder}",
            "<= 1500 ms",
            timings["ours"] * 1000,
            bound=LARGE_BOUND,
            note=note,
        ),
        timings.ratio(
            "17b",
            f"list {folder}, against one list_directory",
            "",
            "theirs",
            "ours",
            bound=LARGE_BOUND,
            note=f"{note}; theirs has names alone, in one reply",
        ),
    ]


def list_all(peer: Peer) -> list[str]:
    """List all files with as many per call as can be, and follow next_request."""
    return read_to_the_end(peer, "file_list", {"limit": 500})


async def measure_tokens_file(base: Path, rounds: int) -> list[Measured]:
    """A request to a server that has 10,000 tokens, against one that has one token."""
    with (
        serving(build_token_settings(base, "many", TOKENS), base) as many,
        serving(build_token_settings(base, "one", 1), base) as one,
    ):
        async with (
            httpx.AsyncClient(base_url=many.address, headers=authorize(base, "many")) as to_many,
            httpx.AsyncClient(base_url=one.address, headers=authorize(base, "one")) as to_one,
        ):
            variants: dict[str, Work] = {
                "many": partial(list_abilities, to_many),
                "one": partial(list_abilities, to_one),
            }
            processes = [many.process.pid, one.process.pid]
            timings = await run_shuffled(variants, rounds * 10, processes=processes)

    what = f"a request to a server with {TOKENS:,} tokens, against one token"
    return [timings.ratio("17b", what, "<= 1.1x", "many", "one")]


async def list_abilities(client: httpx.AsyncClient) -> None:
    """Make ten requests that read no file and no memory."""
    for _ in range(10):
        response = await client.get("/api/abilities")
        assert response.status_code == 200, response.text


def build_token_settings(base: Path, name: str, count: int) -> Settings:
    """Write a tokens file, and return the settings of a server with these tokens."""
    tokens: list[JsonObject] = []
    for number in range(count):
        secret = secrets.token_urlsafe(32)
        tokens.append(
            {
                "id": f"{number:08x}",
                "namespace": "default",
                "scope": "read",
                "created_at": "2026-01-01T00:00:00.000Z",
                "sha256": hashlib.sha256(secret.encode()).hexdigest(),
            }
        )

    file = base / f"{name}.tokens.json"
    file.write_text(json.dumps(tokens))
    file.chmod(0o600)
    (base / f"{name}.token").write_text(f"abl_{count - 1:08x}_{secret}")
    settings = build_settings(base, DEFAULT_BOUND)
    return settings.model_copy(
        update={"tokens_file": file, "store_url": f"sqlite:///{base}/{name}.db"}
    )


def authorize(base: Path, name: str) -> dict[str, str]:
    """Return the header of the last token."""
    text = (base / f"{name}.token").read_text()
    return {"Authorization": f"Bearer {text}"}
