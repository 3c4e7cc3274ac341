"""`file_list`: what it is asked and what it answers."""

from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.declarations.fields import EXACT, Arguments, Integer
from abilities.declarations.memory import Text
from abilities.declarations.model import Model

_PATTERN = r"^(?!/)(?!(.*/)?\.\.(/|$))[^\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+$"
_Shown = Field(json_schema_extra={EXACT: {"pattern": _PATTERN}})


class FileListInput(Arguments):
    """Arguments of `file_list`."""

    pattern: Annotated[str, Field(min_length=1, max_length=1024), _Shown] = Field(
        default="**/*",
        description="Glob over relative paths: '*' and '?' within a name, '**' any folders, '{a,b}' either; "
        "default '**/*', all files.",
    )
    limit: Annotated[int, Field(ge=1, le=500), Integer] = Field(
        default=200, description="At most so many files; default 200."
    )
    after: Annotated[str, Field(max_length=1100), Text] | None = Field(
        default=None, description="Go on behind this path; copied from an answer's next_request."
    )


class ListedFile(Model):
    """A file that can be read."""

    path: str = Field(description="Send it to file_read_bulk as it is.")
    source: Literal["agent", "workspace"] = Field(
        description="The root that has it; the agent's comes first."
    )
    size_bytes: int = Field(description="Size in bytes.")
    modified_at: str = Field(description="Last modification, RFC 3339 UTC.")


class FileListAnswer(Model):
    """Answer of `file_list`."""

    files: list[ListedFile] = Field(description="The files that match, sorted by path.")
    has_more: bool = Field(description="Whether there may be more; send next_request for them.")
    next_request: dict[str, Any] | None = Field(
        default=None, description="The arguments for what follows."
    )
    skipped: int = Field(
        default=0,
        description="Folders that may not be read or hold over 100000 entries, and names that no path can carry.",
    )
    skipped_folders: list[str] | None = Field(default=None, description="Some of those folders.")
