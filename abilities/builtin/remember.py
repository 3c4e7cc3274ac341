"""`remember`: many writes in one call."""

from typing import cast

from abilities.declarations.faults import Refused
from abilities.declarations.limits import MAX_CONTENT_CHARS, MAX_OPERATIONS_BYTES
from abilities.declarations.mistakes import MAX_MISTAKES, Mistake, explain_unknown
from abilities.declarations.remember import (
    OPERATION_FIELDS,
    OPERATION_SCHEMA,
    Operation,
    OperationName,
    RememberAnswer,
    RememberInput,
)
from abilities.declarations.rules import build_rule
from abilities.declarations.suggestions import suggest_argument
from abilities.declarations.values import JsonObject, parse_json
from abilities.definition import Ability, Context
from abilities.helpers.memory.remember_answers import build_remember_answer
from abilities.helpers.memory.writer import Write
from abilities.helpers.reply.items import format_item
from abilities.helpers.stores.changes import Kind
from abilities.validation import validate_arguments

DESCRIPTION = """\
Store and change up to 50 memories in one call; use it whenever you have more than one thing to \
remember.
Each operation has an 'op': store (type, content, and a key that you will remember), update, \
append (content, at the end), link ('links'), unlink ('remove_links'), rename ('to'), archive, \
delete. All but store need the memory's 'key' or 'id'. They are made in order, and one that fails \
leaves the others alone; with 'atomic': true all are made or none. 'if_version' makes one only if \
nobody changed the memory since you read it.
With a key, a content may be longer than 5000 characters; memory_get with 'whole': true reads it \
back. The answer has one short record per operation."""

_KINDS: dict[str, Kind] = {
    "store": "store",
    "update": "update",
    "append": "append",
    "link": "update",
    "unlink": "update",
    "rename": "update",
    "archive": "archive",
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
    if isinstance(sent, str):
        sent = _read_json(sent)
    if not isinstance(sent, dict):
        raise Refused("wrong_type", "operation", expected={"type": "object"})

    operation = validate_arguments(Operation, cast(object, sent))
    given = operation.explicit_arguments()
    mistakes = _find_mistakes(operation.op, given)
    if mistakes:
        raise Refused.from_mistakes(mistakes)

    # Further parts of a content have keys of their own, made of the first one's.
    if "key" not in given and len(operation.content or "") > MAX_CONTENT_CHARS:
        raise Refused("too_long", "content", expected={"max_length": MAX_CONTENT_CHARS})

    kind: Kind = _KINDS.get(operation.op, "archive")
    if operation.permanent:
        kind = "delete"

    return Write(kind, given)


def _read_json(text: str) -> object:
    """Return what a string of JSON holds; any other string as it is."""
    # Some clients encode nested arguments twice.
    try:
        return cast(object, parse_json(text))
    except ValueError:
        return text


def _find_mistakes(op: OperationName, given: JsonObject) -> list[Mistake]:
    """Return the fields that an operation lacks, and those that it does not take."""
    fields = OPERATION_FIELDS[op]
    names = ("op", *fields.required, *fields.optional, "if_version")
    offered: JsonObject = {name: OPERATION_SCHEMA["properties"][name] for name in names}

    unknown: list[Mistake] = []
    for name in given:
        if name not in offered:
            free = [other for other in names if other not in given]
            unknown.append(explain_unknown(name, offered, suggest_argument(name, free)))

    required = list(fields.required)
    if op != "store" and "key" not in given and "id" not in given:
        required.append("key")

    meant = {mistake.did_you_mean for mistake in unknown}
    missing: list[Mistake] = []
    for name in required:
        if name not in given and name not in meant:
            rule = build_rule(offered[name])
            missing.append(Mistake(field=name, reason="missing_argument", expected=rule))

    return [*missing, *unknown][:MAX_MISTAKES]


remember: Ability = Ability(
    name="remember",
    title="Store and change many memories",
    description=DESCRIPTION,
    input=RememberInput,
    answer=RememberAnswer,
    run=run,
    destructive=True,
)
