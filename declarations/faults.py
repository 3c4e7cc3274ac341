"""Why something could not be answered: the closed set of reasons, and the fault that a caller receives."""

from typing import Any, Literal, Self

from pydantic import (
    Field,
)

from abilities.declarations.model import Model

Code = Literal[
    "INVALID_INPUT",
    "NOT_FOUND",
    "STORAGE_ERROR",
    "PERMISSION_ERROR",
    "CORRUPTED_DATA",
    "LIMIT_EXCEEDED",
    "INTERNAL_ERROR",
]

FAULTS: dict[str, tuple[Code, str]] = {
    "not_a_string": ("INVALID_INPUT", "Path must be a string."),
    "empty_path": ("INVALID_INPUT", "Path is empty."),
    "absolute_path": ("INVALID_INPUT", "Use a path relative to the workspace."),
    "parent_traversal": ("INVALID_INPUT", "Path must not contain '..' components."),
    "backslash": ("INVALID_INPUT", "Use '/' as the separator."),
    "drive_path": ("INVALID_INPUT", "Drive letters are not allowed."),
    "control_character": ("INVALID_INPUT", "Path contains a control character."),
    "invalid_unicode": ("INVALID_INPUT", "Path is not valid Unicode."),
    "path_too_long": ("INVALID_INPUT", "Path is too long: at most 1,024 characters, 255 bytes a component."),
    "path_too_deep": ("INVALID_INPUT", "Path has more than 32 components."),
    "trailing_slash": ("INVALID_INPUT", "Path must name a file."),
    "is_directory": ("INVALID_INPUT", "Path is a directory."),
    "binary_file": ("INVALID_INPUT", "File is not text."),
    "invalid_range": ("INVALID_INPUT", "The range is not valid for this file."),
    "changed": ("INVALID_INPUT", "The file changed; read it again from the start."),
    "invalid_target": ("INVALID_INPUT", "The target's type must be long_term, short_term or stored."),
    "invalid_date": ("INVALID_INPUT", "date must be YYYY-MM-DD."),
    "invalid_key": ("INVALID_INPUT", "key must be 1 to 200 plain characters, no space at either end."),
    "out_of_range": ("INVALID_INPUT", "The value is outside its range."),
    "wrong_type": ("INVALID_INPUT", "The value has the wrong type."),
    "invalid_parameter": ("INVALID_INPUT", "An argument is missing, unknown or malformed; follow the input schema."),
    "malformed_request": ("INVALID_INPUT", "The request is no plain JSON object, too large or too slow."),
    "unknown_address": ("NOT_FOUND", "There is nothing at this address for this method."),
    "foreign_host": ("PERMISSION_ERROR", "This server is not addressed by that name."),
    "foreign_origin": ("PERMISSION_ERROR", "Pages of other sites may not call this server."),
    "unauthorized": ("PERMISSION_ERROR", "A valid token is needed: send 'Authorization: Bearer TOKEN'."),
    "scope": ("PERMISSION_ERROR", "This token may read; it may not change anything."),
    "overloaded": ("LIMIT_EXCEEDED", "Too many calls at the same time; try again."),
    "unknown_ability": ("INVALID_INPUT", "No ability has this name."),
    "not_found": ("NOT_FOUND", "No such file in the agent directory or workspace."),
    "memory_file_not_found": ("NOT_FOUND", "No memory file for this target."),
    "symlink_escape": ("PERMISSION_ERROR", "The link leads outside its root."),
    "symlink_loop": ("PERMISSION_ERROR", "The links lead in a circle."),
    "symlink_refused": ("PERMISSION_ERROR", "Symbolic links are not followed here."),
    "denied": ("PERMISSION_ERROR", "This file is not shared with agents."),
    "not_regular_file": ("PERMISSION_ERROR", "Not a regular file."),
    "access_denied": ("PERMISSION_ERROR", "File is not readable."),
    "hard_link": ("PERMISSION_ERROR", "Files with more than one name are not shared here."),
    "memory_not_found": ("NOT_FOUND", "No memory with this key."),
    "id_not_found": ("NOT_FOUND", "No memory with this id."),
    "invalid_id": ("INVALID_INPUT", "id must be a lower-case UUID of version 4, as a memory's id is shown."),
    "key_taken": ("INVALID_INPUT", "The id and the key name different memories."),
    "read_only": ("PERMISSION_ERROR", "Storage is read-only; memories can be read, not changed."),
    "undecodable": ("CORRUPTED_DATA", "Stored memory is damaged."),
    "checksum_mismatch": ("CORRUPTED_DATA", "The stored memory does not match its checksum."),
    "invalid_stored_value": ("CORRUPTED_DATA", "The stored memory holds a value that cannot be."),
    "corrupted": ("CORRUPTED_DATA", "The store is damaged; it is left untouched. Restore a copy of it."),
    "response_budget": ("LIMIT_EXCEEDED", "Response limit reached; request this item separately."),
    "response_too_large": ("LIMIT_EXCEEDED", "The answer is over the response limit; ask for less."),
    "storage_quota": ("LIMIT_EXCEEDED", "The memory limit is reached; delete memories that are not needed."),
    "range_too_far": ("LIMIT_EXCEEDED", "The lines lie beyond the first 64 MiB; use #byte= to go there."),
    "resource_exhausted": ("STORAGE_ERROR", "The system is short of resources; try again."),
    "io_error": ("STORAGE_ERROR", "The file could not be read."),
    "timeout": ("STORAGE_ERROR", "Reading took too long; try again."),
    "root_unavailable": ("STORAGE_ERROR", "The directory that holds this file is not available."),
    "unavailable": ("STORAGE_ERROR", "The memory store is not available."),
    "busy": ("STORAGE_ERROR", "Storage is busy; try again."),
    "storage_full": ("STORAGE_ERROR", "Storage is full; nothing was changed."),
    "storage_error": ("STORAGE_ERROR", "Storage could not be read or written."),
    "storage_moved": ("STORAGE_ERROR", "The store was moved or deleted; nothing was changed."),
    "schema_too_new": ("STORAGE_ERROR", "The store was written by a newer version; nothing was changed."),
    "internal": ("INTERNAL_ERROR", "Unexpected error."),
}
"""reason -> (code, the one sentence said about it, at most 120 characters)."""

SHARED_REASONS = {
    "memory_file_not_found": "not_found",
    "memory_not_found": "not_found",
    "id_not_found": "not_found",
    "storage_error": "io_error",
}
"""Sentences of their own for a reason that two kinds of item share."""


class Refused(Exception):
    """Something asked for cannot be had; ``reason`` is a key of `FAULTS`, the only thing a caller learns."""

    def __init__(self, reason: str, field: str | None = None) -> None:
        if reason not in FAULTS:
            raise ValueError(f"{reason!r} is no reason in FAULTS")
        super().__init__(reason)
        self.reason = reason
        self.field = field


class Fault(Model):
    """Why something could not be answered."""

    code: Code = Field(description="The kind of failure, one of seven.")
    reason: str = Field(description="The exact cause, from a closed set.")
    message: str = Field(description="One fixed sentence for the reason.")
    retryable: bool = Field(default=False, description="True when the same request may succeed later; default false.")
    field: str | None = Field(default=None, description="The argument at fault, for a wrong call.")
    ref: str | None = Field(default=None, description="For an internal error: the reference the log also has.")

    @classmethod
    def of(cls, reason: str, *, field: str | None = None, ref: str | None = None) -> Self:
        """The fault of a reason in `FAULTS`; a STORAGE_ERROR is retryable."""
        code, message = FAULTS[reason]
        return cls(
            code=code,
            reason=SHARED_REASONS.get(reason, reason),
            message=message,
            retryable=code == "STORAGE_ERROR",
            field=field,
            ref=ref,
        )

    def payload(self) -> dict[str, Any]:
        """The fault as JSON has it: fields at their default are left out."""
        return self.model_dump(exclude_defaults=True)
