"""Writing memories: changes made of the arguments of abilities, one or many in one call."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple
from uuid import uuid4

from pydantic import BaseModel

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.store.changes import Change, Kind
from abilities.helpers.store.protocol import MemoryStore, WriteResult

_NOT_VALUES = frozenset(
    {
        "op",
        "id",
        "key",
        "to",
        "links",
        "remove_links",
        "permanent",
        "purge",
        "version",
        "if_version",
        "atomic",
        "detail",
        "output_format",
    }
)
"""Arguments of a change that are not values of the memory itself."""


Outcome = WriteResult | Exception
"""What became of one of many changes."""


class Write(NamedTuple):
    """One of the changes of a call: its kind, and the arguments as `Writer.change` takes them."""

    kind: Kind
    arguments: JsonObject


class Writer:
    """Changes the memories of one namespace; ``caller`` is who the history says made it."""

    def __init__(self, namespace: str, store: MemoryStore, caller: str) -> None:
        self._namespace = namespace
        self._store = store
        self._caller = caller

    async def change(self, kind: Kind, arguments: JsonObject) -> WriteResult:
        """Store, update, archive, delete, restore or purge a memory. Raises Refused.

        Of ``arguments``, ``id`` and ``key`` name the memory, ``to`` is its new key, ``links`` and
        ``remove_links`` change its links, ``version`` is the one to restore, ``if_version`` the one
        that it must have, and the others are values.
        """
        change = _build_change(kind, arguments, self._caller)
        return await self._store.change(self._namespace, change)

    async def remember(
        self, operations: Sequence[Write | Refused], *, atomic: bool
    ) -> list[Outcome]:
        """Make many changes in one transaction, in their order; return one outcome each.

        In the place of an operation may stand its refusal. One that cannot be made leaves the
        others alone. If they are ``atomic``, all are made or none: then the others are refused as
        rolled_back. Raises Refused if the store cannot answer, and nothing was changed.
        """
        changes: list[Change] = []
        for operation in operations:
            if isinstance(operation, Write):
                changes.append(_build_change(*operation, self._caller))

        is_undone = atomic and len(changes) < len(operations)
        made: Iterator[Outcome] = repeat(Refused("rolled_back"))
        if not is_undone:
            made = iter(await self._store.change_many(self._namespace, changes, atomic=atomic))

        return [next(made) if isinstance(one, Write) else one for one in operations]


def _build_change(kind: Kind, arguments: JsonObject, caller: str) -> Change:
    """Return a change, with the id that it gives a new memory, and its time."""
    values = {name: value for name, value in arguments.items() if name not in _NOT_VALUES}

    # The id and the time are chosen here: a transaction that is tried again must do the same.
    return Change(
        kind,
        utc_now(),
        id=arguments.get("id"),
        key=arguments.get("key"),
        new_id=str(uuid4()),
        fields=values,
        links=_dump(arguments.get("links", ())),
        remove_links=_dump(arguments.get("remove_links", ())),
        new_key=arguments.get("to"),
        if_version=arguments.get("if_version"),
        to_version=arguments.get("version"),
        caller=caller,
    )


def _dump(links: Iterable[BaseModel]) -> list[JsonObject]:
    return [link.model_dump() for link in links]
