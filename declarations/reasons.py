"""The closed set of reasons why something could not be answered, each with its code and sentence.

A reason decides everything else about a fault: its code, its sentence, and whether the same request
may succeed later. Nothing outside this table ever reaches a caller. The sentences of wrong
arguments are the general ones; `mistakes` makes them precise if the rule is known.
"""

from typing import Literal, NamedTuple

Code = Literal[
    "INVALID_INPUT",
    "NOT_FOUND",
    "STORAGE_ERROR",
    "PERMISSION_ERROR",
    "CORRUPTED_DATA",
    "LIMIT_EXCEEDED",
    "INTERNAL_ERROR",
]

Reason = Literal[
    "not_a_string",
    "empty_path",
    "absolute_path",
    "parent_traversal",
    "backslash",
    "drive_path",
    "control_character",
    "invalid_unicode",
    "path_too_long",
    "path_too_deep",
    "trailing_slash",
    "is_directory",
    "binary_file",
    "invalid_range",
    "changed",
    "memories_changed",
    "invalid_target",
    "invalid_item",
    "invalid_date",
    "invalid_key",
    "date_not_allowed",
    "missing_argument",
    "unknown_argument",
    "repeated_argument",
    "wrong_type",
    "out_of_range",
    "too_long",
    "too_short",
    "too_many",
    "too_few",
    "not_one_of",
    "invalid_format",
    "invalid_pattern",
    "malformed_request",
    "unknown_address",
    "foreign_host",
    "foreign_origin",
    "unauthorized",
    "scope",
    "overloaded",
    "unknown_ability",
    "disabled",
    "not_found",
    "no_workspace",
    "dangling_link",
    "memory_file_not_found",
    "symlink_escape",
    "symlink_loop",
    "symlink_refused",
    "denied",
    "not_regular_file",
    "access_denied",
    "hard_link",
    "memory_not_found",
    "id_not_found",
    "invalid_id",
    "key_taken",
    "version_conflict",
    "version_not_found",
    "rolled_back",
    "purged",
    "read_only",
    "storage_denied",
    "storage_missing",
    "checksum_mismatch",
    "invalid_stored_value",
    "corrupted",
    "response_budget",
    "response_too_large",
    "storage_quota",
    "range_too_far",
    "resource_exhausted",
    "io_error",
    "timeout",
    "root_unavailable",
    "unavailable",
    "busy",
    "storage_full",
    "storage_error",
    "storage_moved",
    "schema_too_new",
    "schema_too_old",
    "schema_unpublished",
    "internal",
]
"""Every cause that a caller can be told of; the type checker holds each refusal against it."""


class Meaning(NamedTuple):
    """What a reason stands for: its code, and one sentence of at most 120 characters.

    ``lasting`` marks a STORAGE_ERROR that no later attempt gets past: somebody must mend it first.
    """

    code: Code
    message: str
    lasting: bool = False

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code == "STORAGE_ERROR" and not self.lasting


FAULTS: dict[Reason, Meaning] = {
    "not_a_string": Meaning("INVALID_INPUT", "Path must be a string."),
    "empty_path": Meaning("INVALID_INPUT", "Path is empty."),
    "absolute_path": Meaning("INVALID_INPUT", "Use a path relative to the workspace."),
    "parent_traversal": Meaning("INVALID_INPUT", "Path must not contain '..' components."),
    "backslash": Meaning("INVALID_INPUT", "Use '/' as the separator."),
    "drive_path": Meaning("INVALID_INPUT", "Drive letters are not allowed."),
    "control_character": Meaning("INVALID_INPUT", "Path contains a control character."),
    "invalid_unicode": Meaning("INVALID_INPUT", "Path is not valid Unicode."),
    "path_too_long": Meaning(
        "INVALID_INPUT",
        "Path is too long: at most 1,024 characters, and 255 bytes per component.",
    ),
    "path_too_deep": Meaning("INVALID_INPUT", "Path has more than 32 components."),
    "trailing_slash": Meaning("INVALID_INPUT", "Path must name a file."),
    "is_directory": Meaning("INVALID_INPUT", "Path is a directory."),
    "binary_file": Meaning("INVALID_INPUT", "File is not text."),
    "invalid_range": Meaning("INVALID_INPUT", "The range or resume point is not valid here."),
    "changed": Meaning("INVALID_INPUT", "The file changed; read it again from the start."),
    "memories_changed": Meaning(
        "INVALID_INPUT",
        "The memories or notes changed; ask again without 'after'.",
    ),
    "invalid_target": Meaning(
        "INVALID_INPUT",
        "The target's type must be long_term, short_term or stored.",
    ),
    "invalid_item": Meaning(
        "INVALID_INPUT",
        "An item is a path, or an object with one of file, glob, search, note, memory or recall.",
    ),
    "invalid_date": Meaning("INVALID_INPUT", "date must be YYYY-MM-DD."),
    "invalid_key": Meaning(
        "INVALID_INPUT",
        "key must be 1 to 200 printable characters, with no space at either end.",
    ),
    "date_not_allowed": Meaning("INVALID_INPUT", "long_term takes no date."),
    "missing_argument": Meaning("INVALID_INPUT", "An argument is missing."),
    "unknown_argument": Meaning("INVALID_INPUT", "There is no such argument."),
    "repeated_argument": Meaning("INVALID_INPUT", "An argument is given twice; send it once."),
    "wrong_type": Meaning("INVALID_INPUT", "The value has the wrong type."),
    "out_of_range": Meaning("INVALID_INPUT", "The value is outside its range."),
    "too_long": Meaning("INVALID_INPUT", "The value is too long."),
    "too_short": Meaning("INVALID_INPUT", "The value is too short."),
    "too_many": Meaning("INVALID_INPUT", "There are too many items."),
    "too_few": Meaning("INVALID_INPUT", "There are too few items."),
    "not_one_of": Meaning("INVALID_INPUT", "The value is not one of those allowed."),
    "invalid_format": Meaning("INVALID_INPUT", "The value does not have the required form."),
    "invalid_pattern": Meaning(
        "INVALID_INPUT",
        "The pattern must be RE2 syntax and not too large: no look-around, no back-references.",
    ),
    "malformed_request": Meaning(
        "INVALID_INPUT",
        "Send a JSON object with Content-Type: application/json, within the size and time limits.",
    ),
    "unknown_address": Meaning(
        "NOT_FOUND",
        "There is nothing at this address for this method; MCP is at /mcp, and /docs has the rest.",
    ),
    "foreign_host": Meaning(
        "PERMISSION_ERROR",
        "This server does not answer to that host name; the setting allowed_hosts adds names.",
    ),
    "foreign_origin": Meaning("PERMISSION_ERROR", "Pages of other sites may not call this server."),
    "unauthorized": Meaning(
        "PERMISSION_ERROR",
        "A valid token is needed: send 'Authorization: Bearer TOKEN'.",
    ),
    "scope": Meaning(
        "PERMISSION_ERROR",
        "The scope does not allow that: 'read' changes nothing, 'write' does not purge.",
    ),
    "overloaded": Meaning("LIMIT_EXCEEDED", "Too many calls at the same time; try again."),
    "unknown_ability": Meaning("INVALID_INPUT", "No ability has this name."),
    "disabled": Meaning("PERMISSION_ERROR", "This ability is disabled here."),
    "not_found": Meaning("NOT_FOUND", "No such file in the agent directory or workspace."),
    "no_workspace": Meaning(
        "NOT_FOUND",
        "No workspace is set; start in a project folder or set workspace_dir.",
    ),
    "dangling_link": Meaning("NOT_FOUND", "The link leads to no file."),
    "memory_file_not_found": Meaning("NOT_FOUND", "No memory file for this target."),
    "symlink_escape": Meaning("PERMISSION_ERROR", "The link leads outside its root."),
    "symlink_loop": Meaning("PERMISSION_ERROR", "The links form a loop."),
    "symlink_refused": Meaning("PERMISSION_ERROR", "Symbolic links are not followed here."),
    "denied": Meaning("PERMISSION_ERROR", "This file is not shared with agents."),
    "not_regular_file": Meaning("PERMISSION_ERROR", "Not a regular file."),
    "access_denied": Meaning("PERMISSION_ERROR", "File is not readable."),
    "hard_link": Meaning("PERMISSION_ERROR", "Files with more than one name are not shared here."),
    "memory_not_found": Meaning("NOT_FOUND", "No memory with this key."),
    "id_not_found": Meaning("NOT_FOUND", "No memory with this id."),
    "invalid_id": Meaning(
        "INVALID_INPUT",
        "id must be a lower-case version 4 UUID, exactly as a memory's id is shown.",
    ),
    "key_taken": Meaning("INVALID_INPUT", "The id and the key name different memories."),
    "version_conflict": Meaning("INVALID_INPUT", "The memory changed; read it again."),
    "version_not_found": Meaning("NOT_FOUND", "The history of this memory has no such version."),
    "rolled_back": Meaning(
        "INVALID_INPUT", "Another operation of this call failed, so none of them was made."
    ),
    "purged": Meaning("INVALID_INPUT", "A memory with this id was purged; it is not revived."),
    "read_only": Meaning(
        "PERMISSION_ERROR",
        "Storage is read-only; memories can be read but not changed.",
    ),
    "storage_denied": Meaning(
        "PERMISSION_ERROR",
        "The memory store does not let this service in, or lacks rights that it needs.",
    ),
    "storage_missing": Meaning(
        "STORAGE_ERROR",
        "The database that store_url names does not exist.",
        lasting=True,
    ),
    "checksum_mismatch": Meaning(
        "CORRUPTED_DATA",
        "The stored memory does not match its checksum.",
    ),
    "invalid_stored_value": Meaning(
        "CORRUPTED_DATA",
        "The stored memory contains an invalid value.",
    ),
    "corrupted": Meaning(
        "CORRUPTED_DATA",
        "The store is damaged and was left untouched. Restore a backup.",
    ),
    "response_budget": Meaning(
        "LIMIT_EXCEEDED",
        "No room left in this response; the next request fetches this item.",
    ),
    "response_too_large": Meaning(
        "LIMIT_EXCEEDED",
        "The answer exceeds the response limit; ask for less.",
    ),
    "storage_quota": Meaning(
        "LIMIT_EXCEEDED",
        "The memory limit is reached; delete memories that are not needed.",
    ),
    "range_too_far": Meaning(
        "LIMIT_EXCEEDED",
        "The lines lie beyond the first or last 64 MiB; use #byte= to go there.",
    ),
    "resource_exhausted": Meaning("STORAGE_ERROR", "The system is short of resources; try again."),
    "io_error": Meaning("STORAGE_ERROR", "The file could not be read."),
    "timeout": Meaning("STORAGE_ERROR", "Reading took too long; try again."),
    "root_unavailable": Meaning(
        "STORAGE_ERROR",
        "The directory that holds this file is not available.",
    ),
    "unavailable": Meaning("STORAGE_ERROR", "The memory store is not available."),
    "busy": Meaning("STORAGE_ERROR", "Storage is busy; try again."),
    "storage_full": Meaning("STORAGE_ERROR", "Storage is full; nothing was changed."),
    "storage_error": Meaning("STORAGE_ERROR", "Storage could not be read or written."),
    "storage_moved": Meaning(
        "STORAGE_ERROR",
        "The store was moved or deleted; nothing was changed.",
        lasting=True,
    ),
    "schema_too_new": Meaning(
        "STORAGE_ERROR",
        "The store was written by a newer version; nothing was changed.",
        lasting=True,
    ),
    "schema_too_old": Meaning(
        "PERMISSION_ERROR",
        "The store is of an older version, and may not be changed here to bring it forward.",
    ),
    "schema_unpublished": Meaning(
        "STORAGE_ERROR",
        "The store was made before the first published version, which does not read it.",
        lasting=True,
    ),
    "internal": Meaning("INTERNAL_ERROR", "Unexpected error."),
}

SHOWN_REASONS: dict[Reason, Reason] = {
    "memories_changed": "changed",
    "memory_file_not_found": "not_found",
    "memory_not_found": "not_found",
    "id_not_found": "not_found",
    "storage_error": "io_error",
}
"""The reason that callers see instead, for causes with a sentence but no reason of their own."""
