"""The chart in README: how many times faster one call is than the calls that it replaces."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.measure import Measured

_LINKED = "20 linked memories of 10,000 over MCP, against server-memory"
BARS = {
    "25x16 KB over MCP stdio, against 25 read_text_file": (
        "25 files over MCP\nvs. official filesystem server, 25 calls"
    ),
    "25x16 KB over MCP stdio, against read_multiple_files": (
        "25 files over MCP\nvs. its read_multiple_files"
    ),
    "25x16 KB in LangChain, against 25 ReadFileTool calls": (
        "25 files in LangChain\nvs. ReadFileTool, 25 calls"
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

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for position, result in enumerate(shown):
        draw_bar(axes, position, result)

    style_axes(axes, labels, max(result.high or 1 for result in shown))
    figure.savefig(path, transparent=True, metadata={"Date": None})


def draw_bar(axes: Axes, position: int, result: Measured) -> None:
    """Draw one result."""
    assert result.low is not None
    assert result.high is not None

    axes.barh(position, result.value, color=BAR, height=0.6)
    axes.hlines(position, result.low, result.high, color=PALE, linewidth=2)
    end = max(result.value, result.high) * 1.05
    axes.text(end, position, f"{result.value:.1f}x", va="center", color=INK)


def style_axes(axes: Axes, labels: list[str], highest: float) -> None:
    """Label the bars, and make the axis logarithmic."""
    axes.set_yticks(range(len(labels)), labels, color=INK)
    axes.set_xscale("log")
    axes.set_xlim(1, highest * 2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_xlabel("times faster (logarithmic)", color=INK)
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
