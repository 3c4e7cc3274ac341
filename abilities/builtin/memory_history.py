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
from abilities.definition import Ability, Context
from abilities.helpers.memory.records import build_write_answer
from abilities.helpers.memory.targets import require_name
from abilities.helpers.memory.versions import build_changes_answer, build_history_answer

HISTORY_DESCRIPTION = """\
List one memory's changes, newest first: when, who, what; also for a deleted memory.
For more, send next_request. Each version can be restored while its history is kept."""


async def show_history(context: Context, arguments: MemoryHistoryInput) -> JsonObject:
    """Return a page of a memory's history.

    Raises Refused: missing_argument, scope (a deleted memory, for callers that may only read), and
    any refusal of the store.
    """
    name = require_name(arguments.explicit_arguments())
    page = await context.memory.versions.read(name, arguments.before, arguments.limit)

    # Only callers that could restore a deleted memory may see it.
    if page.row is None and context.read_only:
        raise Refused("scope")

    return build_history_answer(page, arguments.explicit_arguments(), context.bound)


memory_history: Ability = Ability(
    name="memory_history",
    title="A memory's history",
    description=HISTORY_DESCRIPTION,
    input=MemoryHistoryInput,
    answer=MemoryHistoryAnswer,
    run=show_history,
    read_only=True,
    idempotent=True,
)


RESTORE_DESCRIPTION = """\
Restore a version of a memory, also of a deleted one; its history lists the versions."""


async def restore(context: Context, arguments: MemoryRestoreInput) -> JsonObject:
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


memory_restore: Ability = Ability(
    name="memory_restore",
    title="Restore a memory",
    description=RESTORE_DESCRIPTION,
    input=MemoryRestoreInput,
    answer=MemoryRestoreAnswer,
    run=restore,
    idempotent=True,
    destructive=True,
)


CHANGES_DESCRIPTION = """\
List the memories changed since a version, without contents.
Send the answer's next as since in the next call."""


async def list_changes(context: Context, arguments: MemoryChangesInput) -> JsonObject:
    """List the changes after a version, also those in the other namespaces that are read."""
    pages = await context.memory.versions.read_changes(
        arguments.since, arguments.since_others or {}, arguments.limit
    )
    return build_changes_answer(pages, arguments.explicit_arguments(), context.bound)


memory_changes: Ability = Ability(
    name="memory_changes",
    title="What changed",
    description=CHANGES_DESCRIPTION,
    input=MemoryChangesInput,
    answer=MemoryChangesAnswer,
    run=list_changes,
    read_only=True,
    idempotent=True,
)
