"""What storing, updating and deleting do to a memory: pure, the same for every store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from abilities.declarations.memory import SCORES
from abilities.helpers.stores.model import IncomingMemory, LinkRow, Row, sorted_json

Kind = Literal["store", "update", "archive", "delete"]
PLAIN_FIELDS = ("type", "content", "summary", "category", "importance")


@dataclass(frozen=True, slots=True)
class Change:
    """One change to one memory. ``fields`` holds only what was given, in its normal form.

    ``new_id`` and ``now`` are chosen before the transaction, so that doing it again gives the same state.
    """

    kind: Kind
    now: str
    id: str | None = None
    key: str | None = None
    new_id: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    links: Sequence[Mapping[str, Any]] = ()
    remove_links: Sequence[Mapping[str, Any]] = ()

    @property
    def linked_keys(self) -> list[str]:
        """The keys of all memories whose links this change concerns."""
        return sorted({link["key"] for link in (*self.links, *self.remove_links)})


class MergedMemory(NamedTuple):
    """A memory after a change: its row, the links that the change concerns, and the fields that changed."""

    row: Row
    links: tuple[LinkRow, ...]
    updated: tuple[str, ...]


def create_row(change: Change, namespace: str) -> Row:
    """The row of a new memory, before the given fields are put in."""
    return Row(
        namespace=namespace,
        key=change.key or change.new_id,
        id=change.new_id,
        type="",
        content="",
        summary="",
        category="",
        tags="[]",
        importance="medium",
        archived=0,
        score=SCORES["medium"],
        scored=0,
        metadata="{}",
        created_at=change.now,
        updated_at=change.now,
    )


def merge_change(change: Change, row: Row, links: Sequence[LinkRow]) -> MergedMemory:
    """A memory with a change put in; ``updated_at`` moves only when something changed.

    ``links`` are the memory's links to those that the change concerns.
    """
    values = _values(change, row)
    after = row._replace(**values)
    kept = _links(change, row.key, links)
    updated = [
        _FIELD_NAMES.get(name, name)
        for name in values
        if getattr(after, name) != getattr(row, name)
    ]
    if "importance" in updated and "memory_score" in updated and not after.scored:
        updated.remove("memory_score")  # it follows
    if kept != tuple(links):
        updated.append("links")
    if updated:
        after = after._replace(updated_at=max(change.now, row.updated_at))
    return MergedMemory(after, kept, tuple(dict.fromkeys(updated)))


_FIELD_NAMES = {"score": "memory_score", "scored": "memory_score"}


def _values(change: Change, row: Row) -> dict[str, Any]:
    given = change.fields
    values: dict[str, Any] = {name: given[name] for name in PLAIN_FIELDS if name in given}
    if "tags" in given:
        values["tags"] = sorted_json(list(dict.fromkeys(given["tags"])))
    metadata = dict(given["metadata"]) if "metadata" in given else None
    score = given.get("memory_score")
    if metadata is not None:
        score = metadata.pop("memory_score", None) if score is None else score
        metadata.pop("memory_score", None)
        values["metadata"] = sorted_json(metadata)
    if score is not None:
        values |= {"score": float(score), "scored": 1}
    elif not row.scored:
        values["score"] = SCORES[values.get("importance", row.importance)]
    if change.kind == "store":
        values["archived"] = 0
    elif change.kind == "archive":
        values["archived"] = 1
    elif "archived" in given:
        values["archived"] = int(given["archived"])
    return values


def _links(change: Change, source: str, links: Sequence[LinkRow]) -> tuple[LinkRow, ...]:
    """Links unique by target and type, in that order."""
    after = {(link.target, link.type): link for link in links}
    for named in change.remove_links:
        gone = [
            name
            for name in after
            if name[0] == named["key"] and named.get("type") in (None, name[1])
        ]
        for name in gone:
            del after[name]
    for link in change.links:
        after[link["key"], link["type"]] = LinkRow(
            source, link["key"], link["type"], float(link["link_weight"])
        )
    return tuple(after[name] for name in sorted(after))


Outcome = Literal["added", "replaced", "unchanged", "kept"]


class BatchOptions(NamedTuple):
    """What a store may do with one batch of an import, and how many memories it may hold."""

    replace: bool
    dry_run: bool
    quota: int | None


class MergedIncoming(NamedTuple):
    """What becomes of a memory that is brought from elsewhere, and how it is afterwards."""

    outcome: Outcome
    row: Row
    links: tuple[LinkRow, ...]


def merge_incoming(
    incoming: IncomingMemory, row: Row | None, links: Sequence[LinkRow], *, replace: bool
) -> MergedIncoming:
    """Compare what is brought with what is there: the same again changes nothing, and nothing is lost unless asked.

    Where the importer made up id and times, those that are there stay, and so do further links.
    """
    after, brought = incoming.stored.row, incoming.stored.links
    if row is None:
        return MergedIncoming("added", after, brought)
    if incoming.provisional:
        after = after._replace(
            id=row.id, created_at=row.created_at, updated_at=row.updated_at, archived=row.archived
        )
        there = {(link.target, link.type): link for link in links}
        brought = tuple((there | {(link.target, link.type): link for link in brought}).values())
    if after == row and set(brought) == set(links):
        return MergedIncoming("unchanged", row, tuple(links))
    if not replace:
        return MergedIncoming("kept", row, tuple(links))
    if incoming.provisional:
        after = after._replace(updated_at=max(incoming.stored.row.updated_at, row.updated_at))
    return MergedIncoming("replaced", after, brought)
