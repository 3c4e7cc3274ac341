"""Writing memories: changes made of the arguments of abilities, one or many in one call."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

from pydantic import BaseModel

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.memory.leftovers import Leftovers
from abilities.helpers.memory.remembering import Outcome, Remembering
from abilities.helpers.stores.changes import Change, ContinuedError, Kind
from abilities.helpers.stores.protocol import HistoryStore, WriteResult
from abilities.helpers.stores.timeline import MemoryName

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


class Write(NamedTuple):
    """One of the changes of a call: its kind, and the arguments as `Writer.change` takes them."""

    kind: Kind
    arguments: JsonObject


class Writer:
    """Changes the memories of one namespace; ``caller`` is who the history says made it."""

    def __init__(self, namespace: str, store: HistoryStore, caller: str) -> None:
        self._namespace = namespace
        self._store = store
        self._caller = caller
        self._remembering = Remembering(namespace, store)
        self._leftovers = Leftovers(namespace, store)

    async def change(self, kind: Kind, arguments: JsonObject) -> WriteResult:
        """Store, update, archive, delete or restore a memory. Raises Refused.

        Of ``arguments``, ``id`` and ``key`` name the memory, ``to`` is its new key, ``links`` and
        ``remove_links`` change its links, ``version`` is the one to restore, ``if_version`` the one
        that it must have, and the others are values. Only what is archived, deleted, renamed or
        restored takes the further parts of its content along.
        """
        change = _build_change(kind, arguments, self._caller)
        if kind == "restore":
            return await self._make_planned(change)
        if kind in ("archive", "delete") or change.new_key is not None:
            return await self._change_whole(change)

        return await self._store.change(self._namespace, change)

    async def remember(
        self, operations: Sequence[Write | Refused], *, atomic: bool
    ) -> list[Outcome]:
        """Make many changes, as `Remembering.run` does; contents may be longer than a memory.

        Raises Refused.
        """
        changes: list[Change | Refused] = []
        for operation in operations:
            if isinstance(operation, Refused):
                changes.append(operation)
            else:
                changes.append(_build_change(*operation, self._caller))

        return await self._remembering.run(changes, atomic=atomic)

    async def purge(self, name: MemoryName, if_version: int | None = None) -> WriteResult:
        """Delete a memory for good, with its history and all parts of its content.

        Raises Refused.
        """
        page = await self._store.read_history(self._namespace, name, None, 1)
        arguments: JsonObject = {"id": name.id, "key": name.key, "if_version": if_version}
        if page.row is not None:
            arguments.update(id=page.row.id, key=page.row.key)

        change = _build_change("purge", arguments, self._caller)
        if page.row is None and page.entries:
            # Of what was deleted, the store purges what is left; not what still exists.
            await self._leftovers.delete(page.entries[0].key, 2, change)
        return await self._change_whole(change)

    async def _change_whole(self, change: Change) -> WriteResult:
        try:
            return await self._store.change(self._namespace, replace(change, if_whole=True))
        except ContinuedError as error:
            return await self._make_planned(replace(change, key=error.key))

    async def _make_planned(self, change: Change) -> WriteResult:
        (outcome,) = await self._remembering.make_planned([change])
        if isinstance(outcome, Exception):
            raise outcome

        return outcome.result


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
