"""Internal abilities that only the explorer's page uses.

They are validated and answered like all abilities, but in a separate registry: no client is ever
offered one, and none appears in a published schema. Fields without a value are left out.
"""

from collections import Counter
from collections.abc import Callable
from importlib.metadata import version as read_version
from typing import Annotated, Literal

from pydantic import Field

from abilities.builtin.files import file_list, parse_listing_request
from abilities.builtin.memories import (
    get_memory_stats,
    memory_changes,
    memory_history,
    memory_list,
    query_memories,
)
from abilities.builtin.memory_reads import bulk_read_memory, memory_get, memory_read_bulk
from abilities.builtin.recall import recall
from abilities.declarations.fields import Integer, Offset, Version
from abilities.declarations.memories import KeyPart
from abilities.declarations.memory import Action, Id, Key, LinkData, Memory
from abilities.declarations.read import FileListInput
from abilities.declarations.recall import Question, RecallInput
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, Model
from abilities.decorator import Function, ability
from abilities.definition import Ability, Context
from abilities.helpers.files.file_walk import FoundFile
from abilities.helpers.files.reader import format_modified_at
from abilities.helpers.memory.answers import describe_change
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.memory.review import ReviewItem, count_labels, list_labels, review_memories
from abilities.helpers.memory.targets import require_name
from abilities.registry import AbilityRegistry

MAX_BYTES = 4_000_000
"""Maximum size of an answer: unlike a model's context, a page has room for much."""

TIMELINE_CHANGES = 50
"""Changes on one page of the timeline."""

MAX_BEGINNING = 300
"""Characters of a content that a review shows."""

MAX_MAPPED = 20_000
"""Memories that a map counts, from the first key or from the latest change on."""

MAX_NODES = 300
"""Clusters and memories on a map, the largest ones."""

_LISTED_AT_ONCE = 1_000

MAX_HIDDEN = 1_000
"""Hidden files shown on one page; the workspace is listed this much further than the page."""

VIEWS = AbilityRegistry()
"""The internal abilities by name."""

EQUIVALENTS: dict[str, list[str]] = {}
"""The abilities that return the same as a view; a view is disabled if all of these are."""

SHARED = tuple(
    shared.name
    for shared in (
        bulk_read_memory,
        query_memories,
        get_memory_stats,
        memory_list,
        memory_history,
        memory_changes,
    )
)
"""The abilities for another namespace that a caller reads.

None of them reads notes or files, or counts an access as `memory_get` does.
"""


def view(name: str, *equivalents: Ability) -> Callable[[Function], Ability]:
    """Return a decorator that adds a function to `VIEWS`, and its equivalents to `EQUIVALENTS`."""

    def add_view(function: Function) -> Ability:
        EQUIVALENTS[name] = [equivalent.name for equivalent in equivalents]
        created = ability(name=name, read_only=True)(function)
        VIEWS.add(created)
        return created

    return add_view


@view("session")
async def show_session(context: Context) -> JsonObject:
    """Return the caller's namespace and scope, the latest change, and the version of the server."""
    return {
        "version": read_version("agent-abilities"),
        "namespace": context.namespace,
        "scope": "read" if context.read_only else "write",
        "latest": await context.memory.reader.read_latest(),
    }


@view("memory", memory_get, bulk_read_memory, memory_read_bulk)
async def show_memory(
    context: Context,
    key: Key | None = None,
    id: Id | None = None,
    links_offset: Offset = 0,
    backlinks_offset: Offset = 0,
) -> JsonObject:
    """Return a memory with its counters and a page of the links from and to it.

    This counts as no access.
    """
    name = require_name({"key": key, "id": id})
    if key is None:
        assert name.id is not None, "require_name has checked it"
        key = await context.memory.reader.find_key(name.id)

    stored, page = await context.memory.inspect(key, links_offset, backlinks_offset)
    return {
        "memory": Memory.model_validate(to_memory_data(stored, counters=True, links=True)),
        "backlinks": [LinkData.model_validate(link.to_data(incoming=True)) for link in page.links],
        "backlinks_total": page.total,
    }


@view("version", memory_history)
async def show_version(context: Context, id: Id, version: Version) -> JsonObject:
    """Return a memory in a version, and what that replaced. Raises Refused: scope, not_found."""
    # A deleted memory is only for callers who could restore it.
    reader = context.memory.reader
    if context.read_only and await reader.is_deleted(require_name({"id": id})):
        raise Refused("scope")

    answer: JsonObject = {}
    pair = await reader.read_pair(id, version)
    for name, memory in zip(("memory", "before"), pair, strict=True):
        if memory is not None:
            answer[name] = Memory.model_validate(to_memory_data(memory, links=True))

    return answer


@view("timeline", memory_changes)
async def show_timeline(
    context: Context,
    by: str | None = None,
    action: Action | Literal["purged"] | None = None,
    before: Version | None = None,
) -> JsonObject:
    """Return a page of the changes of the namespace, newest first, before a version."""
    found, last = await context.memory.reader.read_timeline(before, TIMELINE_CHANGES, by, action)

    answer: JsonObject = {"changes": [describe_change(change) for change in found]}
    if last is not None:
        answer["next_request"] = {"by": by, "action": action, "before": last}

    return answer


@view("review", query_memories)
async def show_review(context: Context) -> JsonObject:
    """Return the memories to look at, 20 of each kind at most; this counts as no access."""
    review = await review_memories(context.memory)
    items = [_describe_item(item) for item in review.items]
    return {"items": items, "examined": review.examined, "total": review.total}


def _describe_item(item: ReviewItem) -> JsonObject:
    row = item.stored.row
    described: JsonObject = {
        "kind": item.kind,
        "id": row.id,
        "key": row.key,
        "version": row.version,
        "content": row.summary or row.content[:MAX_BEGINNING],
        "updated_at": row.updated_at,
        "expires_at": row.expires_at,
        "other": item.other,
        "other_content": item.other_content[:MAX_BEGINNING],
        "link_type": item.link_type,
    }
    return {name: value for name, value in described.items() if value}


@view("labels", query_memories)
async def show_labels(context: Context) -> JsonObject:
    """Return tags and categories to suggest, each sorted."""
    tags, categories = await list_labels(context.memory)
    return {"tags": tags, "categories": categories}


@view("map", memory_list)
async def show_map(
    context: Context,
    prefix: KeyPart = "",
    by: Literal["folder", "type", "category", "tag"] = "folder",
) -> JsonObject:
    """Return the largest clusters of memories, each with its number, and how many were counted.

    Clusters are the folders and memories right below a prefix of keys, or the types, categories or
    tags of all memories, where "" is for memories without one.
    """
    if by == "folder":
        counts, total, complete = await _count_folders(context, prefix)
    else:
        labels, total, complete = await count_labels(context.memory, by, MAX_MAPPED)
        counts = Counter({("label", label): count for label, count in labels.items()})

    nodes: list[JsonObject] = []
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_NODES]
    for (kind, text), count in largest:
        nodes.append({"name": text.removeprefix(prefix) or text, kind: text, "count": count})

    others = counts.total() - sum(node["count"] for node in nodes)
    return {"by": by, "nodes": nodes, "total": total, "others": others, "complete": complete}


async def _count_folders(
    context: Context, prefix: str
) -> tuple[Counter[tuple[str, str]], int, bool]:
    counts: Counter[tuple[str, str]] = Counter()
    after = ""
    complete = False

    while not complete and counts.total() < MAX_MAPPED:
        lines = await context.memory.reader.list_memories(
            prefix, after, _LISTED_AT_ONCE, archived=False
        )
        for line in lines:
            after = line.key
            name, _, below = after.removeprefix(prefix).partition("/")
            counts[("folder", f"{prefix}{name}/") if below else ("key", after)] += 1
        complete = len(lines) < _LISTED_AT_ONCE

    return counts, counts.total(), complete


@view("why", recall)
async def explain_place(context: Context, key: Key, question: Question) -> JsonObject:
    """Return the place of a memory in the answer to a question, or why it has none."""
    asked = RecallInput(queries=[question])
    return {"explanation": await context.memory.explain(key, asked)}


@view("days", memory_read_bulk)
async def list_days(
    context: Context, year: Annotated[int, Field(ge=1000, le=9999), Integer] | None = None
) -> JsonObject:
    """Return the days of a year that have notes, with the size of each or why it is unreadable."""
    today = context.memory.today
    year = year or today.year

    days: list[JsonObject] = []
    for day, outcome in await context.memory.list_days(year):
        shown: JsonObject = {"date": day.isoformat()}
        if isinstance(outcome, int):
            shown["size_bytes"] = outcome
        else:
            shown["error"] = Fault.from_exception(outcome)
        days.append(shown)

    return {"today": today.isoformat(), "year": year, "days": days}


class FilesAnswer(Model):
    """The files of both roots, sorted by path, and what to send as 'after' for the next page."""

    files: list[JsonObject]
    after: str | None
    skipped: int


@view("files", file_list)
async def list_files(context: Context, arguments: FileListInput) -> FilesAnswer:
    """Return a page of both roots as one list, with the workspace's files that it hides."""
    request = parse_listing_request(arguments)
    page = await context.files.list_files(request)

    # The list of both roots leaves out hidden files; the list of the workspace has them. It may
    # need more entries to get as far as the page.
    longer_request = request._replace(limit=arguments.limit + MAX_HIDDEN)
    workspace = await context.files.for_root("workspace").list_files(longer_request)

    read = {file.position: file for file in page.files}
    hidden: dict[str, FoundFile] = {}
    for file in workspace.files:
        is_on_page = page.after is None or file.position <= page.after
        shown = read.get(file.position)
        if is_on_page and (shown is None or shown.source != "workspace"):
            hidden[file.position] = file

    files: list[JsonObject] = []
    for position in sorted(read.keys() | hidden.keys()):
        described: JsonObject = {}
        if position in hidden:
            # The agent directory may refuse the path; the workspace never serves a refused path.
            file = hidden[position]
            described = {"path": file.path, "hides": _measure(file)}
        if position in read:
            file = read[position]
            described |= {"path": file.path, "source": file.source, **_measure(file)}

        files.append(described)

    return FilesAnswer(files=files, after=page.after, skipped=page.skipped)


def _measure(file: FoundFile) -> JsonObject:
    return {"size_bytes": file.stat.st_size, "modified_at": format_modified_at(file.stat)}
