"""What replies cost in tokens: ours against the official server's, for the same source files."""

import os
import shutil
import subprocess
from pathlib import Path

import orjson

from abilities import parse_text
from abilities.declarations.values import JsonObject
from benchmarks import peers
from benchmarks.files import FILES
from benchmarks.measure import Measured

SOURCES = Path(os.__file__).parent
PACKAGES = ("asyncio", "email", "http", "importlib", "unittest", "xml/dom")
SIZES = range(4_000, 20_000)
"""Bytes of the files that are read: usual modules of Python's standard library."""

GOALS: list[tuple[JsonObject, str, str]] = [
    ({"detail": "concise"}, "concise text", "<= 1.02x"),
    ({}, "text", "<= 1.05x"),
    ({"detail": "concise", "output_format": "json"}, "concise JSON", "<= 1.2x"),
    ({"output_format": "json"}, "JSON", "<= 1.25x"),
]

COUNT = """
const { countTokens } = require("gpt-tokenizer/cjs/encoding/o200k_base");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => countTokens(text))));
"""


async def measure_tokens(base: Path, _: int) -> list[Measured]:
    """Tokens of 25 source files over MCP, against the official server's read_multiple_files."""
    workspace = base / "sources"
    names = copy_sources(workspace)

    with peers.start_filesystem_server(workspace) as official:
        paths = [str(workspace / name) for name in names]
        theirs = official.call("read_multiple_files", {"paths": paths})

    labels: list[tuple[str, str]] = []
    texts: list[str] = []
    for bound in (peers.LARGE_BOUND, peers.DEFAULT_BOUND):
        with peers.start_ours(base / "agent", workspace, bound=bound) as ours:
            for arguments, label, wanted in GOALS:
                replies = read_to_the_end(ours, {"paths": names, **arguments})
                texts.append("".join(replies))
                calls = f"{len(replies)} replies" if len(replies) > 1 else "one reply"
                labels.append((f"{label}, {bound:,} bytes, {calls}", wanted))

    their_tokens, *our_tokens = count_tokens([theirs, *texts])

    results: list[Measured] = []
    for (label, wanted), tokens in zip(labels, our_tokens, strict=True):
        what = f"tokens of 25 source files against read_multiple_files: {label}"
        results.append(Measured("20", what, wanted, tokens / their_tokens))

    return results


def copy_sources(folder: Path) -> list[str]:
    """Copy modules of the standard library into a folder, and return their paths beneath it."""
    names: list[str] = []
    for package in PACKAGES:
        for file in sorted((SOURCES / package).glob("*.py")):
            if file.stat().st_size in SIZES:
                names.append(f"src/lib/{package}/{file.name}")

    chosen = names[:: len(names) // FILES][:FILES]
    for name in chosen:
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCES / name.removeprefix("src/lib/"), copy)

    return chosen


def read_to_the_end(ours: peers.Peer, request: JsonObject | None) -> list[str]:
    """Follow next_request to the last byte, and return the replies."""
    replies: list[str] = []
    while request:
        replies.append(ours.call("file_read_bulk", request))
        request = parse_text(replies[-1]).get("next_request")

    return replies


def count_tokens(texts: list[str]) -> list[int]:
    """Return the tokens of each text (o200k_base); the tokenizer was installed with the servers."""
    done = subprocess.run(
        ["node", "-e", COUNT],
        cwd=peers.NPM,
        env={**os.environ, "PATH": peers.PATH},
        input=orjson.dumps(texts),
        stdout=subprocess.PIPE,
        check=True,
    )
    counts: list[int] = orjson.loads(done.stdout)
    return counts
