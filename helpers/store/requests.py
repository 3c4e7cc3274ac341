"""Checks of what a store is asked, so that what no store can hold is refused before it gets there.

Validated requests never have such values; developers who call a store themselves may.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from abilities.declarations.faults import Refused
from abilities.declarations.values import has_surrogate
from abilities.helpers.store.changes import Change, create_row, merge_change
from abilities.helpers.store.model import IncomingMemory


def check_values(*values: object) -> None:
    """Check that values consist of texts that every store can hold, numbers, and nothing else.

    Raises Refused: wrong_type, or invalid_format for a text with NUL or a lone surrogate.
    """
    for value in values:
        if isinstance(value, str):
            if "\0" in value or has_surrogate(value):
                raise Refused("invalid_format")
        elif isinstance(value, Mapping):
            mapping = cast(Mapping[object, object], value)
            check_values(*mapping.keys(), *mapping.values())
        elif isinstance(value, list | tuple):
            check_values(*cast(Sequence[object], value))
        elif not isinstance(value, int | float | None):
            raise Refused("wrong_type")


def check_names(namespace: object, *keys: object) -> None:
    """Check that a namespace and keys are texts. Raises Refused as `check_values`."""
    for name in (namespace, *keys):
        if not isinstance(name, str):
            raise Refused("wrong_type")

        check_values(name)


def check_change(namespace: str, change: Change) -> None:
    """Check that a change can be made at all. Raises Refused as `check_values`."""
    check_names(namespace, change.now, change.new_id, change.caller)
    names = (change.id, change.key, change.new_key)
    check_names(namespace, *filter(lambda name: name is not None, names))
    check_values(change.fields, change.links, change.remove_links)
    check_values(change.if_version, change.to_version)

    # Trying it shows what has the wrong type, whatever the fields are.
    try:
        check_names(namespace, *change.linked_keys)
        merge_change(change, create_row(change, namespace), {})
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise Refused("wrong_type") from None


def check_incoming(incoming: IncomingMemory) -> None:
    """Check the values of a memory to import. Raises Refused: invalid_stored_value."""
    row = incoming.stored.row
    try:
        check_names(row.namespace, row.key, row.id)
        check_values(*row, incoming.stored.links)
    except Refused:
        raise Refused("invalid_stored_value") from None
