"""`file_list`: find files to read."""

from itertools import accumulate
from typing import Any

from abilities.declarations.faults import Refused
from abilities.declarations.file_list import FileListAnswer, FileListInput
from abilities.definition import Ability, Context
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.lister import FoundFile, Listing, ListingRequest
from abilities.helpers.files.reader import format_modified_at
from abilities.helpers.reply.render import json_size

DESCRIPTION = """\
List the files that can be read, by a glob pattern; use it to find paths, then send them to file_read_bulk, up to 25 \
in one call.
Patterns are relative, '/' between folders: 'src/**/*.py', '*.{md,txt}', 'docs/**' (all beneath a folder), '**/*' (all).
The agent directory and the workspace are listed as one, sorted by path; where both have a path, the agent's counts.
Names that begin with a dot match only a pattern that says the dot, as '.github/**'. Folders reached through links, \
.git, and files that are not shared with agents are left out.
When 'has_more' is true, send 'next_request' as the arguments of the next call. Nothing is read or changed."""


def parse_listing_request(arguments: FileListInput) -> ListingRequest:
    """What the arguments ask for. Raises Refused, with the pattern as its field."""
    try:
        glob = Glob(arguments.pattern)
    except Refused as error:
        raise Refused(error.reason, "pattern") from None
    return ListingRequest(glob, arguments.after or "", arguments.limit)


async def run(context: Context, arguments: FileListInput) -> dict[str, Any]:
    """List as many files as are asked for and fit into the answer."""
    listing = await context.lister.list_files(parse_listing_request(arguments))
    answer = _frame(listing)
    longest = max((file.position for file in listing.files), key=len, default="")
    rest = {
        **arguments.explicit_arguments(),
        "after": max(longest, listing.after or "", key=json_size),
    }
    room = context.max_response_bytes - json_size({**answer, "next_request": rest})
    files = [_shown(file) for file in listing.files]
    fits = _fitting(files, room)
    after = listing.after if fits == len(files) else listing.files[fits - 1].position
    answer |= {"files": files[:fits], "has_more": after is not None}
    if after is not None:
        answer["next_request"] = {**rest, "after": after}
    return answer


def _frame(listing: Listing) -> dict[str, Any]:
    """The answer without its files."""
    skipped = {"skipped": listing.skipped} if listing.skipped else {}
    folders = {"skipped_folders": listing.folders} if listing.folders else {}
    return {"files": [], "has_more": False, **skipped, **folders}


def _shown(file: FoundFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "source": file.source,
        "size_bytes": file.stat.st_size,
        "modified_at": format_modified_at(file.stat),
    }


def _fitting(files: list[dict[str, Any]], room: int) -> int:
    """How many files fit, from the front; at least one."""
    sizes = accumulate(json_size(file) + 1 for file in files)
    return max(sum(size <= room for size in sizes), min(len(files), 1))


file_list = Ability(
    name="file_list",
    title="List files",
    description=DESCRIPTION,
    input=FileListInput,
    answer=FileListAnswer,
    run=run,
    read_only=True,
    idempotent=True,
)
