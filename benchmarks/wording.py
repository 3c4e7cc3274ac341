"""Results in words, for the table that is printed and for the documents."""

from rich.table import Table

from benchmarks.measure import Measured
from benchmarks.peers import BOUNDS
from benchmarks.results import Results

SMALL = 100
"""Up to here, numbers are written with three digits."""


def format_cell(result: Measured | None) -> str:
    """Return a value with its note and its ratio in processor time."""
    if result is None:
        return ""

    beside = list_beside(result)
    details = f" ({', '.join(beside)})" if beside else ""
    return f"{format_value(result)}{details}"


def list_beside(result: Measured) -> list[str]:
    """Return what stands beside a value: its note, and its ratio in processor time."""
    beside: list[str] = []
    if result.note:
        beside.append(result.note)
    if result.processor is not None:
        beside.append(f"processor {format_ratio(result.processor)}")

    return beside


def format_value(result: Measured) -> str:
    """Return a value as it is read: a ratio of 4.74x, or a number in the unit of its row."""
    if result.value is None:
        return "-"
    if is_ratio(result):
        return format_ratio(result.value)
    if result.value < SMALL:
        return f"{result.value:.3g}"

    return f"{result.value:,.0f}"


def format_ratio(ratio: float) -> str:
    """Return a ratio with two decimals, or with fewer if it is large."""
    if ratio < 10:
        return f"{ratio:.2f}x"

    return f"{ratio:.1f}x" if ratio < 100 else f"{ratio:.0f}x"


def is_ratio(result: Measured) -> bool:
    """Return whether a value is a ratio: nothing is wanted of it, or a ratio is."""
    return result.over_ms is not None or result.wanted.endswith("x") or not result.wanted


def format_wanted(result: Measured) -> str:
    """Return what is wanted, in words."""
    sign, _, bound = result.wanted.partition(" ")
    words = {">=": "at least", "<=": "at most"}
    return f"{words[sign]} {bound}" if sign in words else ""


def format_result(result: Measured | None) -> str:
    """Return a result in two lines: what was measured, and what stands beside it."""
    if result is None:
        return ""

    line = format_value(result)
    if result.low is not None:
        line += f", quartiles {result.low:.2f} to {result.high:.2f}"
    if result.wanted:
        verdict = {True: "met", False: "[red]short[/]", None: "not measured"}[result.met]
        line += f"; wanted {format_wanted(result)}: {verdict}"

    beside = list_beside(result)
    return f"{line}\n[dim]{', '.join(beside)}[/]" if beside else line


def build_tables(results: Results) -> list[Table]:
    """Return all results: those about replies at both bounds side by side, and all others."""
    titles = [f"max_response_bytes {bound:,}" for bound in BOUNDS]
    replies = Table("replies", *titles, show_lines=True)
    for what in results.list_rows(replies=True):
        replies.add_row(what, *(format_result(results.find(what, bound)) for bound in BOUNDS))

    others = Table("all else", "measured", show_lines=True)
    for what in results.list_rows(replies=False):
        others.add_row(what, format_result(results.find(what, None)))

    return [replies, others]
