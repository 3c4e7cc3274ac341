"""Internal abilities that only the explorer's page uses, with their inputs and answers.

They are declared, validated and answered like all abilities, but in a separate registry: no client
is ever offered one, and none appears in a published schema.
"""

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.builtin.bulk_read_memory import memory_get
from abilities.builtin.file_list import file_list, parse_listing_request
from abilities.builtin.memories import memory_list, query_memories
from abilities.builtin.memory_history import memory_changes, memory_history
from abilities.builtin.memory_read_bulk import memory_read_bulk
from abilities.builtin.recall import recall
from abilities.declarations.fields import Arguments, Integer, Offset, Version
from abilities.declarations.file_list import FileListInput
from abilities.declarations.memories import KeyPart
from abilities.declarations.memory import Action, Id, Key, LinkData, Memory
from abilities.declarations.memory_history import ChangeEntry
from abilities.declarations.recall import Question, RecallInput
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, Model
from abilities.decorator import ability
from abilities.definition import Context
from abilities.helpers.files.file_walk import FoundFile
from abilities.helpers.files.reader import format_modified_at
from abilities.helpers.memory.answers import describe_change
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.memory.review import Kind, ReviewItem, list_labels, review_memories
from abilities.helpers.memory.targets import require_name
from abilities.registry import AbilityRegistry

MAX_BYTES = 4_000_000
"""Maximum size of an answer: unlike a model's context, a page has room for much."""

TIMELINE_CHANGES = 50
"""Changes on one page of the timeline."""

MAX_BEGINNING = 300
"""Characters of a content that a review shows."""

MAX_MAPPED = 20_000
"""Memories that a map counts."""

MAX_NODES = 300
"""Folders and memories on a map, the largest ones."""

_LISTED_AT_ONCE = 1_000

MAX_HIDDEN = 1_000
"""Hidden files shown on one page; the workspace is listed this much further than the page."""

EQUIVALENTS: Mapping[str, tuple[str, ...]] = {
    "memory": (memory_get.name, memory_read_bulk.name),
    "version": (memory_history.name,),
    "timeline": (memory_changes.name,),
    "review": (query_memories.name,),
    "map": (memory_list.name,),
    "labels": (query_memories.name,),
    "why": (recall.name,),
    "days": (memory_read_bulk.name,),
    "files": (file_list.name,),
}
"""The abilities that return the same as a view; a view is disabled if all of these are."""

Scope = Literal["read", "write"]


class SessionInput(Arguments):
    """No arguments."""


class SessionAnswer(Model):
    """The caller's namespace and access."""

    version: str = Field(description="The version of agent-abilities that serves the page.")
    namespace: str = Field(description="The namespace whose memories and files are shown.")
    scope: Scope = Field(description="What the caller may do.")
    latest: int = Field(description="The version of the latest change; 0 before the first one.")


class MemoryViewInput(Arguments):
    """The memory to show."""

    key: Key | None = Field(default=None, description="The memory's key; or send its id.")
    id: Id | None = Field(default=None, description="The memory's id.")
    links_offset: Offset = Field(default=0, description="Links to skip.")
    backlinks_offset: Offset = Field(default=0, description="Links from other memories to skip.")


class MemoryViewAnswer(Model):
    """A memory with its counters, a page of its links, and a page of the links to it."""

    memory: Memory = Field(description="The memory; showing it counts no access.")
    backlinks: list[LinkData] = Field(
        description="Links from other memories, by their keys, 20 at most."
    )
    backlinks_total: int = Field(description="How many such links there are.")


class VersionInput(Arguments):
    """The version of a memory to show."""

    id: Id = Field(description="The memory's id.")
    version: Version = Field(description="A version of its history.")


class VersionAnswer(Model):
    """A memory in a version and in the one before it, each with all its links."""

    memory: Memory | None = Field(
        default=None, description="The memory in that version; left out if this deleted it."
    )
    before: Memory | None = Field(
        default=None, description="What that version replaced; left out if there was none."
    )


class TimelineInput(Arguments):
    """The changes to list."""

    by: str | None = Field(default=None, description="Only changes by this caller.")
    action: Action | Literal["purged"] | None = Field(
        default=None, description="Only changes of this kind."
    )
    before: Version | None = Field(default=None, description="Only changes before this version.")


class TimelineAnswer(Model):
    """Changes of all memories, newest first."""

    changes: list[ChangeEntry] = Field(description="The changes, 50 at most.")
    next_request: dict[str, Any] | None = Field(
        default=None, description="Arguments for older changes; absent if there are none."
    )


class ReviewInput(Arguments):
    """No arguments."""


class ReviewedMemory(Model):
    """A memory to look at, and why."""

    kind: Kind = Field(
        description="similar: a newer one says nearly the same; superseded: another one took its "
        "place; dangling: a link of it leads to no memory; expiring: it will be archived; unread: "
        "not read by its key or changed for 30 days."
    )
    id: str = Field(description="The memory's UUID.")
    key: str = Field(description="The memory's key.")
    version: int = Field(description="The memory's version.")
    content: str = Field(description="Its summary, or the beginning of its content.")
    updated_at: str = Field(description="Its last change, RFC 3339 UTC.")
    expires_at: str | None = Field(default=None, description="When it expires, RFC 3339 UTC.")
    other: str | None = Field(
        default=None, description="The key of the newer memory, or of the missing one."
    )
    other_content: str | None = Field(
        default=None, description="The beginning of the newer memory."
    )
    link_type: str | None = Field(default=None, description="The type of the dangling link.")


class ReviewAnswer(Model):
    """The memories to look at."""

    items: list[ReviewedMemory] = Field(description="By kind, 20 of each at most.")
    examined: int = Field(description="How many of the latest memories were examined.")
    total: int = Field(description="How many memories there are.")


class LabelsInput(Arguments):
    """No arguments."""


class LabelsAnswer(Model):
    """Labels to suggest."""

    tags: list[str] = Field(description="Tags of the latest memories, and the most used ones.")
    categories: list[str] = Field(description="Categories of the latest memories.")


class MapInput(Arguments):
    """The folder to show."""

    prefix: KeyPart = Field(
        default="", description="The beginning of the keys, such as 'project/'; default all."
    )


class MapNode(Model):
    """A folder of keys, or a memory."""

    name: str = Field(description="The next part of the keys.")
    key: str | None = Field(default=None, description="The memory's key.")
    folder: str | None = Field(default=None, description="The prefix of a folder.")
    count: int = Field(description="The memories in it.")


class MapAnswer(Model):
    """The folders and memories whose keys begin with the prefix."""

    nodes: list[MapNode] = Field(description="The largest first, then by name; 300 at most.")
    total: int = Field(description="The memories that were counted.")
    others: int = Field(default=0, description="Of these, the memories in no node.")
    complete: bool = Field(description="Whether all memories were counted.")


class WhyInput(Arguments):
    """The memory to explain, and the question."""

    key: Key = Field(description="The memory's key.")
    question: Question = Field(description="The question.")


class WhyAnswer(Model):
    """Why a memory is in the answer to a question, or not."""

    explanation: dict[str, Any] = Field(
        description="Place and score, or the reason, and the points of each word and link."
    )


class DaysInput(Arguments):
    """The year whose daily notes to list."""

    year: Annotated[int, Field(ge=1000, le=9999), Integer] | None = Field(
        default=None, description="The year; default the current one."
    )


class Day(Model):
    """A day that has notes, or a file in their place that cannot be read."""

    date: str = Field(description="YYYY-MM-DD.")
    size_bytes: int | None = Field(default=None, description="Size in bytes.")
    error: Fault | None = Field(default=None, description="Why the file cannot be read.")


class DaysAnswer(Model):
    """The days of a year that have notes."""

    today: str = Field(description="Today in the configured time zone, YYYY-MM-DD.")
    year: int = Field(description="The year.")
    days: list[Day] = Field(description="The days, first to last.")


class HiddenFile(Model):
    """A file of the workspace that agents cannot read, because the agent directory has its path."""

    size_bytes: int = Field(description="Size in bytes.")
    modified_at: str = Field(description="Last modification, RFC 3339 UTC.")


class RootedFile(Model):
    """A path, the root that it is read from, and the workspace's file that this hides."""

    path: str = Field(description="The path as file_read_bulk takes it.")
    source: Literal["agent", "workspace"] | None = Field(
        default=None,
        description="The root it is read from; left out if the agent directory refuses the path.",
    )
    size_bytes: int | None = Field(default=None, description="Size in bytes of the file read.")
    modified_at: str | None = Field(
        default=None, description="Last modification of the file read, RFC 3339 UTC."
    )
    hides: HiddenFile | None = Field(
        default=None, description="The workspace's file of the same path, if it is hidden."
    )


class FilesAnswer(Model):
    """The files of both roots, sorted by path."""

    files: list[RootedFile] = Field(description="The files that match.")
    after: str | None = Field(
        default=None, description="What to send as 'after' for the next page; absent at the end."
    )
    skipped: int = Field(default=0, description="Folders and names that could not be listed.")


@ability(name="session", description="The caller's namespace and access.", read_only=True)
async def show_session(context: Context, _: SessionInput) -> SessionAnswer:
    """Return the caller's namespace and scope, and the version that serves the page."""
    scope: Scope = "read" if context.read_only else "write"
    return SessionAnswer(
        version=version("agent-abilities"),
        namespace=context.namespace,
        scope=scope,
        latest=await context.memory.reader.read_latest(),
    )


@ability(
    name="memory",
    description="A memory with its counters, its links, and the links to it.",
    read_only=True,
)
async def show_memory(context: Context, arguments: MemoryViewInput) -> MemoryViewAnswer:
    """Return a memory and a page of the links from and to it; this counts as no access."""
    name = require_name(arguments.explicit_arguments())
    key = name.key
    if key is None:
        assert name.id is not None, "require_name has checked it"
        key = await context.memory.reader.find_key(name.id)

    stored, page = await context.memory.inspect(
        key, arguments.links_offset, arguments.backlinks_offset
    )

    memory = to_memory_data(stored, counters=True, links=True)
    backlinks = [LinkData.model_validate(link.to_data(incoming=True)) for link in page.links]

    return MemoryViewAnswer(
        memory=Memory.model_validate(memory), backlinks=backlinks, backlinks_total=page.total
    )


@ability(
    name="version",
    description="A memory in a version, and what it was before.",
    read_only=True,
)
async def show_version(context: Context, arguments: VersionInput) -> VersionAnswer:
    """Return a memory in a version and before it. Raises Refused: scope, not_found."""
    # A deleted memory is only for callers who could restore it.
    reader = context.memory.reader
    if context.read_only and await reader.is_deleted(require_name({"id": arguments.id})):
        raise Refused("scope")

    pair = await reader.read_pair(arguments.id, arguments.version)
    data: JsonObject = {}
    for name, memory in zip(("memory", "before"), pair, strict=True):
        if memory is not None:
            data[name] = to_memory_data(memory, links=True)
    return VersionAnswer.model_validate(data)


@ability(name="timeline", description="What changed in all memories, newest first.", read_only=True)
async def show_timeline(context: Context, arguments: TimelineInput) -> TimelineAnswer:
    """Return a page of the changes of the namespace, newest first."""
    found, before = await context.memory.reader.read_timeline(
        arguments.before, TIMELINE_CHANGES, arguments.by, arguments.action
    )
    following: JsonObject | None = None
    if before is not None:
        following = {**arguments.explicit_arguments(), "before": before}

    changes = [ChangeEntry.model_validate(describe_change(change)) for change in found]
    return TimelineAnswer(changes=changes, next_request=following)


@ability(name="review", description="The memories to look at, and why.", read_only=True)
async def show_review(context: Context, _: ReviewInput) -> ReviewAnswer:
    """Return the memories to look at; this counts as no access."""
    review = await review_memories(context.memory)
    items = [_describe_item(item) for item in review.items]
    return ReviewAnswer(items=items, examined=review.examined, total=review.total)


def _describe_item(item: ReviewItem) -> ReviewedMemory:
    row = item.stored.row
    return ReviewedMemory(
        kind=item.kind,
        id=row.id,
        key=row.key,
        version=row.version,
        content=row.summary or row.content[:MAX_BEGINNING],
        updated_at=row.updated_at,
        expires_at=row.expires_at or None,
        other=item.other or None,
        other_content=item.other_content[:MAX_BEGINNING] or None,
        link_type=item.link_type or None,
    )


@ability(name="labels", description="Tags and categories that are in use.", read_only=True)
async def show_labels(context: Context, _: LabelsInput) -> LabelsAnswer:
    """Return tags and categories to suggest, each sorted."""
    tags, categories = await list_labels(context.memory)
    return LabelsAnswer(tags=tags, categories=categories)


@ability(name="map", description="Memories by the folders of their keys.", read_only=True)
async def show_map(context: Context, arguments: MapInput) -> MapAnswer:
    """Return the folders and memories right below a prefix, with the memories in each."""
    prefix = arguments.prefix
    counts: Counter[tuple[str, str]] = Counter()  # by the key of a memory, or by a folder
    after = ""
    complete = False

    while not complete and counts.total() < MAX_MAPPED:
        lines = await context.memory.reader.list_memories(
            prefix, after, _LISTED_AT_ONCE, archived=False
        )
        for line in lines:
            after = line.key
            name, _, below = after.removeprefix(prefix).partition("/")
            if below:
                counts["", f"{prefix}{name}/"] += 1
            else:
                counts[after, ""] += 1
        complete = len(lines) < _LISTED_AT_ONCE

    nodes: list[MapNode] = []
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_NODES]
    for (key, folder), count in largest:
        name = (key or folder).removeprefix(prefix) or key
        node = MapNode(name=name, key=key or None, folder=folder or None, count=count)
        nodes.append(node)

    total = counts.total()
    others = total - sum(node.count for node in nodes)
    return MapAnswer(nodes=nodes, total=total, others=others, complete=complete)


@ability(name="why", description="Why a memory answers a question, or not.", read_only=True)
async def explain_place(context: Context, arguments: WhyInput) -> WhyAnswer:
    """Return the place of a memory in the answer to a question, or why it has none."""
    asked = RecallInput(queries=[arguments.question])
    return WhyAnswer(explanation=await context.memory.explain(arguments.key, asked))


@ability(name="days", description="The days of a year that have notes.", read_only=True)
async def list_days(context: Context, arguments: DaysInput) -> DaysAnswer:
    """Return the days of a year that have notes, with the size of each or why it is unreadable."""
    today = context.memory.today
    year = arguments.year or today.year

    days: list[Day] = []
    for day, outcome in await context.memory.list_days(year):
        if isinstance(outcome, int):
            days.append(Day(date=day.isoformat(), size_bytes=outcome))
        else:
            days.append(Day(date=day.isoformat(), error=Fault.from_exception(outcome)))

    return DaysAnswer(today=today.isoformat(), year=year, days=days)


@ability(
    name="files",
    description="The files of both roots: which root each is read from, and what it hides.",
    read_only=True,
)
async def list_files(context: Context, arguments: FileListInput) -> FilesAnswer:
    """Return a page of both roots as one list, with the workspace's files that it hides."""
    request = parse_listing_request(arguments)
    page = await context.lister.list_files(request)

    # The list of both roots leaves out hidden files; the list of the workspace has them. It may
    # need more entries to get as far as the page.
    longer_request = request._replace(limit=arguments.limit + MAX_HIDDEN)
    workspace = await context.lister.for_root("workspace").list_files(longer_request)

    read = {file.position: file for file in page.files}
    hidden: dict[str, FoundFile] = {}
    for file in workspace.files:
        is_on_page = page.after is None or file.position <= page.after
        shown = read.get(file.position)
        if is_on_page and (shown is None or shown.source != "workspace"):
            hidden[file.position] = file

    files: list[RootedFile] = []
    for position in sorted(read.keys() | hidden.keys()):
        files.append(_describe_file(read.get(position), hidden.get(position)))

    return FilesAnswer(files=files, after=page.after, skipped=page.skipped)


def _describe_file(read: FoundFile | None, hidden: FoundFile | None) -> RootedFile:
    """Describe a path by its file that is read, its file that is hidden, or both."""
    hides: HiddenFile | None = None
    if hidden is not None:
        hides = HiddenFile(
            size_bytes=hidden.stat.st_size, modified_at=format_modified_at(hidden.stat)
        )

    # The agent directory refuses the path, and the workspace never serves a refused path.
    if read is None:
        assert hidden is not None
        return RootedFile(path=hidden.path, hides=hides)

    return RootedFile(
        path=read.path,
        source="agent" if read.source == "agent" else "workspace",
        size_bytes=read.stat.st_size,
        modified_at=format_modified_at(read.stat),
        hides=hides,
    )


VIEWS = AbilityRegistry(
    [
        show_session,
        show_memory,
        show_version,
        show_timeline,
        show_review,
        show_labels,
        show_map,
        explain_place,
        list_days,
        list_files,
    ],
    read_only=True,
)
"""The internal abilities by name."""
