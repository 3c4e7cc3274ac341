"""The chart in README and docs/performance.md: how many times as fast as what they replace.

Replies are bounded, so each row has a bar for each bound, ``max_response_bytes``. A bar to the left
of 1 is slower, and a bar that misses our own goal is hatched, with a mark at the goal.
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.measure import Measured
from benchmarks.peers import BOUNDS, DEFAULT_BOUND, LARGE_BOUND
from benchmarks.wording import format_value

CHART = Path(__file__).parent.parent / "docs" / "benchmarks.svg"

_MEMORY_SERVER = "over MCP, against the memory server's"
SHOWN = (
    "25 files of 16 KB over MCP, against 25 read_text_file",
    "25 files of 16 KB over MCP, against one read_multiple_files",
    "25 real sources over MCP, against 25 read_text_file",
    "25 real sources over MCP, against one read_multiple_files",
    "25 files of 256 KB over MCP, against 25 read_text_file",
    "25 files of 16 KB in LangChain, async, against 25 ReadFileTool calls",
    "25 files of 16 KB in LangChain, async, against 25 read_file calls of deepagents at once",
    "25 files of 16 KB over HTTP, one call against 25 calls of our own",
    f"20 linked memories of 10,000 {_MEMORY_SERVER} 20 open_nodes, one name each",
    f"20 linked memories of 10,000 {_MEMORY_SERVER} 4 open_nodes, one level each",
    f"20 linked memories of 10,000 {_MEMORY_SERVER} one open_nodes that knows all names",
    f"a rare text among 1,000 memories {_MEMORY_SERVER} search_nodes",
    "20 linked memories of 10,000 over HTTP, against kv-memory under bun",
    "25 memories over HTTP, one call against 25 GETs of our own",
)
"""The rows of the chart, from the top; those that were not measured are left out."""

# These colors can be read on white and on black.
INK = "#6b7280"
PALE = "#9ca3af"
COLORS = dict(zip(BOUNDS, ("#2f6fde", "#d97706"), strict=True))

HEIGHT = 0.38
"""Of a bar; the rows are 1 apart."""


def draw(results: list[Measured], path: Path) -> None:
    """Draw the bars, with the quartiles of the rounds as thin lines."""
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same results give the same file
    measured = {
        (result.what, result.bound): result for result in results if result.value is not None
    }
    rows = [what for what in SHOWN if any((what, bound) in measured for bound in BOUNDS)]

    figure = Figure(figsize=(9, 1.4 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    drawn: list[Measured] = []
    for position, what in enumerate(reversed(rows)):
        for bound in BOUNDS:
            result = measured.get((what, bound))
            if result:
                draw_bar(axes, position + find_offset(bound), result)
                drawn.append(result)

    style_axes(axes, [split_label(what) for what in reversed(rows)], drawn)
    add_legend(figure)
    figure.savefig(path, transparent=True, metadata={"Date": None})


def find_offset(bound: int) -> float:
    """Return where the bar of a bound is in its row: the default above."""
    return HEIGHT / 2 if bound == DEFAULT_BOUND else -HEIGHT / 2


def split_label(what: str) -> str:
    """Return the name of a row in two lines."""
    return what.replace(", one call against ", "\nvs. ").replace(", against ", "\nvs. ")


def draw_bar(axes: Axes, position: float, result: Measured) -> None:
    """Draw one result, from 1 (as fast as what it is compared with) to the right or the left."""
    assert result.value is not None
    assert result.bound is not None
    low = result.low or result.value
    high = result.high or result.value

    axes.barh(
        position,
        result.value - 1,
        left=1,
        color=COLORS[result.bound],
        height=HEIGHT,
        hatch="////" if result.met is False else None,
        edgecolor="white",
        linewidth=0,
    )
    axes.hlines(position, low, high, color=PALE, linewidth=2)
    end = max(result.value, high, 1) * 1.05

    label = format_value(result)
    if result.met is False:
        goal = float(result.wanted.split()[1].rstrip("x"))
        axes.vlines(goal, position - HEIGHT / 2, position + HEIGHT / 2, color=INK, linewidth=1.5)
        end = max(end, goal * 1.05)
        label += f" (goal {goal:g}x)"
    axes.text(end, position, label, va="center", color=INK, fontsize=8)


def style_axes(axes: Axes, labels: list[str], drawn: list[Measured]) -> None:
    """Label the bars, and make the axis logarithmic."""
    lowest = min(result.low or 1 for result in drawn)
    highest = max(result.high or 1 for result in drawn)

    axes.set_yticks(range(len(labels)), labels, color=INK, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(min(lowest / 1.2, 1), highest * 3)
    axes.axvline(1, color=INK, linewidth=1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_xlabel("times as fast (logarithmic; left of 1x it is slower)", color=INK)
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)


def add_legend(figure: Figure) -> None:
    """Say above the bars what their colors mean."""
    default = f"max_response_bytes {DEFAULT_BOUND:,} (default), to the last byte"
    keys = [
        Patch(color=COLORS[DEFAULT_BOUND], label=default),
        Patch(color=COLORS[LARGE_BOUND], label=f"max_response_bytes {LARGE_BOUND:,}"),
        Patch(facecolor=PALE, hatch="////", edgecolor="white", label="misses our own goal"),
    ]
    figure.legend(
        handles=keys, loc="outside upper right", ncols=3, frameon=False, labelcolor=INK, fontsize=8
    )
