"""`remember`: many writes in one call."""

from abilities.declarations.limits import MAX_OPERATIONS_BYTES
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.remember import OPERATIONS, OperationName, RememberAnswer, RememberInput
from abilities.declarations.suggestions import suggest_value
from abilities.declarations.values import JsonObject, as_object, unwrap_json
from abilities.definition import Context, built_in, validate_arguments
from abilities.helpers.memory.answers import build_remember_answer
from abilities.helpers.memory.helper import Write
from abilities.helpers.memory.targets import require_name
from abilities.helpers.reply.envelope import format_item
from abilities.helpers.store.changes import Kind

DESCRIPTION = """\
Store or change many memories in one call, in order, each by itself.
store (type, content, a key you choose), update, append (content; a newline begins a new line), \
supersede (new_key, content: replaces and archives this one), link (links), unlink \
(remove_links), rename (to), archive, delete, restore (undoes the last change, or restores \
version, also if deleted): all but store need key or id. if_version: only if unchanged since \
then."""

_KINDS: dict[OperationName, Kind] = {
    "store": "store",
    "update": "update",
    "append": "append",
    "supersede": "supersede",
    "link": "update",
    "unlink": "update",
    "rename": "update",
    "archive": "archive",
    "delete": "archive",  # unless it is permanent
    "restore": "restore",
}


@built_in("Change memories", DESCRIPTION, RememberAnswer, destructive=True)
async def remember(context: Context, arguments: RememberInput) -> JsonObject:
    """Apply the operations; answer with one record per operation, in the same order.

    Raises Refused: too_long (all operations together), and any refusal of the store.
    """
    size = sum(len(format_item(operation).encode()) for operation in arguments.operations)
    if size > MAX_OPERATIONS_BYTES:
        raise Refused("too_long", "operations", expected={"max_bytes": MAX_OPERATIONS_BYTES})

    operations: list[Write | Refused] = []
    for sent in arguments.operations:
        try:
            operations.append(_parse_operation(sent))
        except Refused as error:
            operations.append(error)

    outcomes = await context.memory.remember(operations, atomic=arguments.atomic)
    stored = [
        outcome
        for operation, outcome in zip(operations, outcomes, strict=True)
        if isinstance(operation, Write)
        and operation.kind == "store"
        and not isinstance(outcome, Exception)
    ]
    similar = await context.memory.find_similar(stored)
    return build_remember_answer(arguments, operations, outcomes, similar, context.bound)


def _parse_operation(sent: object) -> Write:
    """Return the write of an operation. Raises Refused for a wrong one, as a call would."""
    fields = as_object(unwrap_json(sent))
    if fields is None:
        raise Refused("wrong_type", "operation", expected={"type": "object"})

    names: list[OperationName] = list(OPERATIONS)
    op: OperationName | None = fields.get("op")
    if op not in names:
        reason: Reason = "missing_argument" if op is None else "not_one_of"
        meant = suggest_value(op, names)
        raise Refused(reason, "op", expected={"one_of": names}, did_you_mean=meant)

    given = validate_arguments(OPERATIONS[op], fields).explicit_arguments()
    if op != "store":
        require_name(given)

    kind: Kind = _KINDS[op]
    if given.get("permanent"):
        kind = "delete"

    return Write(kind, given)
