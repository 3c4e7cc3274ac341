"""How calls name memories: by key or by id. The parts of a content go by its key."""

from collections.abc import Sequence
from dataclasses import replace

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.stores.changes import Change, ContinuedError
from abilities.helpers.stores.protocol import HistoryStore
from abilities.helpers.stores.timeline import MemoryName


def require_name(arguments: JsonObject) -> MemoryName:
    """Return how arguments name a memory: by ``key``, ``id`` or both.

    Raises Refused: missing_argument.
    """
    name = MemoryName(id=arguments.get("id"), key=arguments.get("key"))
    if name.id is None and name.key is None:
        raise Refused("missing_argument", "key", expected={"one_of": ["key", "id"]})

    return name


def name_changed(changes: Sequence[Change], error: ContinuedError) -> list[Change]:
    """Return changes in which the one that was not made alone names its memory's key."""
    named = list(changes)
    named[error.place] = replace(named[error.place], key=error.key)
    return named


async def resolve_ids(
    namespace: str, store: HistoryStore, changes: Sequence[Change]
) -> list[Change]:
    """Return changes in which those by id also have the keys that their memories have by then.

    Raises Refused if the store cannot answer. An id that no memory has stays alone.
    """
    keys: dict[str, str] = {}
    for change in changes:
        if change.key is None and change.id is not None and change.id not in keys:
            key = await _find_key(namespace, store, change.id)
            if key is not None:
                keys[change.id] = key

    named: list[Change] = []
    for change in changes:
        if change.key is None and change.id in keys:
            change = replace(change, key=keys[change.id])
        if change.key is not None and change.new_key is not None:
            renamed = [one for one in keys if keys[one] == change.key]
            keys.update(dict.fromkeys(renamed, change.new_key))
        named.append(change)

    return named


async def _find_key(namespace: str, store: HistoryStore, memory_id: str) -> str | None:
    try:
        history = await store.read_history(namespace, MemoryName(id=memory_id), None, 1)
    except Refused as error:
        if error.reason == "id_not_found":
            return None
        raise

    return history.row.key if history.row is not None else None
