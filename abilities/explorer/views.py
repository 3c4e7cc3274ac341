"""What the page asks beside the abilities: abilities too, validated and answered alike, but offered to nobody."""

from importlib.metadata import version

from abilities.builtin.file_list import parse_listing_request
from abilities.declarations.explorer import (
    Day,
    DaysAnswer,
    DaysInput,
    FilesAnswer,
    HiddenFile,
    MemoryViewAnswer,
    MemoryViewInput,
    RootedFile,
    SessionAnswer,
    SessionInput,
)
from abilities.declarations.faults import Fault
from abilities.declarations.file_list import FileListInput
from abilities.declarations.memory import LinkData, Memory
from abilities.definition import Context, ability
from abilities.helpers.files.lister import FoundFile, Listing
from abilities.helpers.files.reader import format_modified_at
from abilities.helpers.memory.helper import DayFile
from abilities.helpers.memory.records import to_memory_data
from abilities.registry import AbilityRegistry

MAX_BYTES = 1_000_000
"""Of an answer: people's pages need not fit into a model's context."""
MAX_HIDDEN = 1_000
"""Files of the workspace that are compared with one page of both roots."""


@ability(name="session", description="Who is looking, and what they may do.", read_only=True)
async def show_session(context: Context, _: SessionInput) -> SessionAnswer:
    """The caller's namespace and scope."""
    return SessionAnswer(
        version=version("agent-abilities"),
        namespace=context.namespace,
        scope="read" if context.read_only else "write",
    )


@ability(
    name="memory",
    description="A memory with its counters, its links and those to it.",
    read_only=True,
)
async def show_memory(context: Context, asked: MemoryViewInput) -> MemoryViewAnswer:
    """A memory, without counting an access."""
    stored, back = await context.memory.inspect(
        asked.key, asked.links_offset, asked.backlinks_offset
    )
    links = [
        LinkData(key=link.source, link_weight=link.weight, type=link.type) for link in back.links
    ]
    memory = Memory.model_validate(to_memory_data(stored, counters=True, links=True))
    return MemoryViewAnswer(memory=memory, backlinks=links, backlinks_total=back.total)


@ability(name="days", description="The days of a year that have notes.", read_only=True)
async def list_days(context: Context, asked: DaysInput) -> DaysAnswer:
    """A calendar of the short-term memory."""
    today = context.memory.today
    year = asked.year or today.year
    found = [
        Day(date=day.isoformat(), size_bytes=file.size)
        if isinstance(file, DayFile)
        else Day(date=day.isoformat(), error=Fault.from_exception(file))
        for day, file in await context.memory.list_days(year)
    ]
    return DaysAnswer(today=today.isoformat(), year=year, days=found)


@ability(
    name="files",
    description="The files of both roots: which root answers, and what it hides.",
    read_only=True,
)
async def list_files(context: Context, asked: FileListInput) -> FilesAnswer:
    """Both roots as one list, beside the workspace alone."""
    wanted = parse_listing_request(asked)
    both = await context.lister.list_files(wanted)
    alone = await context.lister.for_root("workspace").list_files(
        wanted._replace(limit=asked.limit + MAX_HIDDEN)
    )
    return FilesAnswer(files=_compared(both, alone), after=both.after, skipped=both.skipped)


def _compared(both: Listing, alone: Listing) -> list[RootedFile]:
    """The files that are read and those that are hidden, as far as the first list goes."""
    read = {file.position: file for file in both.files}
    there = {f.position: f for f in alone.files if both.after is None or f.position <= both.after}
    hidden = {position: file for position, file in there.items() if _is_hidden(read.get(position))}
    return [
        _rooted(read.get(position), hidden.get(position))
        for position in sorted(read.keys() | hidden.keys())
    ]


def _is_hidden(read: FoundFile | None) -> bool:
    return read is None or read.source != "workspace"


def _rooted(read: FoundFile | None, behind: FoundFile | None) -> RootedFile:
    hides = behind and HiddenFile(
        size_bytes=behind.stat.st_size, modified_at=format_modified_at(behind.stat)
    )
    if read is None:
        assert behind is not None
        return RootedFile(path=behind.path, hides=hides)
    return RootedFile(
        path=read.path,
        source="agent" if read.source == "agent" else "workspace",
        size_bytes=read.stat.st_size,
        modified_at=format_modified_at(read.stat),
        hides=hides,
    )


VIEWS = AbilityRegistry([show_session, show_memory, list_days, list_files], read_only=True)
