"""What a store must know of the past: every state that a memory ever had, as plain copies."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from abilities.declarations.values import JsonObject
from abilities.helpers.store.changes import Change
from tests.support import law_model

OwnLinks = dict[tuple[str, str], law_model.LinkValue]
"""The links of a memory by target and type."""


class State(NamedTuple):
    """A memory with its links, at some time."""

    memory: law_model.MemoryModel
    links: OwnLinks


class Event(NamedTuple):
    """What a change did to a memory; ``after`` is None if it deleted it."""

    version: int
    id: str
    key: str
    previous: int
    action: str
    made_at: str
    caller: str
    after: State | None


class Told(NamedTuple):
    """What a change tells of its memory: its version then, and for some kinds what it did."""

    version: int
    created: bool = False
    updated: frozenset[str] = frozenset()
    replaced: int = 0


class PastModel:
    """The memories of a namespace, and all that they ever were."""

    def __init__(self) -> None:
        self.present = law_model.NamespaceModel()
        self.events: list[Event] = []
        self.oldest: dict[str, State] = {}
        self.purged: set[str] = set()

    def copy(self) -> "PastModel":
        copied = copy(self)
        copied.present = self.present.copy()
        copied.events = list(self.events)
        copied.oldest = dict(self.oldest)
        copied.purged = set(self.purged)
        return copied

    def take(self, other: "PastModel") -> None:
        self.present, self.events = other.present, other.events
        self.oldest, self.purged = other.oldest, other.purged

    def expire(self, now: str) -> None:
        """Archive what is past its end, as every read and change does first."""
        due: list[tuple[str, str]] = []
        for memory in self.present.memories.values():
            if memory.expires_at and not memory.archived and memory.expires_at <= now:
                due.append((memory.expires_at, memory.id))
        for _, memory_id in sorted(due):
            self._make(Change("expire", now, id=memory_id, caller="expiry"))

    def apply(self, changes: Sequence[Change], *, atomic: bool) -> list[Told | str]:
        """Make changes; return what each one tells, or why it was refused."""
        outcomes: list[Told | str] = []
        before = self.copy()

        for number, change in enumerate(changes):
            attempt = self.copy()
            try:
                outcomes.append(attempt._make(change))
                self.take(attempt)
            except law_model.Refusal as refusal:
                outcomes.append(str(refusal))
                if atomic:
                    self.take(before)
                    alone = ["rolled_back"] * len(changes)
                    return [*alone[:number], str(refusal), *alone[number + 1 :]]
        return outcomes

    def forget(self) -> None:
        """Forget all that was, except for the states that are there now."""
        self.events.clear()
        self.oldest = _get_states(self.present)

    def is_known(self, memory_id: str) -> bool:
        return self.get_present(memory_id) is not None or bool(self.list_events(memory_id))

    def find_id(self, key: str) -> str | None:
        """Return the id that a key names: of a memory that is there, or that last had the key."""
        memory = self.present.memories.get(key)
        if memory is not None:
            return memory.id
        for event in reversed(self.events):
            if event.key == key and event.action in ("deleted", "renamed"):
                return event.id
        return None

    def get_present(self, memory_id: str) -> State | None:
        return _get_states(self.present).get(memory_id)

    def list_events(self, memory_id: str) -> list[Event]:
        return [event for event in reversed(self.events) if event.id == memory_id]

    def find_version(self, memory_id: str, version: int) -> State | None:
        present = self.get_present(memory_id)
        if present is not None and present.memory.version == version:
            return present
        for event in self.list_events(memory_id):
            if event.after is not None and event.after.memory.version == version:
                return event.after
        oldest = self.oldest.get(memory_id)
        return oldest if oldest is not None and oldest.memory.version == version else None

    def _find_before_last_change(self, memory_id: str) -> State | None:
        events = self.list_events(memory_id)
        for place, event in enumerate(events):
            if event.action != "relinked":
                earlier = events[place + 1 : place + 2]
                return earlier[0].after if earlier else self.oldest.get(memory_id)
        return None

    def find_at(self, memory_id: str, time: str) -> State | None:
        found = self.oldest.get(memory_id)
        for event in self.list_events(memory_id):
            if event.made_at <= time:
                found = event.after
                break
        return None if found is None or found.memory.updated_at > time else found

    def _make(self, change: Change) -> Told:
        """Make one change; return what it tells. Raises Refusal."""
        before = _get_states(self.present)
        memory = self._find_named(change)
        if memory is None and change.kind != "store" and not self._is_past(change):
            raise law_model.Refusal("id_not_found" if change.id is not None else "memory_not_found")
        if change.if_version not in (None, 0 if memory is None else memory.version):
            raise law_model.Refusal("version_conflict")

        if change.kind in ("restore", "purge"):
            memory_id = change.id or self.find_id(change.key or "")
            assert memory_id is not None
            if change.kind == "purge":
                return Told(self._purge(memory_id, change))
            self._restore(memory_id, change)
            predicted: law_model.Predicted | None = None
        else:
            memory_id, predicted = self._change(memory, change)

        self._record(before, change)
        present = self.get_present(memory_id)
        version = self.present.version if present is None else present.memory.version
        if predicted is None:
            return Told(version)
        return Told(version, predicted.created, predicted.updated, predicted.replaced)

    def _find_named(self, change: Change) -> law_model.MemoryModel | None:
        by_key = self.present.memories.get(change.key) if change.key is not None else None
        if change.id is None:
            return by_key
        by_id = self.present.find(change.id)
        if by_id is not None and change.key not in (None, by_id.key):
            raise law_model.Refusal("key_taken")
        if by_id is None and change.kind == "store":
            raise law_model.Refusal("id_not_found")
        return by_id

    def _is_past(self, change: Change) -> bool:
        """Return whether a change is about a memory that was deleted, as some may be."""
        if change.kind not in ("restore", "purge"):
            return False
        memory_id = change.id or self.find_id(change.key or "")
        return memory_id in self.purged or any(event.id == memory_id for event in self.events)

    def _change(
        self, memory: law_model.MemoryModel | None, change: Change
    ) -> tuple[str, law_model.Predicted]:
        """Store, update, archive or delete; return the id and what became of the memory."""
        moment = law_model.Moment(change.now, change.new_id)
        arguments: JsonObject = {
            **change.fields,
            "links": change.links,
            "remove_links": change.remove_links,
        }
        if change.kind == "store":
            names = {"key": change.key} if memory is None else {"id": memory.id}
            predicted = self.present.store({**arguments, **names}, moment)
            assert predicted.memory is not None
            return predicted.memory.id, predicted

        assert memory is not None
        if change.kind == "supersede":
            named = (
                arguments if change.new_key is None else {**arguments, "new_key": change.new_key}
            )
            predicted = self.present.supersede(memory.key, named, moment)
            assert predicted.memory is not None
            return predicted.memory.id, predicted
        if change.kind == "delete":
            return memory.id, self.present.delete(memory.id)

        if change.kind == "append":
            arguments["content"] = memory.content + change.fields["content"]
            if len(arguments["content"]) > 200_000:
                raise law_model.Refusal("too_long")
        if change.kind in ("archive", "expire"):
            arguments["archived"] = True
        named = {**arguments, "id": memory.id, "key": change.new_key}
        return memory.id, self.present.update(named, moment)

    def _purge(self, memory_id: str, change: Change) -> int:
        if memory_id in self.purged:
            raise law_model.Refusal("id_not_found")

        memory = self.present.find(memory_id)
        if memory is not None and change.key not in (None, memory.key):
            raise law_model.Refusal(
                "memory_not_found"
            )  # a key that it no longer has must not destroy it
        if memory is None:
            self.present.version += 1
        else:
            self.present.delete(memory_id)

        forgotten = {memory_id, *self._list_deleted_alike(memory_id, memory)}
        self.events = [event for event in self.events if event.id not in forgotten]
        for forgotten_id in forgotten:
            self.oldest.pop(forgotten_id, None)
        self.purged |= forgotten
        return self.present.version

    def _list_deleted_alike(self, memory_id: str, memory: law_model.MemoryModel | None) -> set[str]:
        """Return what was deleted under the last key of a memory, unless another one has it now."""
        if memory is not None:
            key = memory.key
        else:
            key = [event.key for event in self.events if event.id == memory_id][-1]
            if key in self.present.memories:
                return set()
        deleted = [event for event in self.events if (event.action, event.key) == ("deleted", key)]
        return {event.id for event in deleted if self.present.find(event.id) is None}

    def _restore(self, memory_id: str, change: Change) -> None:
        if memory_id in self.purged:
            raise law_model.Refusal("purged")

        if change.to_version is None:
            wanted = self._find_before_last_change(memory_id)
        else:
            wanted = self.find_version(memory_id, change.to_version)
        if wanted is None:
            raise law_model.Refusal("version_not_found")

        present = self.get_present(memory_id)
        key = wanted.memory.key if present is None else present.memory.key
        if present is None and key in self.present.memories:
            raise law_model.Refusal("key_taken")

        links = _move_links(wanted, key)
        latest = wanted.memory if present is None else present.memory
        memory = replace(
            wanted.memory, key=key, version=latest.version, updated_at=latest.updated_at
        )
        if not memory.archived and memory.expires_at <= change.now:
            memory.expires_at = ""
        if present == State(memory, links):
            return

        self.present.version += 1
        memory.version = self.present.version
        memory.updated_at = max(change.now, latest.updated_at)
        for name in self.present.list_links(key):
            del self.present.links[name]
        for (target, kind), value in links.items():
            self.present.links[law_model.LinkName(key, target, kind)] = value
        self.present.memories[key] = memory
        if change.to_version is None and present is not None:
            self._undo_superseding(present, change)

    def _undo_superseding(self, old: State, change: Change) -> None:
        """Undo the write of the memory that replaced another one, unless it has changed since."""
        events = {event.version: event for event in self.events if event.action != "relinked"}
        last = events.get(old.memory.version)
        written = events.get(old.memory.version - 1)
        if last is None or written is None or last.action != "superseded":
            return

        new = self.present.find(written.id)
        if new is None or (new.key, "replaced_by") not in old.links:
            return
        if new.version != written.version or written.made_at != last.made_at:
            return
        if written.previous:
            self._restore(new.id, change)
        else:
            self.present.delete(new.id)

    def _record(self, before: dict[str, State], change: Change) -> None:
        after = _get_states(self.present)
        for memory_id in before.keys() | after.keys():
            old, new = before.get(memory_id), after.get(memory_id)
            if old != new:
                version = self.present.version
                if new is not None and (old is None or new.memory.version != old.memory.version):
                    version = new.memory.version
                self.events.append(
                    Event(
                        version,
                        memory_id,
                        (old or new).memory.key,  # type: ignore[union-attr]
                        0 if old is None else old.memory.version,
                        _name_action(change, old, new),
                        change.now,
                        change.caller,
                        new,
                    )
                )
        self.events.sort(key=lambda event: event.version)


def _name_action(change: Change, old: State | None, new: State | None) -> str:
    if new is None:
        return "deleted"
    if old is not None and old.memory.version == new.memory.version:
        return "relinked"
    if change.kind == "restore":
        return "restored"
    if old is None:
        return "created"
    if change.kind == "expire":
        return "expired"
    if change.kind == "supersede" and new.memory.archived:
        return "superseded"
    if old.memory.key != new.memory.key:
        return "renamed"
    if old.memory.archived != new.memory.archived:
        return "archived" if new.memory.archived else "revived"
    return "changed"


def _move_links(state: State, key: str) -> OwnLinks:
    """Return the links of a memory that gets a key.

    Of two that become one, the heavier stays, or the first one by its target.
    """
    old_key = state.memory.key
    links: OwnLinks = {}
    for target, kind in sorted(state.links):
        value = state.links[target, kind]
        name = (key if target == old_key else target, kind)
        if name not in links or links[name].weight < value.weight:
            links[name] = value
    return links


def _get_states(namespace: law_model.NamespaceModel) -> dict[str, State]:
    links: dict[str, OwnLinks] = {key: {} for key in namespace.memories}
    for name, value in namespace.links.items():
        links[name.source][name.target, name.type] = value
    return {memory.id: State(memory, links[key]) for key, memory in namespace.memories.items()}
