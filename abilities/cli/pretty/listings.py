"""Lists of memories and files as people read them: tables, and where the page stands."""

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Column, Page, begin_content, format_time, styled
from abilities.cli.pretty.words import style_failure
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject

_FOUND = (
    Column("memory", wraps=True, leads=True),
    Column("type"),
    Column("importance"),
    Column("score", is_right=True),
    Column("changed"),
    Column("content", wraps=True),
)

_LISTED = (
    Column("memory", wraps=True, leads=True),
    Column("type"),
    Column("bytes", is_right=True),
    Column("version", is_right=True),
    Column("what to know", wraps=True),
)

_FILES = (
    Column("file", wraps=True, leads=True),
    Column("from"),
    Column("bytes", is_right=True),
    Column("changed (UTC)"),
)


def print_found(answer: AnsweredCall, page: Page) -> None:
    """Print the memories that `query_memories` found."""
    payload = answer.payload
    memories: list[JsonObject] = payload["memories"]
    if memories:
        page.print_table(_FOUND, [_build_found_row(memory) for memory in memories])

    page.print_line(_describe_part(payload["offset"], len(memories), payload["total"]))
    if payload.get("failed"):
        failed = format_count(payload["failed"], "memory is", "memories are")
        page.print_line(f"{failed} damaged and left out; see: abilities check", style="yellow")

    if payload["has_more"]:
        page.print_rest(answer.name, payload["next_request"])


def _describe_part(offset: int, count: int, total: int) -> str:
    """Return which of all memories a page shows."""
    if not total:
        return "no memories"

    words = format_count(total, "memory", "memories")
    if not count:
        return f"none of {words}"
    if count == total:
        return words

    return f"{offset + 1:,} to {offset + count:,} of {words}"


def _build_found_row(memory: JsonObject) -> list[str | Text]:
    date: str = memory.get("date") or memory["updated_at"][:10]
    # A full record has the importance, from which the score comes.
    score = f"{memory['score']:.2f}" if "score" in memory else ""
    name: str = memory["key"]
    if memory.get("archived"):
        name = f"{name} (archived)"

    kind, importance = memory.get("type", ""), memory.get("importance", "")
    return [name, kind, importance, score, date, begin_content(memory["content"])]


def print_listed(answer: AnsweredCall, page: Page) -> None:
    """Print the memories that `memory_list` lists."""
    payload = answer.payload
    memories: list[JsonObject] = payload["memories"]
    if memories:
        page.print_table(_LISTED, [_build_listed_row(memory) for memory in memories])

    page.print_line(format_count(len(memories), "memory", "memories"))
    if "next_request" in payload:
        page.print_rest(answer.name, payload["next_request"])


def _build_listed_row(memory: JsonObject) -> list[str | Text]:
    note: str | Text = memory.get("summary", "")
    if "reason" in memory:
        note = style_failure(memory)
    elif memory.get("archived"):
        note = Text.assemble(styled("archived  ", "yellow"), begin_content(str(note)))

    size, version = memory.get("size"), memory.get("version")
    return [
        memory["key"],
        memory.get("type", ""),
        f"{size:,}" if size is not None else "",
        str(version) if version is not None else "",
        note,
    ]


def print_files(answer: AnsweredCall, page: Page) -> None:
    """Print the files that `file_list` lists."""
    payload = answer.payload
    files: list[JsonObject] = payload["files"]
    if files:
        page.print_table(_FILES, [_build_file_row(file) for file in files])

    page.print_line(format_count(len(files), "file"))
    if payload.get("skipped"):
        _print_skipped(payload, page)
    if "next_request" in payload:
        page.print_rest(answer.name, payload["next_request"])


def _build_file_row(file: JsonObject) -> list[str | Text]:
    # A concise record names the agent directory alone.
    source = file.get("source", "workspace")
    changed = format_time(file["modified_at"]) if "modified_at" in file else ""
    return [file["path"], source, f"{file['size_bytes']:,}", changed]


def _print_skipped(payload: JsonObject, page: Page) -> None:
    words = f"{format_count(payload['skipped'], 'place')} could not be listed"
    if payload.get("skipped_folders"):
        words += f": {', '.join(payload['skipped_folders'])}"

    page.print_line(words, style="yellow")
