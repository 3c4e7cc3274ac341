"""What must be in a store after acknowledged changes: plain dictionaries, no code of a store.

A `NamespaceModel` predicts what a change, a rename and an import do to one namespace.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple

from abilities.declarations.refusals import FAULTS
from abilities.declarations.values import JsonObject

SCORES = {"high": 0.9, "medium": 0.6, "low": 0.3}
FIELDS = ("type", "content", "summary", "category", "importance", "tags", "about", "expires_at")


@dataclass
class MemoryModel:
    """One memory as it must be; its links stand in its namespace."""

    id: str
    key: str
    created_at: str
    updated_at: str
    type: str = ""
    content: str = ""
    summary: str = ""
    category: str = ""
    tags: list[str] = field(default_factory=list[str])
    about: list[str] = field(default_factory=list[str])
    importance: str = "medium"
    archived: bool = False
    score: float = SCORES["medium"]
    is_scored: bool = False
    metadata: JsonObject = field(default_factory=JsonObject)
    version: int = 0
    expires_at: str = ""


class LinkName(NamedTuple):
    """What tells a link from all others of its namespace."""

    source: str
    target: str
    type: str


class LinkValue(NamedTuple):
    """How strong a link is, and what it stands for."""

    weight: float
    term: str


class Refusal(Exception):
    """The change must be refused; its text is the reason that the caller sees.

    ``details`` are what a record of `remember` says of it.
    """

    def __init__(self, reason: str, **details: object) -> None:
        super().__init__(reason)
        self.details = details


class Predicted(NamedTuple):
    """What a change must answer: the memory, if it stays, and what became of it."""

    memory: MemoryModel | None
    created: bool = False
    updated: frozenset[str] = frozenset()
    replaced: int = 0


class Moment(NamedTuple):
    """The time of a change, and the id of the memory that it may create."""

    now: str
    new_id: str


class NamespaceModel:
    """The memories of a namespace by their keys, and all of its links.

    ``quota`` is the most memories that it may hold; None sets no limit.
    """

    def __init__(self, quota: int | None = None) -> None:
        self.memories: dict[str, MemoryModel] = {}
        self.links: dict[LinkName, LinkValue] = {}
        self.version = 0
        self.quota = quota

    def copy(self) -> "NamespaceModel":
        """Return the namespace as it is now; a memory is never changed, but replaced."""
        copied = NamespaceModel(self.quota)
        copied.memories = dict(self.memories)
        copied.links = dict(self.links)
        copied.version = self.version
        return copied

    def find(self, memory_id: str) -> MemoryModel | None:
        for memory in self.memories.values():
            if memory.id == memory_id:
                return memory
        return None

    def find_version(self, key: str) -> int:
        """Return the version of the memory with a key, 0 if there is none."""
        memory = self.memories.get(key)
        return memory.version if memory else 0

    def list_links(self, source: str) -> list[LinkName]:
        return sorted(name for name in self.links if name.source == source)

    def describe_replacement(self, key: str) -> JsonObject:
        """Return what replaced a memory, if it is archived."""
        replacing = [
            (self.links[name].term, name.target)
            for name in self.list_links(key)
            if name.type == "replaced_by" and self.memories[key].archived
        ]
        return {"replaced_by": max(replacing)[1]} if replacing else {}

    def find_since(self, key: str) -> str | None:
        """Return the day on which a memory last replaced one that is archived."""
        days: list[str] = []
        for name, value in self.links.items():
            is_it = (name.target, name.type) == (key, "replaced_by")
            if is_it and self.memories[name.source].archived and _is_day(value.term):
                days.append(value.term)
        return max(days, default=None)

    def supersede(self, key: str, arguments: JsonObject, moment: Moment) -> Predicted:
        """Store what replaces a memory, and archive that. Raises Refusal."""
        old = self.memories[key]
        new_key = arguments.get("new_key") or moment.new_id
        if old.archived:
            meant = self.describe_replacement(key)
            details: JsonObject = {}
            if meant:
                message = FAULTS["memory_archived"].message
                details = {"did_you_mean": meant["replaced_by"], "message": message}
            raise Refusal("memory_archived", **details)
        if new_key == key:
            raise Refusal("key_taken", field="new_key", message=FAULTS["key_taken"].message)

        values = {name: value for name, value in arguments.items() if name != "new_key"}
        if new_key not in self.memories:
            if "content" not in values:
                raise Refusal("missing_argument")
            inherited = ("type", "category", "tags", "about", "importance")
            kept = {name: getattr(old, name) for name in inherited}
            values = {**kept, **values}

        stored = self.store({**values, "key": new_key}, moment)
        link = {"key": new_key, "type": "replaced_by", "link_weight": 1, "term": moment.now[:10]}
        self.update({"id": old.id, "archived": True, "links": [link]}, moment)
        return stored

    def store(self, arguments: JsonObject, moment: Moment) -> Predicted:
        """Create a memory or merge arguments into one. Raises Refusal."""
        named = self._find_named(arguments, can_rename=False)
        created = named is None
        if named is None:
            if self._is_full:
                raise Refusal("storage_quota")
            key = arguments.get("key") or moment.new_id
            named = MemoryModel(moment.new_id, key, moment.now, moment.now)

        # Storing over an archived memory revives it.
        merged = self._merge(named, {**arguments, "archived": False}, moment, created=created)
        if created or "content" not in merged.updated:
            return merged
        return merged._replace(replaced=named.version)

    def update(self, arguments: JsonObject, moment: Moment) -> Predicted:
        """Change a memory, and rename it if the key is another one. Raises Refusal."""
        named = self._find_named(arguments, can_rename=True)
        assert named is not None, "an update names an id"
        return self._merge(named, arguments, moment)

    def archive(self, memory_id: str, moment: Moment) -> Predicted:
        return self.update({"id": memory_id, "archived": True}, moment)

    def delete(self, memory_id: str) -> Predicted:
        named = self._find_named({"id": memory_id}, can_rename=False)
        assert named is not None
        del self.memories[named.key]
        for name in self.list_links(named.key):
            del self.links[name]
        self.version += 1
        return Predicted(None)

    def import_memories(self, lines: Iterable[JsonObject], *, replace: bool) -> Counter[str]:
        return Counter(self._import(line, replace=replace) for line in lines)

    def _find_named(self, arguments: JsonObject, *, can_rename: bool) -> MemoryModel | None:
        memory_id, key = arguments.get("id"), arguments.get("key")
        by_key = self.memories.get(key) if key is not None else None
        if memory_id is None:
            return by_key

        by_id = self.find(memory_id)
        if by_id is None:
            raise Refusal("not_found")

        is_other_key = key not in (None, by_id.key)
        if is_other_key and (by_key is not None or not can_rename):
            raise Refusal("key_taken")
        return by_id

    @property
    def _is_full(self) -> bool:
        return self.quota is not None and len(self.memories) >= self.quota

    def _merge(
        self, before: MemoryModel, arguments: JsonObject, moment: Moment, *, created: bool = False
    ) -> Predicted:
        # What is revived after its end stays, until it gets another one.
        is_revived = arguments.get("archived") is False and before.expires_at <= moment.now
        if is_revived and arguments.get("expires_at") is None:
            arguments = {**arguments, "expires_at": ""}

        after = _set_fields(before, arguments)
        updated = {name for name in FIELDS if getattr(after, name) != getattr(before, name)}

        if after.metadata != before.metadata:
            updated.add("metadata")
        if after.archived != before.archived:
            updated.add("archived")
        # A score that is set, not one that follows the importance.
        is_other_score = after.is_scored and after.score != before.score
        if is_other_score or after.is_scored != before.is_scored:
            updated.add("memory_score")

        if after.key != before.key:
            updated.add("key")
            self._rename_links(before.key, after.key)
            del self.memories[before.key]

        if self._change_links(after.key, arguments):
            updated.add("links")

        if updated or created:
            self.version += 1
            after = replace(
                after, version=self.version, updated_at=max(moment.now, before.updated_at)
            )

        self.memories[after.key] = after
        return Predicted(after, created, frozenset(updated))

    def _change_links(self, source: str, arguments: JsonObject) -> bool:
        before = dict(self.links)

        for removal in arguments.get("remove_links") or ():
            kind = removal.get("type")
            for name in self.list_links(source):
                if name.target == removal["key"] and kind in (None, name.type):
                    del self.links[name]

        for link in arguments.get("links") or ():
            name = LinkName(source, link["key"], link.get("type", "association"))
            existing = self.links.get(name, LinkValue(0.5, ""))
            term = link.get("term")
            if term is None:
                term = existing.term
            self.links[name] = LinkValue(float(link.get("link_weight", 0.5)) + 0.0, term)
        return self.links != before

    def _rename_links(self, old_key: str, new_key: str) -> None:
        """Let links follow a rename; of two that become one the heavier stays."""
        renamed: dict[LinkName, LinkValue] = {}
        # Those that lead to the new key already come first: of equal weights the first one stays.
        for name in sorted(self.links, key=lambda name: (old_key in name[:2], name)):
            source, target = (new_key if key == old_key else key for key in name[:2])
            new_name = LinkName(source, target, name.type)
            value = self.links[name]
            if new_name not in renamed or renamed[new_name].weight < value.weight:
                renamed[new_name] = value
        self.links = renamed

    def _import(self, line: JsonObject, *, replace: bool) -> str:
        incoming, links = parse_exported(line)
        existing = self.memories.get(incoming.key)
        outcome = "added"

        if existing is None:
            if self._is_full:
                return "refused"
        else:
            incoming.version = existing.version
            own = {name: self.links[name] for name in self.list_links(incoming.key)}
            if (incoming, links) == (existing, own):
                return "unchanged"
            if not replace:
                return "kept"
            outcome = "replaced"

        holder = self.find(incoming.id)
        if holder is not None and holder.key != incoming.key:
            return "refused"

        for name in self.list_links(incoming.key):
            del self.links[name]

        self.version += 1
        incoming.version = self.version
        self.memories[incoming.key] = incoming
        self.links |= links
        return outcome


def _set_fields(before: MemoryModel, arguments: JsonObject) -> MemoryModel:
    given = {name: value for name, value in arguments.items() if value is not None}
    after = replace(before)

    for name in (*FIELDS, "archived", "key"):
        if name in given:
            setattr(after, name, given[name])
    after.tags = list(dict.fromkeys(after.tags))
    after.about = list(dict.fromkeys(after.about))

    score = given.get("memory_score")
    if "metadata" in given:
        after.metadata = {**given["metadata"]}
        metadata_score = after.metadata.pop("memory_score", None)
        if score is None:
            score = metadata_score

    if score is not None:
        after.score = float(score) + 0.0
        after.is_scored = True
    elif not after.is_scored:
        after.score = SCORES[after.importance]

    assert 0 <= after.score <= 1, "a score that no memory can have was acknowledged"
    return after


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def parse_exported(line: JsonObject) -> tuple[MemoryModel, dict[LinkName, LinkValue]]:
    names = (line[name] for name in ("id", "key", "created_at", "updated_at"))
    memory = _set_fields(MemoryModel(*names), line)

    links: dict[LinkName, LinkValue] = {}
    for link in line.get("links", []):
        name = LinkName(memory.key, link["key"], link.get("type", "association"))
        links[name] = LinkValue(float(link["link_weight"]) + 0.0, link.get("term", ""))
    return memory, links
