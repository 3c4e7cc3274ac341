"""Internal abilities that only the explorer's page uses.

They are declared, validated and answered as all abilities are, but stand in a registry of their
own: no client is ever offered one, and none appears in a published schema.
"""

from collections.abc import Mapping
from datetime import date
from importlib.metadata import version

from abilities.builtin.bulk_read_memory import memory_get
from abilities.builtin.file_list import file_list, parse_listing_request
from abilities.builtin.memory_history import memory_changes, memory_history
from abilities.builtin.memory_read_bulk import memory_read_bulk
from abilities.declarations.explorer import (
    Day,
    DaysAnswer,
    DaysInput,
    FilesAnswer,
    HiddenFile,
    MemoryViewAnswer,
    MemoryViewInput,
    RootedFile,
    Scope,
    SessionAnswer,
    SessionInput,
    TimelineAnswer,
    TimelineInput,
    VersionAnswer,
    VersionInput,
)
from abilities.declarations.faults import Fault, Refused
from abilities.declarations.file_list import FileListInput
from abilities.declarations.memory import LinkData, Memory
from abilities.declarations.memory_history import ChangeEntry
from abilities.declarations.values import JsonObject
from abilities.decorator import ability
from abilities.definition import Context
from abilities.helpers.files.file_walk import FoundFile
from abilities.helpers.files.lister import Listing
from abilities.helpers.files.reader import format_modified_at
from abilities.helpers.memory.helper import DayFile
from abilities.helpers.memory.naming import require_name
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.memory.versions import TimelineFilter, describe_change, describe_pair
from abilities.registry import AbilityRegistry

ALIKE: Mapping[str, tuple[str, ...]] = {
    "memory": (memory_get.name, memory_read_bulk.name),
    "version": (memory_history.name,),
    "timeline": (memory_changes.name,),
    "days": (memory_read_bulk.name,),
    "files": (file_list.name,),
}
"""The abilities that show the same as a view, which is there only if one of them is offered."""

MAX_BYTES = 4_000_000
"""Size of an answer: what people look at need not fit into a model's context."""

TIMELINE_CHANGES = 50
"""Changes on one page of the timeline."""

MAX_HIDDEN = 1_000
"""Hidden files shown on one page; the workspace is listed this much further than the page."""


@ability(name="session", description="The caller's namespace and access.", read_only=True)
async def show_session(context: Context, _: SessionInput) -> SessionAnswer:
    """Return the caller's namespace and scope, and the version that serves the page."""
    scope: Scope = "read" if context.read_only else "write"
    return SessionAnswer(
        version=version("agent-abilities"), namespace=context.namespace, scope=scope
    )


@ability(
    name="memory",
    description="A memory with its counters, its links, and the links to it.",
    read_only=True,
)
async def show_memory(context: Context, arguments: MemoryViewInput) -> MemoryViewAnswer:
    """Return a memory, a page of its links and one of the links to it; this counts no access."""
    name = require_name(arguments.explicit_arguments())
    key = name.key
    if key is None:
        assert name.id is not None, "who gives no key gives an id"
        key = await context.memory.versions.find_key(name.id)

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
    """Return a memory as it was in a version and before it. Raises Refused: scope, not_found."""
    # What somebody deleted is for those alone who could restore it.
    versions = context.memory.versions
    if context.read_only and not await versions.exists(arguments.id):
        raise Refused("scope")

    pair = await versions.read_pair(arguments.id, arguments.version)
    return VersionAnswer.model_validate(describe_pair(pair))


@ability(name="timeline", description="What changed in all memories, newest first.", read_only=True)
async def show_timeline(context: Context, arguments: TimelineInput) -> TimelineAnswer:
    """Return a page of the changes of the namespace, newest first."""
    chosen = TimelineFilter(arguments.by, arguments.action)
    page = await context.memory.versions.read_timeline(arguments.before, TIMELINE_CHANGES, chosen)

    following: JsonObject | None = None
    if page.before is not None:
        following = {**arguments.explicit_arguments(), "before": page.before}

    changes = [ChangeEntry.model_validate(describe_change(change)) for change in page.changes]
    return TimelineAnswer(changes=changes, next_request=following)


@ability(name="days", description="The days of a year that have notes.", read_only=True)
async def list_days(context: Context, arguments: DaysInput) -> DaysAnswer:
    """Return the days of a year that have notes, with the size of each or why it is unreadable."""
    today = context.memory.today
    year = arguments.year or today.year

    outcomes = await context.memory.list_days(year)
    days = [_describe_day(day, outcome) for day, outcome in outcomes]

    return DaysAnswer(
        today=today.isoformat(),
        year=year,
        days=days,
    )


def _describe_day(day: date, outcome: DayFile | Exception) -> Day:
    name = day.isoformat()

    if isinstance(outcome, DayFile):
        return Day(date=name, size_bytes=outcome.size)

    return Day(date=name, error=Fault.from_exception(outcome))


@ability(
    name="files",
    description="The files of both roots: which root each is read from, and what it hides.",
    read_only=True,
)
async def list_files(context: Context, arguments: FileListInput) -> FilesAnswer:
    """Return a page of both roots as one list, with the workspace's files that it hides."""
    request = parse_listing_request(arguments)
    page = await context.lister.list_files(request)

    # A list of both roots does not tell what it hides. The workspace's own list does, and it may
    # need more entries to get as far as the page.
    longer_request = request._replace(limit=arguments.limit + MAX_HIDDEN)
    workspace = await context.lister.for_root("workspace").list_files(longer_request)

    files = _merge_files(page, _find_hidden(page, workspace))
    return FilesAnswer(files=files, after=page.after, skipped=page.skipped)


def _find_hidden(page: Listing, workspace: Listing) -> dict[str, FoundFile]:
    """Return the workspace's files within the page that are not read from there, by position."""
    sources = {file.position: file.source for file in page.files}
    hidden: dict[str, FoundFile] = {}

    for file in workspace.files:
        is_on_page = page.after is None or file.position <= page.after

        if is_on_page and sources.get(file.position) != "workspace":
            hidden[file.position] = file

    return hidden


def _merge_files(page: Listing, hidden: dict[str, FoundFile]) -> list[RootedFile]:
    """Describe the files that are read and those that are hidden, in the order of their paths."""
    read = {file.position: file for file in page.files}
    merged: list[RootedFile] = []

    for position in sorted(read.keys() | hidden.keys()):
        file = _describe_file(read.get(position), hidden.get(position))
        merged.append(file)

    return merged


def _describe_file(read: FoundFile | None, hidden: FoundFile | None) -> RootedFile:
    """Describe a path by the file that is read, the one that is hidden, or both."""
    hides: HiddenFile | None = None
    if hidden is not None:
        hides = HiddenFile(
            size_bytes=hidden.stat.st_size, modified_at=format_modified_at(hidden.stat)
        )

    # The agent directory refuses the path, and a refusal never falls back to the workspace.
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
    [show_session, show_memory, show_version, show_timeline, list_days, list_files], read_only=True
)
"""The internal abilities by name, apart from those that clients are offered."""
