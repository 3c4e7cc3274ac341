"""Answers for people: tables of records, contents below their names, trees and sentences."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text
from rich.tree import Tree

from abilities.cli import records
from abilities.cli.drawing import Drawing, DrawnEdge
from abilities.cli.records import (
    AnsweredCall,
    Column,
    Page,
    begin_content,
    find_reason,
    format_state,
    format_time,
    format_truncation,
    style_text,
)
from abilities.cli.terminal import escape_lines, format_count
from abilities.declarations.memory import USUAL_LINK_TYPE
from abilities.declarations.values import JsonObject, as_object, unwrap_json

_INDENT = 2
"""Cells of indentation for each link that leads to a memory of a walk."""


def print_answer(answer: AnsweredCall, console: Console, command: Sequence[str] = ()) -> None:
    """Print an answer for people: a table, a tree or sentences, or JSON for a plugin's ability.

    ``command`` are the words of a command that calls an ability, such as "abilities call".
    """
    page = Page(console, command)
    if "error" in answer.payload:
        fault: JsonObject = answer.payload["error"]
        page.print_line(f"{fault['code']} ({fault['reason']}): {fault['message']}", style="red")

        mistakes: list[JsonObject] = fault.get("fields", [fault])
        rules = [{**mistake, "expected": records.describe_rule(mistake)} for mistake in mistakes]
        if any(rule.get(name) for rule in rules for name in ("field", "expected", "did_you_mean")):
            page.print_table(records.MISTAKES, rules)

        if "ref" in fault:
            page.print_line(f"The log has the details under {fault['ref']}.")
        if fault.get("retryable"):
            page.print_line("The same call may succeed later.")
        if fault["code"] == "INVALID_INPUT":
            page.print_command("For all arguments:", f"abilities describe {answer.name}")
    elif answer.name in PRINTERS:
        PRINTERS[answer.name](answer, page)
    else:
        document = json.dumps(answer.payload, indent=2, ensure_ascii=False)
        console.print(JSONHighlighter()(Text(escape_lines(document))), soft_wrap=True)


def _print_rest(answer: AnsweredCall, page: Page, words: str = "For the rest:") -> None:
    """Print the command for the rest of an answer, if there is one."""
    if "next_request" in answer.payload:
        page.print_rest(answer.name, answer.payload["next_request"], words)


def print_batch(answer: AnsweredCall, page: Page) -> None:
    """Print the items of a batch and their contents, or the plan of a batch."""
    results: list[JsonObject] = answer.payload["results"]
    summary = answer.payload["summary"]

    if "reply_bytes" in summary:
        page.print_table(records.PLAN, results)
        more: list[int] = answer.payload.get("more", [])
        for index in more:
            page.print_line("more match than the limit: ", results[index]["input"])

        page.print_line(f"the reply would take {summary['reply_bytes']:,} bytes")
        _print_rest(answer, page, "To read them:")
        return

    rows = [{**record, "characters": _count_chars(record)} for record in results]
    page.print_table(records.BATCH, rows)
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


def _print_contents(results: Sequence[JsonObject], page: Page) -> None:
    """Print the contents of records below their names; failed records have none."""
    for record in results:
        data: JsonObject = record.get("data", record)

        if "items" in data:
            _print_contents(data["items"], page)
        elif "content" in data:
            page.print_line(style_text(str(records.format_cell(records.ITEM, record)), "bold"))
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

    page.print_table(records.OPERATIONS, rows)

    summary = answer.payload["summary"]
    undone = sum(find_reason(record) == "rolled_back" for record in results)
    failed = summary["failed"] - undone
    words = f"{summary['succeeded']} of {summary['requested']} made"
    if failed:
        words += f", {failed} failed"
    if undone:
        words += f", {undone} not made because another one failed"
    page.print_line(words)
    _print_undoing(rows, page)


def print_write(answer: AnsweredCall, page: Page) -> None:
    """Print the outcome of one written memory as that of an operation."""
    payload = answer.payload
    row = {"op": payload.get("action", answer.name), **payload, **payload.get("memory", {})}
    page.print_table(records.OPERATIONS, [row])
    _print_undoing([row], page)


def _print_undoing(rows: Sequence[JsonObject], page: Page) -> None:
    """Print the command that shows the versions of the last memory that was written."""
    made = [row for row in rows if find_reason(row) is None]
    if made:
        # A deleted memory has only its key.
        name = "id" if made[-1].get("id") else "key"
        words = "memory_restore undoes a change. For the versions of the last one:"
        page.print_rest("memory_history", {name: made[-1][name]}, words)


def print_questions(answer: AnsweredCall, page: Page) -> None:
    """Print the memories and notes that answer each question."""
    for record in answer.payload["results"]:
        data: JsonObject = record.get("data", record)
        page.print_line(record["input"], style="bold")
        page.print_table(records.RECALLED, map(_show_state, data["memories"]))

        matches = format_count(data["matched"], "match", "matches")
        words = f"{len(data['memories'])} of {matches} shown"
        for name, meaning in (
            ("also", "under another question"),
            ("unknown_words", "in no memory"),
            ("archived_words", "only in archived memories"),
        ):
            if name in data:
                words += f"; {meaning}: {', '.join(data[name])}"
        if "did_you_mean" in data:
            words += f"; for that time: within_days {data['did_you_mean']['within_days']}"
        page.print_line(words)

        if "overview" in data:
            page.print_line("The question names nothing to look for. An overview:")
            page.print_table(records.RECALLED, data["overview"])

    _print_rest(answer, page)


def _show_state(memory: JsonObject) -> JsonObject:
    """Return a memory whose key also says how it was found, and what became of it."""
    notes = [
        f"via {memory['via']}" if "via" in memory else "",
        memory.get("link", ""),
        "leads there" if "direction" in memory else "",
        format_state(memory),
    ]
    shown = ", ".join(filter(None, notes))
    return {**memory, "key": f"{memory.get('key', '')} ({shown})"} if shown else memory


class _List(NamedTuple):
    """How a list is printed: the field that has it, its columns, and what it lists."""

    field: str
    columns: tuple[Column, ...]
    noun: str
    plural: str | None = None


_LISTS = {
    "file_list": _List("files", records.FILES, "file"),
    "memory_changes": _List("changes", records.CHANGES, "change"),
    "memory_history": _List("entries", records.TIMELINE, "change"),
    "memory_list": _List("memories", records.LISTED, "memory", "memories"),
    "query_memories": _List("memories", records.FOUND, "memory", "memories"),
}


def print_list(answer: AnsweredCall, page: Page) -> None:
    """Print a page of a list, what it lacks, and how to get the rest."""
    payload = answer.payload
    field, columns, noun, plural = _LISTS[answer.name]
    rows: list[JsonObject] = payload[field]
    if answer.name == "memory_history":
        name = str(payload.get("key") or payload.get("id") or "A deleted memory")
        state = "deleted" if payload.get("deleted") else f"version {payload.get('version', '')} now"
        page.print_line(style_text(name, "bold"), f", {state}")
    elif answer.name == "file_list":
        # A concise record names its source only if it is the agent directory.
        rows = [{"source": "workspace", **file} for file in rows]
    elif noun == "memory":
        rows = list(map(_show_state, rows))

    page.print_table(columns, rows)
    total, offset = payload.get("total", len(rows)), payload.get("offset", 0)
    words = format_count(total, noun, plural) if total else f"no {plural or noun + 's'}"
    if total and not rows:
        words = f"none of {words}"
    elif len(rows) < total:
        words = f"{offset + 1:,} to {offset + len(rows):,} of {words}"
    page.print_line(words)

    if payload.get("failed"):
        failed = format_count(payload["failed"], "memory is", "memories are")
        words = f"{failed} damaged and left out; see: abilities check"
        page.print_line(words, style="yellow")
    if payload.get("skipped"):
        places = format_count(payload["skipped"], "place")
        folders = ", ".join(["", *payload.get("skipped_folders", [])])
        page.print_line(f"{places} could not be listed{folders}", style="yellow")
    if "earliest" in payload:
        words = f"memory_restore brings back versions from {payload['earliest']} on."
        page.print_line(words, style="yellow")
    if not payload.get("complete", True):
        words = "Older changes are forgotten: list all memories anew."
        page.print_line(words, style="yellow")

    _print_rest(answer, page)
    if answer.name == "memory_changes" and "next_request" not in payload:
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
        left = style_text(f"Left out by {limits}: ", "yellow")
        page.print_line(left, f"{', '.join(names)}{more}")

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
        content = records.style_failure(entry)
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
            page.print_table(records.LINKS, memory.get(field, []))
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


def _describe_memory(memory: JsonObject) -> list[str]:
    """Return the properties of a memory besides its content, a line for each kind."""
    state = [memory["type"], f"{memory['importance']} importance"] if "type" in memory else []
    if "version" in memory:
        state.append(f"version {memory['version']}")
    if "updated_at" in memory:
        state.append(f"changed {format_time(memory['updated_at'])} UTC")
    if memory.get("archived"):
        state.append(format_state(memory))

    own = {**memory.get("metadata", {})}
    own.pop("memory_score", None)
    facts = {
        "summary": memory.get("summary"),
        "category": memory.get("category"),
        "tags": ", ".join(memory.get("tags", [])),
        "about": ", ".join(memory.get("about", [])),
        "expires": memory.get("expires_at"),
        "metadata": own and json.dumps(own, ensure_ascii=False),
    }
    return [", ".join(state), *(f"{name}: {value}" for name, value in facts.items() if value)]


def print_stats(answer: AnsweredCall, page: Page) -> None:
    """Print the figures of a store, a line for each."""
    facts = {**answer.payload}
    for name in ("by_type", "by_importance"):
        facts[name] = ", ".join(f"{kind} {count:,}" for kind, count in facts[name].items())
    facts["top_tags"] = ", ".join(f"{tag['tag']} {tag['count']:,}" for tag in facts["top_tags"])
    if "most_accessed" in facts:
        memory: JsonObject = facts["most_accessed"]
        times = format_count(memory["access_count"], "time")
        facts["most_accessed"] = f"{memory['key']}, {times}: {begin_content(memory['content'])}"

    rows: list[JsonObject] = []
    for field, fact in facts.items():
        rows.append({"name": style_text(field.replace("_", " "), "bold"), "fact": fact})
    page.print_table(records.FACTS, rows)


PRINTERS: Mapping[str, Callable[[AnsweredCall, Page], None]] = {
    **dict.fromkeys(_LISTS, print_list),
    **dict.fromkeys(("file_read_bulk", "memory_read_bulk", "read"), print_batch),
    **dict.fromkeys(
        ("delete_memory", "memory_restore", "store_memory", "update_memory"), print_write
    ),
    "bulk_read_memory": print_walk,
    "get_memory_stats": print_stats,
    "memory_get": print_memory,
    "recall": print_questions,
    "remember": print_operations,
}
"""Printers by the names of abilities; plugins cannot take these names."""


def print_tree(drawing: Drawing, console: Console) -> None:
    """Print each memory of a walk below the one that leads to it, with the link between them."""
    ways: dict[str, DrawnEdge] = {}
    again: dict[str, list[str]] = {}
    for edge in drawing.edges:
        if edge.kind == "again":
            words = f"{edge.target} ({_describe_link(edge)})"
            again.setdefault(edge.source, []).append(words)
        else:
            ways[edge.target] = edge

    branches: dict[str, Tree] = {}
    for node in drawing.nodes:
        way = ways.get(node.key) if branches else None
        label = style_text(node.key, "dim")
        if node.number:
            label = style_text(f"{node.number}. {node.key}", "bold")
        if way is not None:
            label.append_text(style_text(f"  {_describe_link(way)}", "dim"))
        if node.note:
            label.append_text(style_text(f"  {node.note}", "yellow"))
        if node.key in again:
            label.append_text(style_text(f"  also: {', '.join(again[node.key])}", "dim"))

        branches[node.key] = Tree(label) if way is None else branches[way.source].add(label)

    console.print(branches[drawing.nodes[0].key])


def _describe_link(edge: DrawnEdge) -> str:
    return f"{edge.label}, leads here" if edge.incoming else edge.label


def print_explanation(record: JsonObject, console: Console) -> None:
    """Print why a memory is in an answer of `recall` or not."""
    page = Page(console)
    key = style_text(record["key"], "bold")
    if "place" in record:
        place = f" is number {record['place']:,} of {record['of']:,}"
        page.print_line(key, f"{place}, with the score {record['score']:.2f}.")
    else:
        page.print_line(key, f" is left out. {_describe_reason(record)}")

    for name, words in (
        ("unknown_words", "In no memory: "),
        ("archived_words", "Only in archived memories: "),
    ):
        if name in record:
            page.print_line(words, ", ".join(record[name]))

    rows: list[JsonObject] = []
    for word in record.get("words", ()):
        shown = {name: f"{word[name]:.2f}" for name in ("idf", "points")}
        rows.append({**word, **shown, "held": "yes" if word["weight"] else "no"})
    columns = (
        Column("word", ("word",), wraps=True, leads=True),
        Column("looked up as", ("term",), wraps=True),
        Column("in it", ("held",)),
        Column("weight", ("weight",), is_right=True),
        Column("idf", ("idf",), is_right=True),
        Column("points", ("points",), is_right=True),
    )
    page.print_table(columns, rows)

    if "factor" in record:
        held = sum(row["held"] == "yes" for row in rows)
        words = f"{held} of {len(rows)} in it: times {record['factor']:.2f}"
        page.print_line(f"{words}, which makes {record['by_words']:.2f}.")
    if "phrases" in record:
        phrases, points = ", ".join(record["phrases"]["words"]), record["phrases"]["points"]
        page.print_line(f"Words that are together as in the question add {points:.2f}: {phrases}.")
    if "links" in record:
        _print_links(record["links"], page)
    if "named" in record:
        page.print_line(f"It begins with a name in the question: times {record['named']}.")
    if "by_meaning" in record:
        page.print_line(f"The similarity of its meaning adds {record['by_meaning']:.2f}.")


def _describe_reason(record: JsonObject) -> str:
    """Return in a sentence why a memory is not in an answer."""
    reason = record["reason"]
    score = f"It scores {record.get('score', 0):.2f}"
    if reason == "filters":
        return f"It does not pass: {', '.join(record['filters'])}."
    if reason == "at_least":
        return f"{score}, and at_least needs {record['needed']:.2f}."
    if reason == "confidence":
        best = record["best"]
        name, lacks = best.get("key", best.get("filename")), ", ".join(best["lacks"])
        lacking = f"lacks {lacks}" if lacks else "has the words in different passages"
        sentence = f"{score}, but nothing is shown: the best, {name}, {lacking}."
        return f"{sentence} With --at-least 0 any match is shown."

    return _SENTENCES[reason]


_SENTENCES = {
    "archived": "It is archived; --archived ranks such memories too.",
    "expired": "It has expired, so it counts as archived; --archived ranks such memories too.",
    "deleted": "It was deleted; memory_restore brings it back.",
    "below_best": "256 memories have better words, and no link leads to it from the best.",
    "no_match": "It has no word of the question, and no link leads to it from the best.",
}
"""The sentences for reasons that need no figures."""


def _print_links(links: JsonObject, page: Page) -> None:
    """Print what links give to a memory, and along which way."""
    way = links["from"]
    for step in links["way"]:
        arrow = "<-" if "direction" in step else "->"
        kind = f"{step.get('type', USUAL_LINK_TYPE)} {step['link_weight']:.2f}"
        way += f" {arrow} {step['key']} ({kind})"

    page.print_blank()
    columns = (
        Column("links", ("way",), wraps=True, leads=True),
        Column("words that it lacks", ("words",), wraps=True),
        Column("points", ("points",), is_right=True),
    )
    words = ", ".join(links["words"])
    page.print_table(columns, [{"way": way, "words": words, "points": f"{links['points']:.2f}"}])
