"""The chart in README: how many times faster bulk calls are than the calls that they replace.

Replies are bounded, so each bar of files says the bound, ``max_response_bytes``, at which it holds.
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.measure import Measured
from benchmarks.peers import DEFAULT_BOUND, LARGE_BOUND

_OVER_MCP = "25x16 KB over MCP stdio"
_LARGE = f"{LARGE_BOUND:,} bytes"
_DEFAULT = f"{DEFAULT_BOUND:,} bytes"
_LINKED = "20 linked memories of 10,000 over MCP, against server-memory"
BARS = {
    f"{_OVER_MCP}, {_LARGE}, against 25 read_text_file": (
        f"25 files over MCP, bound {_LARGE}\nvs. official filesystem server, 25 calls"
    ),
    f"{_OVER_MCP}, {_LARGE}, against read_multiple_files": (
        f"25 files over MCP, bound {_LARGE}\nvs. its read_multiple_files"
    ),
    f"{_OVER_MCP}, {_DEFAULT}, to the last byte, against 25 read_text_file": (
        f"25 files over MCP, default bound {_DEFAULT}\nvs. official filesystem server, 25 calls"
    ),
    f"{_OVER_MCP}, {_DEFAULT}, to the last byte, against read_multiple_files": (
        f"25 files over MCP, default bound {_DEFAULT}\nvs. its read_multiple_files"
    ),
    f"25x16 KB in LangChain, {_LARGE}, against 25 ReadFileTool calls": (
        f"25 files in LangChain, bound {_LARGE}\nvs. ReadFileTool, 25 calls"
    ),
    f"{_LINKED}, one open_nodes each": (
        "20 linked memories of 10,000\nvs. official memory server, 20 calls"
    ),
    f"{_LINKED}, open_nodes that knows all names": (
        "20 linked memories of 10,000\nvs. its open_nodes, all names known"
    ),
    "25 memories over HTTP, one call against 25 GETs": (
        "25 memories over HTTP\nvs. 25 calls of our own"
    ),
}
"""Which results are shown, and the label of each."""

# These colors can be read on white and on black.
INK = "#6b7280"
BAR = "#2f6fde"
PALE = "#9ca3af"


def draw(results: list[Measured], path: Path) -> None:
    """Draw the bars, with the quartiles of the rounds as thin lines."""
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same results give the same file
    by_name = {result.what: result for result in results}
    labels = list(reversed(BARS.values()))
    shown = [by_name[what] for what in reversed(BARS)]

    figure = Figure(figsize=(8, 5.4), layout="constrained")
    axes = figure.subplots()
    for position, result in enumerate(shown):
        draw_bar(axes, position, result)

    lowest = min(result.low or 1 for result in shown)
    style_axes(axes, labels, lowest, max(result.high or 1 for result in shown))
    figure.savefig(path, transparent=True, metadata={"Date": None})


def draw_bar(axes: Axes, position: int, result: Measured) -> None:
    """Draw one result, from 1 (as fast as what it is compared with) to the right or the left."""
    assert result.low is not None
    assert result.high is not None

    axes.barh(position, result.value - 1, left=1, color=BAR, height=0.6)
    axes.hlines(position, result.low, result.high, color=PALE, linewidth=2)
    end = max(result.value, result.high, 1) * 1.05
    axes.text(end, position, f"{result.value:.1f}x", va="center", color=INK)


def style_axes(axes: Axes, labels: list[str], lowest: float, highest: float) -> None:
    """Label the bars, and make the axis logarithmic."""
    axes.set_yticks(range(len(labels)), labels, color=INK)
    axes.set_xscale("log")
    axes.set_xlim(min(lowest / 1.2, 1), highest * 2)
    axes.axvline(1, color=INK, linewidth=1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_xlabel("times faster (logarithmic; below 1 it is slower)", color=INK)
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
