"""The statistics of memories as people read them."""

from collections.abc import Iterable

from abilities.cli.pretty.page import AnsweredCall, Column, Page, begin_content, format_time, styled
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject

_COLUMNS = (Column("", leads=True), Column("", wraps=True, leads=True))


def print_stats(answer: AnsweredCall, page: Page) -> None:
    """Print counts, times and tags, a line for each kind."""
    payload = answer.payload
    total = format_count(payload["total_memories"], "memory", "memories")
    archived = f"{payload['archived_count']:,} archived"
    size = f"{payload['total_storage_kb']:,} KB of text"

    rows: list[tuple[str, str]] = [
        ("memories", f"{total}, {archived}, {size}"),
        ("types", _list_counts(payload["by_type"].items())),
        ("importance", _list_counts(payload["by_importance"].items())),
    ]
    for name, field in (("oldest", "oldest_memory"), ("newest", "newest_memory")):
        if field in payload:
            rows.append((name, f"{format_time(payload[field])} UTC"))

    if "most_accessed" in payload:
        rows.append(("read most", _describe_most_read(payload["most_accessed"])))

    tags = [(tag["tag"], tag["count"]) for tag in payload["top_tags"]]
    if tags:
        rows.append(("tags", _list_counts(tags)))

    page.print_table(_COLUMNS, [[styled(name, "bold"), words] for name, words in rows])


def _list_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def _describe_most_read(memory: JsonObject) -> str:
    times = format_count(memory["access_count"], "time")
    return f"{memory['key']}, {times}: {begin_content(memory['content'])}"
