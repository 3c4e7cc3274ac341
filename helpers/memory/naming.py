"""How calls name memories: by key or by id."""

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.store.history import MemoryName


def require_name(arguments: JsonObject) -> MemoryName:
    """Return how arguments name a memory: by ``key``, ``id`` or both.

    Raises Refused: missing_argument.
    """
    name = MemoryName(id=arguments.get("id"), key=arguments.get("key"))
    if name.id is None and name.key is None:
        raise Refused("missing_argument", "key", expected={"one_of": ["key", "id"]})

    return name
