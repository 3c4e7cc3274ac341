"""Answers for people: tables of records, contents below their names, trees and sentences."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text
from rich.tree import Tree

from abilities.cli.drawing import Drawing, DrawnEdge, DrawnNode
from abilities.cli.records import (
    BATCH,
    CHANGES,
    FACTS,
    FILES,
    FOUND,
    ITEM,
    LINKS,
    LISTED,
    MISTAKES,
    OPERATIONS,
    PLAN,
    RECALLED,
    TIMELINE,
    AnsweredCall,
    Page,
    begin_content,
    describe_rule,
    find_reason,
    format_cell,
    format_mended,
    format_state,
    format_time,
    format_truncation,
    style_failure,
    style_text,
)
from abilities.cli.terminal import escape_lines, format_count
from abilities.declarations.values import JsonObject, as_object, unwrap_json

_INDENT = 2
"""Cells of indentation for each link that leads to a memory of a walk."""


def print_answer(answer: AnsweredCall, console: Console, command: Sequence[str] = ()) -> None:
    """Print an answer for people: a table, a tree or sentences, or JSON for a plugin's ability.

    ``command`` are the words of a command that calls an ability, such as "abilities call".
    """
    page = Page(console, command)
    if "error" not in answer.payload:
        if answer.name in PRINTERS:
            PRINTERS[answer.name](answer, page)
        else:
            document = json.dumps(answer.payload, indent=2, ensure_ascii=False)
            console.print(JSONHighlighter()(Text(escape_lines(document))), soft_wrap=True)
        return

    fault: JsonObject = answer.payload["error"]
    page.print_line(f"{fault['code']} ({fault['reason']}): {fault['message']}", style="red")

    mistakes: list[JsonObject] = fault.get("fields", [fault])
    rules = [{**mistake, "expected": describe_rule(mistake)} for mistake in mistakes]
    if any(rule.get(name) for rule in rules for name in ("field", "expected", "did_you_mean")):
        page.print_table(MISTAKES, rules)

    if "ref" in fault:
        page.print_line(f"The log has the details under {fault['ref']}.")
    if fault.get("retryable"):
        page.print_line("The same call may succeed later.")
    if fault["code"] == "INVALID_INPUT":
        page.print_command("For all arguments:", f"abilities describe {answer.name}")


def _print_rest(answer: AnsweredCall, page: Page, words: str = "For the rest:") -> None:
    """Print the command for the rest of an answer, if there is one."""
    if "next_request" in answer.payload:
        page.print_rest(answer.name, answer.payload["next_request"], words)


def print_batch(answer: AnsweredCall, page: Page) -> None:
    """Print the items of a batch and their contents, or the plan of a batch."""
    results: list[JsonObject] = answer.payload["results"]
    summary = answer.payload["summary"]

    if "reply_bytes" in summary:
        page.print_table(PLAN, results)
        more: list[int] = answer.payload.get("more", [])
        for index in more:
            page.print_line("more match than the limit: ", results[index]["input"])

        page.print_line(f"the reply would take {summary['reply_bytes']:,} bytes")
        _print_rest(answer, page, "To read them:")
        return

    page.print_table(BATCH, [{**record, "characters": _count_chars(record)} for record in results])
    page.print_blank()
    _print_contents(results, page)

    left_out = sum(find_reason(record) == "response_budget" for record in results)
    parts = [
        f"{summary['succeeded']} of {summary['requested']} read",
        f"{summary['failed'] - left_out} failed",
        f"{summary['truncated']} cut",
    ]
    if left_out:
        parts.append(f"{left_out} left for later")
    parts.append(format_count(summary["returned_chars"], "character"))

    page.print_line(", ".join(parts))
    _print_rest(answer, page)


def _count_chars(record: JsonObject) -> int | None:
    """Return the characters of a record's content, or of all its contents; None if it failed."""
    if find_reason(record) is not None:
        return None

    data: JsonObject = record.get("data", record)
    if "items" in data:
        return sum(_count_chars(item) or 0 for item in data["items"])

    return len(data.get("content", ""))


def _print_contents(records: Sequence[JsonObject], page: Page) -> None:
    """Print the contents of records below their names; failed records have none."""
    for record in records:
        data: JsonObject = record.get("data", record)

        if "items" in data:
            _print_contents(data["items"], page)
        elif "content" in data:
            page.print_line(style_text(str(format_cell(ITEM, record)), "bold"))
            page.print_beginning(data["content"])
            page.print_blank()


def print_operations(answer: AnsweredCall, page: Page) -> None:
    """Print the outcome of each operation, and how to undo one."""
    results: list[JsonObject] = answer.payload["results"]
    # Operations may be sent as a string, all together or each.
    sent = cast(list[object], unwrap_json(answer.arguments["operations"]))
    rows: list[JsonObject] = []
    for record in results:
        asked = as_object(unwrap_json(sent[record["input"]])) or {}
        named = {name: str(asked.get(name) or "") for name in ("op", "key", "id")}
        rows.append({**named, **record, **record.get("data", {})})

    page.print_table(OPERATIONS, rows)

    summary = answer.payload["summary"]
    undone = sum(find_reason(record) == "rolled_back" for record in results)
    failed = summary["failed"] - undone
    words = f"{summary['succeeded']} of {summary['requested']} made"
    if failed:
        words += f", {failed} failed"
    if undone:
        words += f", {undone} not made because another one failed"
    page.print_line(words)

    made = [row for row in rows if find_reason(row) is None]
    if made:
        # A deleted memory has only its key.
        name = "id" if made[-1]["id"] else "key"
        words = "memory_restore undoes a change. For the versions of the last one:"
        page.print_rest("memory_history", {name: made[-1][name]}, words)


def print_questions(answer: AnsweredCall, page: Page) -> None:
    """Print the memories and notes that answer each question."""
    for record in answer.payload["results"]:
        data: JsonObject = record.get("data", record)
        rows: list[JsonObject] = []
        for memory in data["memories"]:
            notes = ", ".join(filter(None, [*_describe_way(memory), format_state(memory)]))
            shown = f" ({notes})" if notes else ""
            rows.append({**memory, "key": f"{memory.get('key', '')}{shown}"})

        page.print_line(record["input"], style="bold")
        page.print_table(RECALLED, rows)

        words = f"{len(rows)} of {format_count(data['matched'], 'match', 'matches')} shown"
        if "also" in data:
            words += f"; under another question: {', '.join(data['also'])}"
        if "unknown_words" in data:
            words += f"; in no memory: {', '.join(data['unknown_words'])}"
        if "archived_words" in data:
            words += f"; only in archived memories: {', '.join(data['archived_words'])}"
        if "did_you_mean" in data:
            words += f"; for that time: within_days {data['did_you_mean']['within_days']}"
        page.print_line(words)

        if "overview" in data:
            page.print_line("The question names nothing to look for. An overview:")
            page.print_table(RECALLED, data["overview"])

    _print_rest(answer, page)


def _describe_way(memory: JsonObject) -> list[str]:
    """Return the hit from which links led to a memory, and the kind of the link."""
    if "via" not in memory:
        return []

    way = [f"via {memory['via']}"]
    if "link" in memory:
        way.append(memory["link"])
    if "direction" in memory:
        way.append("leads there")
    return way


def _show_state(memory: JsonObject) -> JsonObject:
    """Return a memory whose key also says what became of it, and where it is from."""
    state = format_state(memory)
    return {**memory, "key": f"{memory['key']} ({state})"} if state else memory


def print_memories(answer: AnsweredCall, page: Page) -> None:
    """Print a page of found memories, or a list of keys."""
    payload = answer.payload
    memories: list[JsonObject] = payload["memories"]

    if "total" not in payload:
        page.print_table(LISTED, list(map(_show_state, memories)))
        words = format_count(len(memories), "memory", "memories")
    else:
        rows: list[JsonObject] = []
        for memory in memories:
            rows.append(_show_state(memory))
        page.print_table(FOUND, rows)

        offset, total = payload["offset"], payload["total"]
        words = format_count(total, "memory", "memories") if total else "no memories"
        if total and not memories:
            words = f"none of {words}"
        elif len(memories) < total:
            words = f"{offset + 1:,} to {offset + len(memories):,} of {words}"

    page.print_line(words)
    if payload.get("failed"):
        failed = format_count(payload["failed"], "memory is", "memories are")
        page.print_line(f"{failed} damaged and left out; see: abilities check", style="yellow")

    _print_rest(answer, page)


def print_files(answer: AnsweredCall, page: Page) -> None:
    """Print the files of a list, and the folders that could not be listed."""
    payload = answer.payload
    # A concise record names its source only if it is the agent directory.
    page.print_table(FILES, [{"source": "workspace", **file} for file in payload["files"]])
    page.print_line(format_count(len(payload["files"]), "file"))

    if payload.get("skipped"):
        words = f"{format_count(payload['skipped'], 'place')} could not be listed"
        if payload.get("skipped_folders"):
            words += f": {', '.join(payload['skipped_folders'])}"
        page.print_line(words, style="yellow")

    _print_rest(answer, page)


def print_timeline(answer: AnsweredCall, page: Page) -> None:
    """Print the changes of one memory, newest first, and how to go back."""
    payload = answer.payload
    name = str(payload.get("key") or payload.get("id") or "A deleted memory")
    state = "deleted" if payload.get("deleted") else f"version {payload.get('version', '')} now"
    page.print_line(style_text(name, "bold"), f", {state}")

    page.print_table(TIMELINE, payload["entries"])
    if not payload["entries"]:
        page.print_line("no changes")
    if "earliest" in payload:
        words = f"memory_restore brings back versions from {payload['earliest']} on."
        page.print_line(words, style="dim")

    _print_rest(answer, page, "For older changes:")


def print_changes(answer: AnsweredCall, page: Page) -> None:
    """Print the changes of all memories, and how to ask for later ones."""
    payload = answer.payload
    page.print_table(CHANGES, payload["changes"])
    if not payload["changes"]:
        page.print_line("nothing changed")
    if not payload.get("complete", True):
        words = "Older changes are forgotten: list all memories anew."
        page.print_line(words, style="yellow")

    _print_rest(answer, page)
    if "next_request" not in payload:
        later = {**answer.arguments, "since": payload["next"]}
        page.print_rest(answer.name, later, "For later changes:")


def print_walk(answer: AnsweredCall, page: Page) -> None:
    """Print each memory below the one that leads to it, and how to get the rest."""
    payload = answer.payload
    entries: list[JsonObject] = [payload["targetMemory"], *payload["associatedMemories"]]
    for entry in entries:
        _print_entry(entry, page)

    depth = max(entry.get("depth", 0) for entry in entries)
    metadata: JsonObject = payload.get("metadata", {})
    words = [
        format_count(len(entries), "memory", "memories"),
        f"{format_count(depth, 'link')} deep",
    ]
    if metadata.get("failed"):
        words.append(f"{metadata['failed']} failed")
    if metadata.get("missingLinks"):
        words.append(f"{format_count(metadata['missingLinks'], 'link')} to no memory")
    if metadata.get("invalidLinks"):
        words.append(format_count(metadata["invalidLinks"], "damaged link"))
    page.print_line(", ".join(words))

    keys: list[str] = []
    names: list[str] = []
    for entry in metadata.get("frontier", []):
        if isinstance(entry, str):  # in a concise answer
            keys.append(entry)
            names.append(entry)
        else:
            keys.append(entry["key"])
            names.append(f"{entry['key']} ({entry['combinedScore']:.2f}, {entry['cutBy']})")

    if keys:
        limits = ", ".join(metadata["limitsReached"])
        more = ", and more" if metadata.get("frontier_more") else ""
        page.print_line(
            style_text(f"Left out by {limits}: ", "yellow"), f"{', '.join(names)}{more}"
        )

    # First the rest of contents that were shown in part, then new memories.
    for request in payload.get("next_requests", []):
        page.print_rest("memory_read_bulk", request, "For the rest of a cut content:")
    if keys:
        targets = [{"type": "stored", "key": key} for key in keys]
        page.print_rest("memory_read_bulk", {"targets": targets}, "To read the memories left out:")


def _print_entry(entry: JsonObject, page: Page) -> None:
    """Print a memory of a walk: its key, how it was reached, and its beginning."""
    indent = _INDENT * entry.get("depth", 0)
    data: JsonObject = entry.get("data", entry)
    score = entry.get("combinedScore", entry.get("score"))
    link = entry.get("link", "")
    if isinstance(link, str):  # in a concise answer
        link = {"type": link, "direction": entry.get("direction")}

    details = [
        f"{score:.2f}" if score is not None else "",
        link.get("type", ""),
        data.get("type", ""),
        "leads here" if link.get("direction") == "in" else "",
        format_truncation(entry["truncation"]) if "truncation" in entry else "",
        "cut" if "next" in entry else "",
    ]
    words = ", ".join(filter(None, details))
    heading = style_text(entry["key"], "bold")
    page.print_line(heading, style_text(f"  {words}" if words else "", "dim"), indent=indent)

    content: str | Text = begin_content(data.get("content", ""))
    if "content" not in data:
        content = style_failure(entry)
    page.print_line(content, indent=indent + _INDENT)


def print_memory(answer: AnsweredCall, page: Page) -> None:
    """Print one memory: a heading, its properties, its content, and its links."""
    payload = answer.payload
    if "targetMemory" in payload:
        print_walk(answer, page)
        return

    memory: JsonObject = payload.get("data", payload)
    page.print_line(style_text(payload["key"], "bold"))
    for line in _describe_memory(memory):
        page.print_line(line, style="dim")

    page.print_blank()
    page.print_content(memory["content"])
    page.print_blank()

    # The offset may also be sent as a string.
    offset = int(answer.arguments.get("links_offset", 0))
    counts: list[int] = []
    has_more = False
    for field, heading in (("links", "Links to"), ("backlinks", "Linked from")):
        total: int = memory.get(f"{field}_total", 0)
        if total:
            words = f"{heading} {format_count(total, 'memory', 'memories')}"
            page.print_line(words, style="bold")
            page.print_table(LINKS, memory.get(field, []))
        # Without the list, only the number of links was requested.
        if field in memory:
            counts.append(len(memory[field]))
            has_more = has_more or total > offset + counts[-1]

    if has_more:
        more = {**answer.arguments, "links_offset": offset + max(counts)}
        page.print_rest(answer.name, more, "For more links:")

    if "truncation" in payload:
        page.print_line(format_truncation(payload["truncation"]))
    _print_rest(answer, page)
    if "next_request" not in payload and ("truncation" in payload or "next" in payload):
        rest = {"type": "stored", "key": payload["key"], "resume": payload.get("next")}
        if "truncation" in payload:
            rest = payload["truncation"]["next"]
        page.print_rest("memory_read_bulk", {"targets": [rest]})


def _describe_memory(memory: JsonObject) -> list[str]:
    """Return the properties of a memory besides its content, a line for each kind."""
    state: list[str] = []
    if "type" in memory:
        state += [memory["type"], f"{memory['importance']} importance"]
    if "version" in memory:
        state.append(f"version {memory['version']}")
    if "updated_at" in memory:
        state.append(f"changed {format_time(memory['updated_at'])} UTC")
    if memory.get("archived"):
        state.append(format_state(memory))

    lines = [", ".join(state)]
    lines += [f"{name}: {memory[name]}" for name in ("summary", "category") if name in memory]
    if "tags" in memory:
        lines.append(f"tags: {', '.join(memory['tags'])}")
    if "about" in memory:
        lines.append(f"about: {', '.join(memory['about'])}")
    if "expires_at" in memory:
        lines.append(f"expires: {format_time(memory['expires_at'])} UTC")

    own = {**memory.get("metadata", {})}
    own.pop("memory_score", None)
    if own:
        lines.append(f"metadata: {json.dumps(own, ensure_ascii=False)}")

    return lines


def print_stats(answer: AnsweredCall, page: Page) -> None:
    """Print counts, times and tags, a line for each kind."""
    payload = answer.payload
    total = format_count(payload["total_memories"], "memory", "memories")
    archived = f"{payload['archived_count']:,} archived"
    facts = {
        "memories": f"{total}, {archived}, {payload['total_storage_kb']:,} KB of text",
        "types": _list_counts(payload["by_type"].items()),
        "importance": _list_counts(payload["by_importance"].items()),
    }
    for name in ("oldest", "newest"):
        if f"{name}_memory" in payload:
            facts[name] = f"{format_time(payload[f'{name}_memory'])} UTC"

    if "most_accessed" in payload:
        memory: JsonObject = payload["most_accessed"]
        times = format_count(memory["access_count"], "time")
        facts["read most"] = f"{memory['key']}, {times}: {begin_content(memory['content'])}"
    if payload["top_tags"]:
        facts["tags"] = _list_counts((tag["tag"], tag["count"]) for tag in payload["top_tags"])

    page.print_table(
        FACTS, [{"name": style_text(name, "bold"), "fact": fact} for name, fact in facts.items()]
    )


def _list_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def print_write(answer: AnsweredCall, page: Page) -> None:
    """Print the outcome of a written memory, and how to undo it."""
    payload, arguments = answer.payload, answer.arguments
    memory: JsonObject = payload.get("memory", payload)
    key, identity = memory.get("key"), memory.get("id", payload.get("id"))
    name = f"{key} (id {identity})"
    if key is None:
        name = f"the memory with the id {identity}"
    elif identity is None:
        name = str(key)

    action = "written"
    if answer.name == "delete_memory":
        # A concise answer does not repeat the kind of deletion.
        kept = "deleted" if arguments.get("permanent") else "archived"
        action = payload.get("action") or ("purged" if arguments.get("purge") else kept)
        words = f"{action.capitalize()} {name}."
    elif answer.name == "memory_restore":
        words = f"Brought back version {arguments['version']} of {name}"
    else:
        words = f"Stored a new memory {name}" if payload.get("created") else f"Changed {name}"

    if action == "written":
        if "updated_fields" in payload:
            words += f": {', '.join(payload['updated_fields']) or 'nothing was different'}"
        words += f". It has version {memory['version']}."
    page.print_line(words)

    if payload.get("similar"):
        page.print_table(FOUND, payload["similar"])
        page.print_line("These say nearly the same.")
    if payload.get("mended"):
        page.print_line(format_mended(payload), style="yellow")

    named = {"id": payload.get("id")}
    if action == "purged":
        page.print_line("Nothing brings it back.")
    elif action == "archived":
        page.print_rest("update_memory", {**named, "archived": False}, "To bring it back:")
    elif action == "deleted":
        # Only the history has the version to restore.
        page.print_rest("memory_history", named, "To find the version for memory_restore:")
    elif "replaced" in payload:
        undo = {**named, "version": payload["replaced"]}
        page.print_rest("memory_restore", undo, "It replaced other content. To bring that back:")


PRINTERS: Mapping[str, Callable[[AnsweredCall, Page], None]] = {
    "bulk_read_memory": print_walk,
    "delete_memory": print_write,
    "file_list": print_files,
    "file_read_bulk": print_batch,
    "get_memory_stats": print_stats,
    "memory_changes": print_changes,
    "memory_get": print_memory,
    "memory_history": print_timeline,
    "memory_list": print_memories,
    "memory_read_bulk": print_batch,
    "memory_restore": print_write,
    "query_memories": print_memories,
    "read": print_batch,
    "recall": print_questions,
    "remember": print_operations,
    "store_memory": print_write,
    "update_memory": print_write,
}
"""Printers by the names of abilities; plugins cannot take these names."""


def print_tree(drawing: Drawing, console: Console) -> None:
    """Print each memory of a walk below the one that leads to it, with the link between them."""
    ways: dict[str, DrawnEdge] = {}
    again: dict[str, list[DrawnEdge]] = {}
    for edge in drawing.edges:
        if edge.kind == "again":
            again.setdefault(edge.source, []).append(edge)
        else:
            ways[edge.target] = edge

    target, *others = drawing.nodes
    tree = Tree(_describe_node(target, None, again.get(target.key, [])))
    branches = {target.key: tree}

    for node in others:
        way = ways[node.key]
        words = _describe_node(node, way, again.get(node.key, []))
        branches[node.key] = branches[way.source].add(words)

    console.print(tree)


def _describe_node(node: DrawnNode, way: DrawnEdge | None, again: list[DrawnEdge]) -> Text:
    words = style_text(node.key, "dim")
    if node.number:
        words = style_text(f"{node.number}. {node.key}", "bold")
    if way is not None:
        words.append_text(style_text(f"  {_describe_link(way)}", "dim"))
    if node.note:
        words.append_text(style_text(f"  {node.note}", "yellow"))

    links = [f"{edge.target} ({_describe_link(edge)})" for edge in again]
    if links:
        words.append_text(style_text(f"  also: {', '.join(links)}", "dim"))

    return words


def _describe_link(edge: DrawnEdge) -> str:
    return f"{edge.label}, leads here" if edge.incoming else edge.label
