"""`file_list`: find files to read."""

from collections.abc import Sequence

from abilities.declarations.file_list import FileListAnswer, FileListInput
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, json_size
from abilities.definition import Ability, Context
from abilities.helpers.files.file_walk import FoundFile
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.lister import Listing, ListingRequest
from abilities.helpers.files.reader import format_modified_at
from abilities.helpers.reply.detail import shape_listed

DESCRIPTION = """\
List the files that can be read, by a glob, such as 'src/**/*.py'.
Names with a leading dot match only a pattern with that dot, and folders such as node_modules only \
one with that name. For more, send next_request."""


def parse_listing_request(arguments: FileListInput) -> ListingRequest:
    """Return what the arguments ask for. Raises Refused, with the pattern as its field."""
    try:
        glob = Glob(arguments.pattern)
    except Refused as error:
        raise Refused(error.reason, "pattern", expected=error.expected) from None

    return ListingRequest(glob, arguments.after or "", arguments.limit)


async def run(context: Context, arguments: FileListInput) -> JsonObject:
    """List as many of the requested files as fit into the answer."""
    listing = await context.lister.list_files(parse_listing_request(arguments))
    if not listing.files and not context.lister.has_workspace:
        raise Refused("no_workspace")  # an empty list would say that a workspace is empty

    # Where the next request begins depends on how many files fit, so the widest one is counted.
    answer = _build_frame(listing)
    widest_request = {**arguments.explicit_arguments(), "after": _find_widest_position(listing)}
    room = context.max_response_bytes - json_size({**answer, "next_request": widest_request})

    files = [_describe_file(file) for file in listing.files]
    if (arguments.detail or context.detail) == "concise":
        files = [shape_listed(file) for file in files]

    fitting = _count_fitting(files, room)

    after = listing.after
    if fitting < len(files):
        after = listing.files[fitting - 1].position

    answer["files"] = files[:fitting]
    answer["has_more"] = after is not None
    if after is not None:
        answer["next_request"] = {**widest_request, "after": after}

    return answer


def _build_frame(listing: Listing) -> JsonObject:
    """Return the answer without its files."""
    frame: JsonObject = {"files": [], "has_more": False}

    if listing.skipped:
        frame["skipped"] = listing.skipped
    if listing.folders:
        frame["skipped_folders"] = listing.folders

    return frame


def _find_widest_position(listing: Listing) -> str:
    """Return a position at least as wide as the one that the next request will begin after."""
    longest = ""
    for file in listing.files:
        longest = max(longest, file.position, key=len)

    return max(longest, listing.after or "", key=json_size)


def _describe_file(file: FoundFile) -> JsonObject:
    return {
        "path": file.path,
        "source": file.source,
        "size_bytes": file.stat.st_size,
        "modified_at": format_modified_at(file.stat),
    }


def _count_fitting(files: Sequence[JsonObject], room: int) -> int:
    """Return how many files fit, from the front; at least one."""
    # One at least, or the next request would repeat this one.
    used = 0

    for count, file in enumerate(files):
        used += json_size(file) + 1
        if used > room:
            return max(count, 1)

    return len(files)


file_list: Ability = Ability(
    name="file_list",
    title="List files",
    description=DESCRIPTION,
    input=FileListInput,
    answer=FileListAnswer,
    run=run,
    read_only=True,
    idempotent=True,
)
