"""Answers as people read them: tables of records, contents below their names, trees, sentences."""

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
    format_time,
    format_truncation,
    print_table,
    style_failure,
    styled,
)
from abilities.cli.terminal import escape_lines, format_count
from abilities.declarations.values import JsonObject, as_object, unwrap_json

_INDENT = 2
"""Cells by which a memory of a walk is indented for each link that leads to it."""


def print_answer(answer: AnsweredCall, console: Console, command: Sequence[str] = ()) -> None:
    """Print an answer for people: a table, a tree or sentences, or JSON for a plugin's ability.

    ``command`` are the words of a command that calls an ability, up to its name.
    """
    page = Page(console, command)
    if "error" in answer.payload:
        _print_fault(answer, page)
        return

    if answer.name in PRINTERS:
        PRINTERS[answer.name](answer, page)
        return

    document = json.dumps(answer.payload, indent=2, ensure_ascii=False)
    console.print(JSONHighlighter()(Text(escape_lines(document))), soft_wrap=True)


def _print_rest(answer: AnsweredCall, page: Page, words: str = "For the rest:") -> None:
    if "next_request" in answer.payload:
        page.print_rest(answer.name, answer.payload["next_request"], words)


def _print_fault(answer: AnsweredCall, page: Page) -> None:
    """Print the sentence of a fault, and a table of the arguments that are wrong."""
    fault: JsonObject = answer.payload["error"]
    page.print_line(f"{fault['code']} ({fault['reason']}): {fault['message']}", style="red")

    mistakes: list[JsonObject] = fault.get("fields", [fault])
    rules = [{**mistake, "expected": describe_rule(mistake)} for mistake in mistakes]
    if any(rule.get(name) for rule in rules for name in ("field", "expected", "did_you_mean")):
        print_table(page, MISTAKES, rules)

    if "ref" in fault:
        page.print_line(f"The log has the details under {fault['ref']}.")
    if fault.get("retryable"):
        page.print_line("The same call may succeed later.")
    if fault["code"] == "INVALID_INPUT":
        page.print_command("For all arguments:", f"abilities describe {answer.name}")


def _print_results(answer: AnsweredCall, page: Page) -> None:
    """Print the records of a batch: what was read, written or asked, or what would come of it."""
    results: list[JsonObject] = answer.payload["results"]
    if "operations" in answer.arguments:
        _print_operations(answer, results, page)
    elif "queries" in answer.arguments:
        _print_questions(answer, results, page)
    elif "reply_bytes" in answer.payload["summary"]:
        _print_plan(answer, results, page)
    else:
        _print_contents_read(answer, results, page)


def _print_contents_read(answer: AnsweredCall, results: list[JsonObject], page: Page) -> None:
    rows = [{**record, "characters": _count_chars(record)} for record in results]
    print_table(page, BATCH, rows)
    page.print_blank()
    _print_contents(results, page)
    page.print_line(_summarize_batch(answer.payload))
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
    """Print the contents of all records, also of those that hold several; failed ones have none."""
    for record in records:
        data: JsonObject = record.get("data", record)

        if "items" in data:
            _print_contents(data["items"], page)
        elif "content" in data:
            page.print_line(styled(str(format_cell(ITEM, record)), "bold"))
            page.print_beginning(data["content"])
            page.print_blank()


def _summarize_batch(payload: JsonObject) -> str:
    summary = payload["summary"]
    left_out = sum(find_reason(record) == "response_budget" for record in payload["results"])

    parts = [
        f"{summary['succeeded']} of {summary['requested']} read",
        f"{summary['failed'] - left_out} failed",
        f"{summary['truncated']} cut",
    ]
    if left_out:
        parts.append(f"{left_out} left for later")

    parts.append(format_count(summary["returned_chars"], "character"))
    return ", ".join(parts)


def _print_plan(answer: AnsweredCall, results: list[JsonObject], page: Page) -> None:
    print_table(page, PLAN, results)
    more: list[int] = answer.payload.get("more", [])
    for index in more:
        page.print_line("more match than the limit: ", results[index]["input"])

    page.print_line(f"the reply would take {answer.payload['summary']['reply_bytes']:,} bytes")
    _print_rest(answer, page, "To read them:")


def _print_operations(answer: AnsweredCall, results: list[JsonObject], page: Page) -> None:
    # Operations may have been sent in a string, all together or each.
    sent = cast(list[object], unwrap_json(answer.arguments["operations"]))
    rows: list[JsonObject] = []
    for record in results:
        asked = as_object(unwrap_json(sent[record["input"]])) or {}
        named = {name: str(asked.get(name) or "") for name in ("op", "key", "id")}
        rows.append({**named, **record, **record.get("data", {})})
    print_table(page, OPERATIONS, rows)

    summary = answer.payload["summary"]
    undone = sum(find_reason(record) == "rolled_back" for record in results)
    words = f"{summary['succeeded']} of {summary['requested']} made"
    failed = summary["failed"] - undone
    if failed:
        words += f", {failed} failed"
    if undone:
        words += f", {undone} not made because another one failed"
    page.print_line(words)

    made = [row for row in rows if find_reason(row) is None]
    if made:
        # A memory that was deleted has its key alone.
        name = "id" if made[-1]["id"] else "key"
        words = "memory_restore undoes a change. For the versions of the last one:"
        page.print_rest("memory_history", {name: made[-1][name]}, words)


def _print_questions(answer: AnsweredCall, results: list[JsonObject], page: Page) -> None:
    for record in results:
        data: JsonObject = record.get("data", record)
        page.print_line(record["input"], style="bold")
        print_table(page, RECALLED, map(_name_way, data["memories"]))
        page.print_line(_summarize_question(data))
        if "overview" in data:
            page.print_line("The question names nothing to look for. What there is, in short:")
            print_table(page, RECALLED, data["overview"])

    _print_rest(answer, page)


def _name_way(memory: JsonObject) -> JsonObject:
    """Return a memory whose name says by which other one it was found."""
    if "via" not in memory:
        return memory

    return {**memory, "key": f"{memory['key']} (via {memory['via']})"}


def _summarize_question(data: JsonObject) -> str:
    words = f"{len(data['memories'])} of {format_count(data['matched'], 'match', 'matches')} shown"
    if "also" in data:
        words += f"; under another question: {', '.join(data['also'])}"
    if "unknown_words" in data:
        words += f"; in no key, summary or content: {', '.join(data['unknown_words'])}"

    return words


def _print_memories(answer: AnsweredCall, page: Page) -> None:
    """Print the memories of a page that was found, or of a list."""
    payload = answer.payload
    memories: list[JsonObject] = payload["memories"]
    if "total" not in payload:
        print_table(page, LISTED, memories)
        page.print_line(format_count(len(memories), "memory", "memories"))
    else:
        print_table(page, FOUND, map(_name_archived, memories))
        page.print_line(_describe_part(payload["offset"], len(memories), payload["total"]))
    if payload.get("failed"):
        failed = format_count(payload["failed"], "memory is", "memories are")
        page.print_line(f"{failed} damaged and left out; see: abilities check", style="yellow")

    _print_rest(answer, page)


def _name_archived(memory: JsonObject) -> JsonObject:
    return {**memory, "key": f"{memory['key']} (archived)"} if memory.get("archived") else memory


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


def _print_files(answer: AnsweredCall, page: Page) -> None:
    payload = answer.payload
    # A concise record names the agent directory alone.
    print_table(page, FILES, ({"source": "workspace", **file} for file in payload["files"]))
    page.print_line(format_count(len(payload["files"]), "file"))

    if payload.get("skipped"):
        words = f"{format_count(payload['skipped'], 'place')} could not be listed"
        if payload.get("skipped_folders"):
            words += f": {', '.join(payload['skipped_folders'])}"
        page.print_line(words, style="yellow")
    _print_rest(answer, page)


def _print_timeline(answer: AnsweredCall, page: Page) -> None:
    """Print what became of one memory, newest first, and how to go back."""
    payload = answer.payload
    name = str(payload.get("key") or payload.get("id") or "A deleted memory")
    state = "deleted" if payload.get("deleted") else f"version {payload.get('version', '')} now"
    page.print_line(styled(name, "bold"), f", {state}")

    print_table(page, TIMELINE, payload["entries"])
    if not payload["entries"]:
        page.print_line("no changes")
    if "earliest" in payload:
        words = f"memory_restore brings back versions from {payload['earliest']} on."
        page.print_line(words, style="dim")
    _print_rest(answer, page, "For older changes:")


def _print_changes(answer: AnsweredCall, page: Page) -> None:
    """Print which memories changed, and how to ask for what changes later."""
    payload = answer.payload
    print_table(page, CHANGES, payload["changes"])
    if not payload["changes"]:
        page.print_line("nothing changed")
    if not payload.get("complete", True):
        words = "Older changes are forgotten: list all memories anew."
        page.print_line(words, style="yellow")

    _print_rest(answer, page)
    if "next_request" not in payload:
        later = {**answer.arguments, "since": payload["next"]}
        page.print_rest(answer.name, later, "For what changes later:")


def _print_walk(answer: AnsweredCall, page: Page) -> None:
    """Print each memory beneath the one that leads to it, and how to get what is left."""
    payload = answer.payload
    entries: list[JsonObject] = [payload["targetMemory"], *payload["associatedMemories"]]
    for entry in entries:
        _print_entry(entry, page)

    metadata: JsonObject = payload.get("metadata", {})
    page.print_line(_summarize_walk(entries, metadata))

    frontier: list[JsonObject | str] = metadata.get("frontier", [])
    if frontier:
        limits = ", ".join(metadata["limitsReached"])
        names = ", ".join(map(_describe_left_out, frontier))
        more = ", and more" if metadata.get("frontier_more") else ""
        page.print_line(styled(f"Left out by {limits}: ", "yellow"), f"{names}{more}")

    # Of a cut content some is known; of what the limits left out, nothing yet.
    for request in payload.get("next_requests", []):
        page.print_rest("memory_read_bulk", request, "For the rest of what was cut:")
    if frontier:
        keys = [entry if isinstance(entry, str) else entry["key"] for entry in frontier]
        targets = [{"type": "stored", "key": key} for key in keys]
        page.print_rest("memory_read_bulk", {"targets": targets}, "To read what was left out:")


def _print_entry(entry: JsonObject, page: Page) -> None:
    indent = _INDENT * entry.get("depth", 0)
    data: JsonObject = entry.get("data", entry)

    details = _list_details(entry, data)
    heading = styled(entry["key"], "bold")
    page.print_line(heading, styled(f"  {details}" if details else "", "dim"), indent=indent)

    words: str | Text = begin_content(data.get("content", ""))
    if "content" not in data:
        words = style_failure(entry)
    page.print_line(words, indent=indent + _INDENT)


def _list_details(entry: JsonObject, data: JsonObject) -> str:
    score = entry.get("combinedScore", entry.get("score"))
    link = entry.get("link", "")
    if isinstance(link, str):  # of a concise entry
        link = {"type": link, "direction": entry.get("direction")}

    details = [
        f"{score:.2f}" if score is not None else "",
        link.get("type", ""),
        data.get("type", ""),
        "leads here" if link.get("direction") == "in" else "",
        format_truncation(entry["truncation"]) if "truncation" in entry else "",
        "cut" if "next" in entry else "",
    ]
    return ", ".join(filter(None, details))


def _summarize_walk(entries: list[JsonObject], metadata: JsonObject) -> str:
    depth = max(entry.get("depth", 0) for entry in entries)
    words = [
        format_count(len(entries), "memory", "memories"),
        f"{format_count(depth, 'link')} deep",
    ]
    if metadata.get("failed"):
        words.append(f"{metadata['failed']} failed")
    if metadata.get("missingLinks"):
        words.append(f"{format_count(metadata['missingLinks'], 'link')} to no memory")
    if metadata.get("invalidLinks"):
        words.append(f"{format_count(metadata['invalidLinks'], 'damaged link')}")

    return ", ".join(words)


def _describe_left_out(entry: JsonObject | str) -> str:
    if isinstance(entry, str):
        return entry

    return f"{entry['key']} ({entry['combinedScore']:.2f}, {entry['cutBy']})"


def _print_memory(answer: AnsweredCall, page: Page) -> None:
    """Print one memory: a heading, what there is to know of it, its content, and its links."""
    payload = answer.payload
    if "targetMemory" in payload:
        _print_walk(answer, page)
        return

    memory: JsonObject = payload.get("data", payload)
    page.print_line(styled(payload["key"], "bold"))
    for line in _describe_memory(memory):
        page.print_line(line, style="dim")

    page.print_blank()
    page.print_content(memory["content"])
    page.print_blank()

    for field, heading in (("links", "Links to"), ("backlinks", "Linked from")):
        total: int = memory.get(f"{field}_total", 0)
        if total:
            words = f"{heading} {format_count(total, 'memory', 'memories')}"
            page.print_line(words, style="bold")
            print_table(page, LINKS, memory.get(field, []))
    _print_more_links(answer, memory, page)

    if "truncation" in payload:
        page.print_line(format_truncation(payload["truncation"]))
    _print_rest(answer, page)
    if "next_request" not in payload and ("truncation" in payload or "next" in payload):
        target = {"type": "stored", "key": payload["key"], "resume": payload.get("next")}
        rest = payload["truncation"]["next"] if "truncation" in payload else target
        page.print_rest("memory_read_bulk", {"targets": [rest]})


def _describe_memory(memory: JsonObject) -> list[str]:
    """Return what there is to know of a memory besides its content, a line for each kind."""
    state: list[str] = []
    if "type" in memory:
        state += [memory["type"], f"{memory['importance']} importance"]
    if "version" in memory:
        state.append(f"version {memory['version']}")
    if "updated_at" in memory:
        state.append(f"changed {format_time(memory['updated_at'])} UTC")
    if memory.get("archived"):
        state.append("archived")

    lines = [", ".join(state)]
    lines += [f"{name}: {memory[name]}" for name in ("summary", "category") if name in memory]
    if "tags" in memory:
        lines.append(f"tags: {', '.join(memory['tags'])}")
    if "expires_at" in memory:
        lines.append(f"expires: {format_time(memory['expires_at'])} UTC")

    own = {**memory.get("metadata", {})}
    own.pop("memory_score", None)
    if own:
        lines.append(f"metadata: {json.dumps(own, ensure_ascii=False)}")

    return lines


def _print_more_links(answer: AnsweredCall, memory: JsonObject, page: Page) -> None:
    # The model of the arguments also takes a number in a string.
    offset = int(answer.arguments.get("links_offset", 0))
    # Without the list only the number of links is shown, and more of them would not be either.
    shown = {name: len(memory[name]) for name in ("links", "backlinks") if name in memory}
    if any(memory[f"{name}_total"] > offset + count for name, count in shown.items()):
        more = {**answer.arguments, "links_offset": offset + max(shown.values())}
        page.print_rest(answer.name, more, "For more links:")


def _print_stats(answer: AnsweredCall, page: Page) -> None:
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

    rows = [{"name": styled(name, "bold"), "fact": fact} for name, fact in facts.items()]
    print_table(page, FACTS, rows)


def _list_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def _print_write(answer: AnsweredCall, page: Page) -> None:
    """Print what became of a memory that was written, and how to undo it."""
    payload = answer.payload
    name = _name_memory(payload)
    if answer.name == "delete_memory":
        action = payload.get("action") or _find_action(answer.arguments)
        page.print_line(f"{action.capitalize()} {name}.")
    else:
        action = "written"
        words = f"Stored a new memory {name}" if payload.get("created") else f"Changed {name}"
        if answer.name == "memory_restore":
            words = f"Brought back version {answer.arguments['version']} of {name}"
        if "updated_fields" in payload:
            words += f": {', '.join(payload['updated_fields']) or 'nothing was different'}"
        page.print_line(f"{words}. It has version {payload.get('memory', payload)['version']}.")

    if payload.get("mended"):
        page.print_line(format_mended(payload), style="yellow")
    _print_undo(answer, action, page)


def _find_action(arguments: JsonObject) -> str:
    """Return what a concise answer leaves out."""
    if arguments.get("purge"):
        return "purged"

    return "deleted" if arguments.get("permanent") else "archived"


def _print_undo(answer: AnsweredCall, action: str, page: Page) -> None:
    payload = answer.payload
    named = {"id": payload.get("id")}
    if action == "purged":
        page.print_line("Nothing brings it back.")
    elif action == "archived":
        page.print_rest("update_memory", {**named, "archived": False}, "To bring it back:")
    elif action == "deleted":
        # Only the history knows the version to restore.
        page.print_rest("memory_history", named, "To find what memory_restore needs:")
    elif "replaced" in payload:
        undo = {**named, "version": payload["replaced"]}
        page.print_rest("memory_restore", undo, "It replaced other content. To bring that back:")


def _name_memory(payload: JsonObject) -> str:
    """Return a memory's key and id, or one of them if the answer does not have both."""
    memory: JsonObject = payload.get("memory", payload)
    key, identity = memory.get("key"), memory.get("id", payload.get("id"))
    if key is None:
        return f"the memory with the id {identity}"

    return f"{key} (id {identity})" if identity is not None else f"{key}"


PRINTERS: Mapping[str, Callable[[AnsweredCall, Page], None]] = {
    "bulk_read_memory": _print_walk,
    "delete_memory": _print_write,
    "file_list": _print_files,
    "file_read_bulk": _print_results,
    "get_memory_stats": _print_stats,
    "memory_changes": _print_changes,
    "memory_get": _print_memory,
    "memory_history": _print_timeline,
    "memory_list": _print_memories,
    "memory_read_bulk": _print_results,
    "memory_restore": _print_write,
    "query_memories": _print_memories,
    "read": _print_results,
    "recall": _print_results,
    "remember": _print_results,
    "store_memory": _print_write,
    "update_memory": _print_write,
}
"""Printers by the names of abilities; plugins cannot take these names."""


def print_tree(drawing: Drawing, console: Console) -> None:
    """Print each memory beneath the one that leads to it, with the link between them."""
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
    words = styled(node.key, "dim")
    if node.number:
        words = styled(f"{node.number}. {node.key}", "bold")
    if way is not None:
        words.append_text(styled(f"  {_describe_link(way)}", "dim"))
    if node.note:
        words.append_text(styled(f"  {node.note}", "yellow"))

    links = [f"{edge.target} ({_describe_link(edge)})" for edge in again]
    if links:
        words.append_text(styled(f"  also: {', '.join(links)}", "dim"))

    return words


def _describe_link(edge: DrawnEdge) -> str:
    return f"{edge.label}, leads here" if edge.incoming else edge.label
