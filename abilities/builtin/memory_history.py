"""`memory_history`, `memory_restore` and `memory_changes`: past versions, and how to undo."""

from abilities.declarations.memory_history import (
    MemoryChangesAnswer,
    MemoryChangesInput,
    MemoryHistoryAnswer,
    MemoryHistoryInput,
    MemoryRestoreAnswer,
    MemoryRestoreInput,
)
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.definition import Context, built_in
from abilities.helpers.memory.answers import build_changes_answer, build_history_answer
from abilities.helpers.memory.records import build_write_answer
from abilities.helpers.memory.targets import require_name

HISTORY_DESCRIPTION = """\
List one memory's changes, newest first: when, who, what; also for a deleted memory.
For more, send next_request. Each version can be restored while its history is kept."""


@built_in(
    "A memory's history", HISTORY_DESCRIPTION, MemoryHistoryAnswer, read_only=True, idempotent=True
)
async def memory_history(context: Context, arguments: MemoryHistoryInput) -> JsonObject:
    """Return a page of a memory's history.

    Raises Refused: missing_argument, scope (a deleted memory, for callers that may only read), and
    any refusal of the store.
    """
    name = require_name(arguments.explicit_arguments())
    page = await context.memory.reader.read_history(name, arguments.before, arguments.limit)

    # Only callers that could restore a deleted memory may see it.
    if page.row is None and context.read_only:
        raise Refused("scope")

    return build_history_answer(page, arguments.explicit_arguments(), context.bound)


RESTORE_DESCRIPTION = """\
Restore a version of a memory, also of a deleted one; its history lists the versions."""


@built_in(
    "Restore a memory", RESTORE_DESCRIPTION, MemoryRestoreAnswer, idempotent=True, destructive=True
)
async def memory_restore(context: Context, arguments: MemoryRestoreInput) -> JsonObject:
    """Restore a version of a memory."""
    given = arguments.explicit_arguments()
    require_name(given)
    result = await context.memory.change("restore", given)
    assert result.stored is not None  # it is None after a deletion only

    envelope: JsonObject = {
        "id": result.stored.row.id,
        "updated_fields": list(result.updated),
        "memory": {},
    }
    detail = arguments.detail or context.detail
    return build_write_answer(result, envelope, context.bound, detail)


CHANGES_DESCRIPTION = """\
List the memories changed since a version, without contents.
Send the answer's next as since in the next call."""


@built_in("What changed", CHANGES_DESCRIPTION, MemoryChangesAnswer, read_only=True, idempotent=True)
async def memory_changes(context: Context, arguments: MemoryChangesInput) -> JsonObject:
    """List the changes after a version, also those in the other namespaces that are read."""
    pages = await context.memory.reader.read_changes(
        arguments.since, arguments.since_others or {}, arguments.limit
    )
    return build_changes_answer(pages, arguments.explicit_arguments(), context.bound)
