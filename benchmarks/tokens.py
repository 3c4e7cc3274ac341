"""What replies cost in tokens: ours against the official server's, for the same source files."""

from pathlib import Path

from abilities.declarations.values import JsonObject
from benchmarks.mcp_files import MAX_CHARS, describe_calls
from benchmarks.measure import Measured
from benchmarks.packages import count_tokens
from benchmarks.peers import read_to_the_end, start_at_both_bounds, start_filesystem_server
from benchmarks.workloads import copy_sources

FORMATS: list[tuple[JsonObject, str, str]] = [
    ({"detail": "concise"}, "concise text", "<= 1.02x"),
    ({}, "text", "<= 1.05x"),
    ({"detail": "concise", "output_format": "json"}, "concise JSON", "<= 1.2x"),
    ({"output_format": "json"}, "JSON", "<= 1.25x"),
]
"""Arguments of a call, the name of its format, and what is wanted."""


async def measure_tokens(base: Path, _: int) -> list[Measured]:
    """Tokens (o200k_base) of 25 real sources over MCP, against the official server's replies."""
    workload = copy_sources(base / "workspace")

    with start_filesystem_server(workload.folder) as official:
        together = official.call("read_multiple_files", {"paths": workload.paths})
        each = [official.call("read_text_file", {"path": path}) for path in workload.paths]
    together_tokens, each_tokens = count_tokens([together, "".join(each)])

    results: list[Measured] = []
    with start_at_both_bounds(base, workload.folder) as ours:
        for bound, peer in ours.items():
            for arguments, name, wanted in FORMATS:
                request = {"paths": workload.names, "max_chars_per_file": MAX_CHARS, **arguments}
                replies = read_to_the_end(peer, "file_read_bulk", request)
                (tokens,) = count_tokens(["".join(replies)])

                what = f"tokens of 25 real sources as {name}, against"
                note = f"{tokens:,} tokens in {describe_calls(len(replies))}"
                results += [
                    Measured(
                        "20",
                        f"{what} one read_multiple_files",
                        wanted,
                        tokens / together_tokens,
                        bound=bound,
                        note=note,
                    ),
                    Measured(
                        "20",
                        f"{what} 25 read_text_file",
                        "",
                        tokens / each_tokens,
                        bound=bound,
                        note=note,
                    ),
                ]

    return results
