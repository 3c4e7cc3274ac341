"""`file_list`: its arguments and its answer."""

from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.declarations import fields, limits
from abilities.declarations.memory import Text
from abilities.declarations.values import Model, optional

_RELATIVE = r"^(?!/)(?!(.*/)?\.\.(/|$))"
"""No leading '/' and no '..' component."""

_PLAIN = r"[^\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+$"
"""No backslash, and no control character as `values.has_control_character` defines it."""

Position = Annotated[str, Field(max_length=limits.MAX_LIST_POSITION_CHARS), Text]


class FileListInput(fields.Arguments):
    """Arguments of `file_list`."""

    pattern: Annotated[str, Field(min_length=1, max_length=limits.MAX_PATH_CHARS)] = optional(
        "A glob of relative paths: '*' and '?' within a name, '**' any folders, '{a,b}' either.",
        "maxLength",
        default="**/*",
        extra={fields.EXACT: {"pattern": _RELATIVE + _PLAIN}},
    )
    limit: Annotated[int, Field(ge=1, le=limits.MAX_LISTED_FILES), fields.Integer] = optional(
        "Most files to return.", *fields.PAGE_SIZE, default=limits.DEFAULT_LISTED_FILES
    )
    after: Position | None = optional("From next_request.", "maxLength", "description")
    output_format: fields.UnofferedFormat = None
    detail: fields.OptionalDetail = None


class ListedFile(Model):
    """A file that can be read."""

    path: str = Field(description="Send it unchanged to read the file.")
    source: Literal["agent", "workspace"] = Field(
        description="The root of the file; the agent's comes first."
    )
    size_bytes: int = Field(description="Size in bytes.")
    modified_at: str = Field(description="Last modification, RFC 3339 UTC.")


class ConciseListedFile(Model):
    """The concise record of a file that can be read."""

    path: str = Field(description="Send it unchanged to read the file.")
    source: Literal["agent"] | None = optional(
        "agent for the agent directory, absent for the workspace."
    )
    size_bytes: int = Field(description="Size in bytes.")


class FileListAnswer(Model):
    """Answer of `file_list`."""

    files: list[ListedFile | ConciseListedFile] = Field(
        description="The matching files, sorted by path."
    )
    has_more: bool = Field(description="Whether there may be more; send next_request for them.")
    next_request: dict[str, Any] | None = optional("The arguments of the next call.")
    skipped: int = Field(
        default=0,
        description=(
            "Folders that may not be read, have over 100000 entries or are 32 folders deep, "
            "folders and files that do not respond, and names that no path can express."
        ),
    )
    skipped_folders: list[str] | None = optional("Some of those folders.")
