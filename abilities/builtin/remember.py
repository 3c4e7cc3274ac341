"""`remember`: many writes in one call."""

from abilities.declarations.limits import MAX_OPERATIONS_BYTES
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.remember import (
    OPERATIONS,
    OperationName,
    RememberAnswer,
    RememberInput,
)
from abilities.declarations.suggestions import suggest_value
from abilities.declarations.values import JsonObject, as_object, unwrap_json
from abilities.definition import Ability, Context
from abilities.helpers.memory.answers import build_remember_answer
from abilities.helpers.memory.helper import Write
from abilities.helpers.memory.targets import require_name
from abilities.helpers.reply.envelope import format_item
from abilities.helpers.store.changes import Kind
from abilities.schemas import validate_arguments

DESCRIPTION = """\
Store or change many memories in one call, in order; a failed operation leaves the others alone.
store (type, content, a key that you choose), update, append (content, which begins with a newline \
unless it continues the last line), link (links), unlink (remove_links), rename (to), archive, \
delete, restore (undoes the last change, or brings back version, also if deleted): all but store \
need key or id. if_version: only if nobody changed it since."""

_KINDS: dict[OperationName, Kind] = {
    "store": "store",
    "update": "update",
    "append": "append",
    "link": "update",
    "unlink": "update",
    "rename": "update",
    "archive": "archive",
    "delete": "archive",  # unless it is permanent
    "restore": "restore",
}


async def run(context: Context, arguments: RememberInput) -> JsonObject:
    """Make the operations; answer with one record per operation, in the same order.

    Raises Refused: too_long (all operations together), and what the store refuses.
    """
    _check_size(arguments.operations)
    operations = [_try_to_parse(operation) for operation in arguments.operations]

    outcomes = await context.memory.writer.remember(operations, atomic=arguments.atomic)
    return build_remember_answer(arguments, operations, outcomes, context.bound)


def _check_size(operations: list[object]) -> None:
    """Raise Refused("too_long") for operations that are too large together."""
    size = sum(len(format_item(operation).encode()) for operation in operations)
    if size > MAX_OPERATIONS_BYTES:
        raise Refused("too_long", "operations", expected={"max_bytes": MAX_OPERATIONS_BYTES})


def _try_to_parse(sent: object) -> Write | Refused:
    try:
        return _parse_operation(sent)
    except Refused as error:
        return error


def _parse_operation(sent: object) -> Write:
    """Return an operation as it is made. Raises Refused for one that is wrong, as for a call."""
    fields = as_object(unwrap_json(sent))
    if fields is None:
        raise Refused("wrong_type", "operation", expected={"type": "object"})

    op = _parse_name(fields.get("op"))
    given = validate_arguments(OPERATIONS[op], fields).explicit_arguments()
    if op != "store":
        require_name(given)

    kind: Kind = _KINDS[op]
    if given.get("permanent"):
        kind = "delete"

    return Write(kind, given)


def _parse_name(name: object) -> OperationName:
    """Return which operation a name stands for. Raises Refused."""
    names: list[OperationName] = list(OPERATIONS)
    for known in names:
        if name == known:
            return known

    reason: Reason = "missing_argument" if name is None else "not_one_of"
    meant = suggest_value(name, names)
    raise Refused(reason, "op", expected={"one_of": names}, did_you_mean=meant)


remember: Ability = Ability(
    name="remember",
    title="Change memories",
    description=DESCRIPTION,
    input=RememberInput,
    answer=RememberAnswer,
    run=run,
    destructive=True,
)
