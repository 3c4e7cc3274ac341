"""The steps that behaviours are made of: store a memory, read one, compare and expect."""

from collections.abc import Awaitable, Iterable, Sequence
from typing import Any
from uuid import uuid4

from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.store.changes import Change, Kind
from abilities.helpers.store.model import LinkRow, Query, StoredMemory
from abilities.helpers.store.protocol import (
    CheckableStore,
    MemoryStore,
    TransferableStore,
    WriteResult,
)

NAMESPACE = "conformance"
OTHER_NAMESPACE = "other"
TIME = "2026-01-01T00:00:00.000Z"
LATER = "2026-01-02T00:00:00.000Z"


async def put(
    store: MemoryStore,
    key: str,
    *,
    kind: Kind = "store",
    now: str = TIME,
    id: str | None = None,
    links: Iterable[tuple[str, float]] = (),
    link_type: str = "association",
    term: str = "",
    remove: Sequence[JsonObject] = (),
    **fields: object,
) -> WriteResult:
    """Change one memory, by default store it with the given fields.

    ``id`` names the memory; with a ``key`` as well, an update renames it. ``links`` are pairs of a
    target and a weight, all of one type and term; ``remove`` are links to remove, each with its
    ``key`` and its ``type`` or None for any type.
    """
    if kind == "store":
        fields = {"type": "core", "content": f"content of {key}", **fields}

    new_links: list[JsonObject] = []
    for target, weight in links:
        new_links.append({"key": target, "link_weight": weight, "type": link_type, "term": term})

    new_key = None
    if kind == "update" and id is not None:
        key, new_key = "", key or None

    change = Change(
        kind=kind,
        now=now,
        id=id,
        key=key or None,
        new_key=new_key,
        new_id=str(uuid4()),
        fields=fields,
        links=new_links,
        remove_links=remove,
    )
    return await store.change(NAMESPACE, change)


def plan(kind: Kind, key: str | None = None, **values: Any) -> Change:
    """Return a change with a new id, at `TIME` unless ``values``, which are its fields, say more.

    A store without fields gets a type and a content.
    """
    if kind == "store":
        values.setdefault("fields", {"type": "core", "content": f"content of {key}"})

    values = {"now": TIME, "new_id": str(uuid4()), **values}
    return Change(kind, key=key, **values)


async def put_many(store: MemoryStore, changes: Sequence[Change]) -> None:
    """Make changes, each of which must be made; fifty at once, as a slow machine may be busy."""
    for start in range(0, len(changes), 50):
        portion = changes[start : start + 50]
        for outcome in await store.change_many(NAMESPACE, portion, atomic=True):
            if not isinstance(outcome, WriteResult):
                raise outcome


def link_to(*keys: str, weight: float = 0.5) -> list[JsonObject]:
    """Return links as a change has them."""
    return [{"key": key, "link_weight": weight, "type": "association"} for key in keys]


def expect_stored(result: WriteResult) -> StoredMemory:
    """Return the memory of a change that does not delete; fail if the store returned none."""
    if result.stored is None:
        raise AssertionError("a change returns the memory as it is now; got None")

    return result.stored


async def add(store: MemoryStore, key: str, **values: Any) -> StoredMemory:
    """Store a memory as `put` does, and return it."""
    return expect_stored(await put(store, key, **values))


async def end(store: MemoryStore, kind: Kind, key: str) -> WriteResult:
    """Archive, delete or purge a memory."""
    return await store.change(NAMESPACE, plan(kind, key))


async def read_one(store: MemoryStore, key: str) -> StoredMemory:
    """Return a memory that was stored; fail if the store does not find it."""
    (memory,) = await store.read(NAMESPACE, [key])
    if not isinstance(memory, StoredMemory):
        raise AssertionError(
            f"a stored memory is found by its key; reading {key!r} gave {memory!r}"
        )

    return memory


async def rename(store: MemoryStore, key: str, new_key: str) -> WriteResult:
    """Give a memory another key, a day after `TIME`."""
    return await store.change(NAMESPACE, plan("update", key, new_key=new_key, now=LATER))


def list_targets(links: Iterable[LinkRow]) -> list[str]:
    """Return the target of each link."""
    return [link.target for link in links]


def list_keys(memories: Iterable[object]) -> list[str]:
    """Return the key of each memory, and the text of whatever stands in the place of one."""
    return [m.row.key if isinstance(m, StoredMemory) else str(m) for m in memories]


async def find_keys(store: MemoryStore, query: Query) -> list[str]:
    """Return the keys of what a query finds; fail if its total is another number."""
    page = await store.query(NAMESPACE, query)
    expect(page.total, len(page.memories), f"{query} counts what it finds")
    return list_keys(page.memories)


async def read_versions(store: MemoryStore, *keys: str) -> list[str | int]:
    """Return the version of each memory, or why it cannot be read."""
    memories = await store.read(NAMESPACE, keys)
    return [m.row.version if isinstance(m, StoredMemory) else str(m) for m in memories]


async def read_memories(store: TransferableStore) -> list[StoredMemory]:
    """Return every memory of the store; fail if one is damaged."""
    memories = await store.read_page(("", ""), 100)
    sound = [memory for memory in memories if isinstance(memory, StoredMemory)]
    expect(sound, memories, "a page of a healthy store holds no damage")
    return sound


async def expect_sound(store: CheckableStore) -> None:
    """Check that a full check finds nothing damaged."""
    findings = await store.check(lambda _: None, full=True)
    damaged = [finding for finding in findings if finding.state == "damaged"]
    expect(damaged, [], "a check finds a healthy store sound")


def expect(actual: object, expected: object, rule: str) -> None:
    """Fail with the rule and both values unless the values are equal."""
    if actual != expected:
        raise AssertionError(f"{rule}: expected {expected!r}, got {actual!r}")


async def expect_refused(work: Awaitable[object], reason: Reason, rule: str = "") -> None:
    """Fail with the rule unless the work raises Refused for that reason."""
    try:
        result = await work
    except Refused as error:
        expect(error.reason, reason, rule)
        return

    raise AssertionError(f"{rule}: expected Refused({reason!r}), got {result!r}")
