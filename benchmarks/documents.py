"""The numbers in README and docs, written from results.json: `make write`.

A document has blocks between ``<!-- benchmarks: NAME -->`` and ``<!-- end of benchmarks -->``.
"""

import re
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Measured
from benchmarks.peers import BOUNDS, DEFAULT_BOUND
from benchmarks.reasons import list_reasons
from benchmarks.results import Results, load_results
from benchmarks.wording import format_cell, format_value, format_wanted

ROOT = Path(__file__).parent.parent
DOCUMENTS = tuple(
    ROOT / name for name in ("README.md", "docs/performance.md", "benchmarks/RESULTS.md")
)

# Package indexes show README too, where only whole addresses lead somewhere.
_CHART = "https://github.com/agent-abilities/agent-abilities/raw/main/docs/benchmarks.svg"

_BLOCK = re.compile(
    r"(<!-- benchmarks: (?P<name>[\w-]+) -->\n).*?(<!-- end of benchmarks -->)", re.DOTALL
)

_SINGLE = "25 files of 16 KB over MCP, against 25 read_text_file"
_LINKED = "20 linked memories of 10,000 over MCP, against the memory server's"
COMPARED = (
    _SINGLE,
    "25 files of 16 KB over MCP, against one read_multiple_files",
    "25 files of 16 KB in LangChain, async, against 25 ReadFileTool calls",
    f"{_LINKED} 20 open_nodes, one name each",
    f"{_LINKED} one open_nodes that knows all names",
)
"""The rows in docs/performance.md; those that were not measured are left out."""


def write_chart(results: Results) -> str:
    """Return the chart with its text, for README."""
    lines = [describe_row(results, _SINGLE, bound) for bound in BOUNDS]
    known = f"{_LINKED} 20 open_nodes, one name each"
    lines.append(describe_row(results, known, DEFAULT_BOUND))
    text = "; ".join(line for line in lines if line)
    return f"![{text}]({_CHART})\n"


def describe_row(results: Results, what: str, bound: int) -> str:
    """Return a result in words, or nothing if it was not measured."""
    result = results.find(what, bound)
    if result is None or result.value is None:
        return ""

    return f"{what}: {format_times(result)} as fast in {describe_replies(result, bound)}"


def describe_replies(result: Measured, bound: int) -> str:
    """Return how many replies a row takes, and their bound."""
    if result.note == "1 call":
        return f"one reply of up to {bound:,} bytes"

    return f"{result.note.removesuffix(' calls')} replies of up to {bound:,} bytes"


def format_times(result: Measured) -> str:
    """Return a ratio in words: 4.74 times."""
    return f"{format_value(result).removesuffix('x')} times"


def write_comparison(results: Results) -> str:
    """Return the table of docs/performance.md."""
    lines = list_table_head("times as fast", *(f"at {bound:,}" for bound in BOUNDS))
    for what in COMPARED:
        cells = [format_cell(results.find(what, bound)) for bound in BOUNDS]
        if any(cells):
            lines.append(format_line(what, *cells))

    return "\n".join(lines) + "\n"


def write_tokens(results: Results) -> str:
    """Return the tokens of real sources, for RESULTS.md."""
    lines = list_table_head("tokens, as a multiple", *(f"at {bound:,}" for bound in BOUNDS))
    for what in results.list_rows(replies=True):
        if what.startswith("tokens of "):
            cells = [format_cell(results.find(what, bound)) for bound in BOUNDS]
            lines.append(format_line(what.removeprefix("tokens of "), *cells))

    return "\n".join(lines) + "\n"


def write_shortfalls(results: Results) -> str:
    """Return the rows that miss our own goals, and why, for RESULTS.md."""
    lines = list_table_head("what", "bound", "wanted", "measured")
    short = [result for result in results.all if result.met is False]

    for result in short:
        bound = f"{result.bound:,}" if result.bound else ""
        lines.append(format_line(result.what, bound, format_wanted(result), format_cell(result)))

    lines.append("")
    lines += list_reasons(short)
    return "\n".join(lines) + "\n"


def write_replies(results: Results) -> str:
    """Return every row about replies, for RESULTS.md."""
    lines = list_table_head("what", *(f"at {bound:,}" for bound in BOUNDS))
    for what in results.list_rows(replies=True):
        cells = [format_cell(results.find(what, bound)) for bound in BOUNDS]
        lines.append(format_line(what, *cells))

    return "\n".join(lines) + "\n"


def write_others(results: Results) -> str:
    """Return every row that has no bound, for RESULTS.md."""
    lines = list_table_head("what", "wanted", "measured")
    for what in results.list_rows(replies=False):
        result = results.find(what, None)
        if result is not None:
            lines.append(format_line(what, format_wanted(result), format_cell(result)))

    return "\n".join(lines) + "\n"


BLOCKS: dict[str, Callable[[Results], str]] = {
    "chart": write_chart,
    "comparison": write_comparison,
    "tokens": write_tokens,
    "shortfalls": write_shortfalls,
    "replies": write_replies,
    "others": write_others,
}


def list_table_head(*titles: str) -> list[str]:
    """Return the first two lines of a Markdown table."""
    return [format_line(*titles), "|" + "---|" * len(titles)]


def format_line(*cells: str) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def fill_blocks(text: str, results: Results) -> str:
    """Return a document with each block written anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match['name']](results)}{match[3]}", text)


def fill_document(path: Path) -> str:
    """Return a document with the results that are kept."""
    return fill_blocks(path.read_text(), Results(load_results()))
