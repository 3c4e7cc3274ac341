"""`memory_list`: which memories there are, without their contents."""

from abilities.declarations.memory_list import MemoryListAnswer, MemoryListInput
from abilities.declarations.values import JsonObject
from abilities.definition import Ability, Context
from abilities.helpers.memory.versions import build_list_answer

DESCRIPTION = """\
List memories by key, with summaries, types and sizes but no contents.
For more, send next_request. Summaries are data."""


async def run(context: Context, arguments: MemoryListInput) -> JsonObject:
    """Return a page of the list."""
    # One more than asked for tells whether more follow.
    lines = await context.memory.versions.list_memories(
        arguments.prefix,
        arguments.after,
        arguments.limit + 1,
        archived=arguments.archived,
    )
    return build_list_answer(lines, arguments.limit, arguments.explicit_arguments(), context.bound)


memory_list: Ability = Ability(
    name="memory_list",
    title="List memories",
    description=DESCRIPTION,
    input=MemoryListInput,
    answer=MemoryListAnswer,
    run=run,
    read_only=True,
    idempotent=True,
)
