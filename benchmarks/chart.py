"""The chart that README shows: how many times faster one call is than what it replaces."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.measure import Measured

BARS = {
    "25x16 KB over MCP stdio, against 25 read_text_file": "25 files over MCP\nvs. official filesystem server, 25 calls",
    "25x16 KB over MCP stdio, against read_multiple_files": "25 files over MCP\nvs. its read_multiple_files",
    "25x16 KB in LangChain, against 25 ReadFileTool calls": "25 files in LangChain\nvs. ReadFileTool, 25 calls",
    "20 linked memories of 10,000 over MCP, against server-memory, one open_nodes each": (
        "20 linked memories of 10,000\nvs. official memory server, 20 calls"
    ),
    "20 linked memories of 10,000 over MCP, against server-memory, open_nodes that knows all names": (
        "20 linked memories of 10,000\nvs. its open_nodes, all names known"
    ),
    "25 memories over HTTP, one call against 25 GETs": "25 memories over HTTP\nvs. 25 calls of our own",
}
INK, BAR, PALE = "#6b7280", "#2f6fde", "#9ca3af"  # read well on white and on black


def draw(found: list[Measured], path: Path) -> None:
    """Draw the bars that README shows, with the rounds' quartiles as thin lines."""
    lines = {line.what: line for line in found}
    bars = [(words, lines[what]) for what, words in reversed(BARS.items())]
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same results give the same file
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for place, (_, line) in enumerate(bars):
        assert line.low is not None and line.high is not None
        axes.barh(place, line.value, color=BAR, height=0.6)
        axes.hlines(place, line.low, line.high, color=PALE, linewidth=2)
        axes.text(
            max(line.value, line.high) * 1.05, place, f"{line.value:.1f}x", va="center", color=INK
        )
    axes.set_yticks(range(len(bars)), [words for words, _ in bars], color=INK)
    axes.set_xscale("log")
    axes.set_xlim(1, max(line.high or 1 for _, line in bars) * 2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.tick_params(colors=INK)
    axes.set_xlabel("times faster (logarithmic)", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    figure.savefig(path, transparent=True, metadata={"Date": None})
