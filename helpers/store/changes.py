"""The effects of changes and imports on a memory, as pure functions for every store.

`check_change` and `check_incoming` refuse values that no store can hold. Validated requests never
have such values, but callers of the store's Python interface may.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar, cast

import orjson

from abilities.declarations.limits import MAX_LONG_CONTENT_CHARS
from abilities.declarations.memory import SCORES
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.store import model
from abilities.helpers.store.model import check_names, check_values

LinkT = TypeVar("LinkT", model.LinkRow, model.LinkRecord)

Kind = Literal[
    "store", "update", "append", "supersede", "archive", "delete", "restore", "expire", "purge"
]
Outcome = Literal["added", "replaced", "unchanged", "kept"]
"""The outcome of importing a memory."""

PLAIN_FIELDS = ("type", "content", "summary", "category", "importance", "expires_at")
"""Fields with a column of the same name and value."""

FIELD_NAMES = {"score": "memory_score", "scored": "memory_score"}
"""The fields of columns that have another name."""


def name_fields(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the fields of columns, without duplicates.

    >>> name_fields(["content", "score", "scored"])
    ('content', 'memory_score')
    """
    return tuple(dict.fromkeys(FIELD_NAMES.get(name, name) for name in columns))


@dataclass(frozen=True, slots=True)
class Change:
    """One change to one memory, which is named by ``id`` or ``key`` or both.

    "store" may create a memory. "update" may rename it to ``new_key``. "append" adds ``content`` to
    the end. "supersede" stores the fields and links under ``new_key``, or under ``new_id``, and
    archives the memory with a link to that one. "restore" restores the values and links of version
    ``to_version``, or of the version before the last change if that is None, and revives a deleted
    memory. "expire" archives the memory, and "purge" deletes it with its history.

    ``fields`` holds only the fields to set, normalized. With ``if_version``, the change is made
    only if the memory has that version; 0 means that the memory must not exist. ``new_id`` is the
    id of the memory if the change creates one. The caller chooses ``new_id`` and ``now``, so that a
    retried transaction gives the same state. ``caller`` is recorded in the history.
    """

    kind: Kind
    now: str
    id: str | None = None
    key: str | None = None
    new_id: str = ""
    fields: JsonObject = field(default_factory=JsonObject)
    links: Sequence[JsonObject] = ()
    remove_links: Sequence[JsonObject] = ()
    new_key: str | None = None
    if_version: int | None = None
    to_version: int | None = None
    caller: str = ""

    @property
    def linked_keys(self) -> list[str]:
        """The targets of the links to add or remove, sorted."""
        return sorted({link["key"] for link in (*self.links, *self.remove_links)})


def list_inherited(row: model.Row) -> JsonObject:
    """Return the fields that a new memory takes over from the one that it replaces."""
    return {
        "type": row.type,
        "category": row.category,
        "tags": orjson.loads(row.tags),
        "about": orjson.loads(row.about),
        "importance": row.importance,
    }


class MergedMemory(NamedTuple):
    """A memory after a change.

    ``links`` are its links to the change's `linked_keys`, and ``updated`` names the changed fields.
    ``replaced`` is the version whose content a "store" replaced, or 0.
    """

    row: model.Row
    links: model.Links
    updated: tuple[str, ...]
    replaced: int = 0


_OWN_REASONS = (
    "key_taken",
    "purged",
    "storage_quota",
    "checksum_mismatch",
    "invalid_stored_value",
)
"""Reasons to refuse a single memory of an import."""

_PASSING_REASONS = ("busy", "timeout", "unavailable")
"""Reasons of a store that may pass, so that a retry can succeed."""


def check_version(change: Change, row: model.Row | None) -> None:
    """Check the ``if_version`` of a change.

    Raises Refused("version_conflict") with the memory's version in ``expected``.
    """
    version = 0
    if row is not None:
        version = row.version

    if change.if_version not in (None, version):
        raise Refused("version_conflict", expected={"version": version})


def create_row(change: Change, namespace: str) -> model.Row:
    """Return the row of a new memory, with defaults instead of the change's fields."""
    return model.Row(
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


def merge_change(change: Change, row: model.Row, links: model.Links) -> MergedMemory:
    """Return the memory with the change applied; ``updated_at`` moves only if something changed.

    ``links`` are the memory's links to the change's `linked_keys`.
    """
    columns = _merge_fields(change, row)
    merged_row = row._replace(**columns)
    merged_links = merge_links(change, merged_row.key, links)

    updated = [name for name in columns if getattr(merged_row, name) != getattr(row, name)]
    if "importance" in updated and "score" in updated and not merged_row.scored:
        updated.remove("score")  # it was not set, but follows the importance
    if merged_links != links:
        updated.append("links")

    if updated:
        # A clock that was set back must not make a memory older.
        merged_row = merged_row._replace(updated_at=max(change.now, row.updated_at))

    replaced = 0
    if change.kind == "store" and "content" in updated:
        replaced = row.version

    return MergedMemory(merged_row, merged_links, name_fields(updated), replaced)


def _merge_fields(change: Change, row: model.Row) -> JsonObject:
    """Return the columns that a change sets, with their values. Raises Refused("too_long")."""
    fields = change.fields
    columns: JsonObject = {name: fields[name] for name in PLAIN_FIELDS if name in fields}

    if change.new_key is not None:
        columns["key"] = change.new_key
    if change.kind == "append":
        columns["content"] = row.content + fields["content"]
        if len(columns["content"]) > MAX_LONG_CONTENT_CHARS:
            raise Refused("too_long", "content", expected={"max_length": MAX_LONG_CONTENT_CHARS})

    for name in ("tags", "about"):
        if name in fields:
            columns[name] = model.dump_sorted_json(list(dict.fromkeys(fields[name])))

    # The score may also come in the metadata, but links are ranked by its column.
    score = fields.get("memory_score")
    if "metadata" in fields:
        metadata = dict(fields["metadata"])
        metadata_score = metadata.pop("memory_score", None)
        if score is None:
            score = metadata_score
        columns["metadata"] = model.dump_sorted_json(metadata)

    if score is not None:
        columns["score"] = float(score) + 0.0  # -0.0 becomes 0.0, as SQLite returns it
        columns["scored"] = 1
    elif not row.scored:
        importance = columns.get("importance", row.importance)
        columns["score"] = SCORES[importance]

    if change.kind == "store":
        columns["archived"] = 0  # storing over an archived memory restores it
    elif change.kind in ("archive", "expire", "supersede"):
        columns["archived"] = 1
    elif "archived" in fields:
        columns["archived"] = int(fields["archived"])

    # An expired memory that is revived no longer expires, unless the change sets a new time.
    is_revived = columns.get("archived") == 0
    if is_revived and "expires_at" not in fields and row.expires_at <= change.now:
        columns["expires_at"] = ""

    return columns


def merge_links(change: Change, source: str, links: model.Links) -> model.Links:
    """Return the links of a memory after a change."""
    merged = dict(links)

    for removal in change.remove_links:
        removed_kind = removal.get("type")
        for target, kind in list(merged):
            # Without a type, the links of all types are removed.
            if target == removal["key"] and removed_kind in (None, kind):
                del merged[target, kind]

    for link in change.links:
        target, kind = link["key"], link["type"]
        existing = merged.get((target, kind))
        term = link.get("term")
        if term is None:
            term = existing.term if existing else ""

        weight = float(link["link_weight"]) + 0.0
        merged[target, kind] = model.LinkRow(source, target, kind, weight, term)

    return merged


def rename_links(links: Iterable[model.LinkRow], old_key: str, new_key: str) -> list[model.LinkRow]:
    """Return links with a memory's new key in place of its old one, by source, target and type.

    Pass all links of the memory, and all links to its old or new key. If two of them become equal
    in source, target and type, the heavier one is kept; of equally heavy ones, the one that led to
    the new key before.
    """
    renamed: dict[tuple[str, str, str], model.LinkRow] = {}

    # Links without the old key come first, because the first of equal weights is kept.
    for link in sorted(links, key=lambda link: (old_key in (link.source, link.target), link)):
        new_link = rename_link(link, old_key, new_key)
        name = (new_link.source, new_link.target, new_link.type)
        existing = renamed.get(name)
        if existing is None or existing.weight < new_link.weight:
            renamed[name] = new_link

    return sorted(renamed.values())


def rename_link(link: LinkT, old_key: str, new_key: str) -> LinkT:
    """Return a link with a new key at the ends that have the old one."""
    if link.source == old_key:
        link = link._replace(source=new_key)
    if link.target == old_key:
        link = link._replace(target=new_key)

    return link


def merge_incoming(
    incoming: model.IncomingMemory, row: model.Row | None, links: model.Links, *, replace: bool
) -> tuple[Outcome, model.Row, model.Links]:
    """Compare an incoming memory with the stored one; return the outcome and the memory to keep.

    ``row`` is None if no memory is stored under this key. An equal memory is "unchanged". A
    different one is "replaced" if ``replace`` is set, or if the incoming memory is growing and the
    later one, and otherwise the stored one is "kept". If the incoming memory is provisional, the
    stored id, times, archived state and additional links are kept.
    """
    new_row, new_links = incoming.stored.row, model.index_links(incoming.stored.links)
    if row is None:
        return "added", new_row, new_links

    if incoming.provisional:
        new_row = new_row._replace(
            id=row.id, created_at=row.created_at, updated_at=row.updated_at, archived=row.archived
        )
        new_links = {**links, **new_links}

    # Versions belong to the store; imports bring none.
    new_row = new_row._replace(version=row.version)

    if new_row == row and new_links == links:
        return "unchanged", row, links

    has_grown = incoming.growing and new_row.updated_at > row.updated_at
    if not replace and not has_grown:
        return "kept", row, links

    # After the comparison, or else a newer time alone would be a change on each import.
    if incoming.provisional:
        imported_at = incoming.stored.row.updated_at
        new_row = new_row._replace(updated_at=max(imported_at, row.updated_at))

    return "replaced", new_row, new_links


def list_outcomes(settled: Sequence[Outcome | BaseException]) -> list[Outcome | Exception]:
    """Return the outcomes of an import, in which some memories may be refused.

    A refusal that may pass counts as one memory's outcome too. Raises the first exception that
    concerns more than one memory.
    """
    outcomes: list[Outcome | Exception] = []
    for outcome in settled:
        is_own = isinstance(outcome, Refused) and outcome.reason in _OWN_REASONS
        if isinstance(outcome, BaseException) and not is_own and not is_passing(outcome):
            raise outcome
        outcomes.append(cast(Outcome | Exception, outcome))

    return outcomes


def is_passing(outcome: object) -> bool:
    """Return whether an outcome is a refusal that may pass, such as that of a busy store."""
    return isinstance(outcome, Refused) and outcome.reason in _PASSING_REASONS


def check_change(namespace: str, change: Change) -> None:
    """Check the types and texts of a change. Raises Refused as `check_values` does."""
    names = (change.id, change.key, change.new_key)
    given = [name for name in names if name is not None]
    check_names(namespace, change.now, change.new_id, change.caller, *given)
    check_values(change.fields, change.links, change.remove_links)
    check_values(change.if_version, change.to_version)

    # A trial merge fails on any field of a wrong type.
    try:
        check_names(namespace, *change.linked_keys)
        merge_change(change, create_row(change, namespace), {})
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise Refused("wrong_type") from None


def check_incoming(incoming: model.IncomingMemory) -> None:
    """Check the values of a memory to import. Raises Refused("invalid_stored_value")."""
    row = incoming.stored.row
    try:
        check_names(row.namespace, row.key, row.id)
        check_values(*row, incoming.stored.links)
    except Refused:
        raise Refused("invalid_stored_value") from None


Result = TypeVar("Result")

PATIENCE_SECONDS = 120.0
"""How long work waits for a store without any progress.

A closed lid, a stopped process or the choice of a new leader takes less than a minute.
"""

PAUSE_SECONDS = 0.2

_log = logging.getLogger("abilities.store")


async def call_patiently(work: Callable[[], Awaitable[Result]]) -> Result:
    """Do work again while a store refuses it, until it succeeds or failed for `PATIENCE_SECONDS`.

    The work must change nothing if it is done twice, because a store may lose the connection after
    it has committed a change. Raises its error, unless that passes in time.
    """
    gives_up_at: float | None = None
    while True:
        try:
            return await work()
        except Refused as refused:
            if not is_passing(refused):
                raise

            now = time.monotonic()
            if gives_up_at is None:
                gives_up_at = now + PATIENCE_SECONDS
                _log.warning("Waiting for the store, up to %.0f seconds.", PATIENCE_SECONDS)
            if now >= gives_up_at:
                raise

        await asyncio.sleep(PAUSE_SECONDS)
