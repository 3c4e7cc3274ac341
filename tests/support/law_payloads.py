"""What the abilities must answer about a namespace whose contents are known."""

from collections import Counter
from functools import partial

from abilities.declarations.memory import Direction
from abilities.declarations.values import JsonObject
from abilities.helpers.store.model import dump_sorted_json, split_search
from abilities.helpers.walk import RANK_ONE, WalkLimits, compute_rank
from tests.support.law_model import LinkName, MemoryModel, NamespaceModel
from tests.support.recall_index import PlainMemory
from tests.support.walk_oracles import Edge, Graph, expect_by_recursion

IMPORTANCES = ("low", "medium", "high")
_COUNTERS = ("accessed_at", "access_count", "similar")
_UNTOUCHED = ("metadata", "links", "backlinks")
"""What holds no counters: the user's own values may have any name, and links have none."""


def normalize(payload: object) -> str:
    """Return a payload as JSON that equal payloads have in common.

    Counters of accesses are left out: they are counted some time after the answer. So is what is
    similar, which depends on the changes that are made meanwhile.
    """
    return dump_sorted_json(drop_counters(payload))


def drop_counters(payload: object) -> object:
    if isinstance(payload, list):
        return [drop_counters(item) for item in payload]
    if not isinstance(payload, dict):
        return payload

    kept: JsonObject = {}
    for name, value in payload.items():
        if name in _COUNTERS or name == "most_accessed":
            continue

        kept[name] = value
        if name not in _UNTOUCHED:
            kept[name] = drop_counters(value)
    return kept


def describe_memory(namespace: NamespaceModel, memory: MemoryModel) -> JsonObject:
    """Return a memory's fields as every answer shows them, without its links and version."""
    data: JsonObject = {"id": memory.id, "type": memory.type, "content": memory.content}
    for name in ("summary", "category", "tags", "about", "archived", "expires_at"):
        value = getattr(memory, name)
        if value:
            data[name] = value

    data |= namespace.describe_replacement(memory.key)
    data["importance"] = memory.importance
    data["created_at"] = memory.created_at
    data["updated_at"] = memory.updated_at
    data["metadata"] = {"memory_score": memory.score, **memory.metadata}

    total = len(namespace.list_links(memory.key))
    if total:
        data["links_total"] = total
    return data


def expect_get(namespace: NamespaceModel, key: str) -> JsonObject:
    memory = namespace.memories[key]
    data = describe_memory(namespace, memory)
    data["version"] = memory.version

    if links := _describe_links(namespace, namespace.list_links(key), incoming=False):
        data["links"] = links

    backlinks = [name for name in namespace.links if name.target == key]
    data["backlinks_total"] = len(backlinks)
    if shown := _describe_links(namespace, backlinks, incoming=True):
        data["backlinks"] = shown
    return {"key": key, "success": True, "data": data}


def expect_written(namespace: NamespaceModel, memory: MemoryModel, shown: int) -> JsonObject:
    data = expect_get(namespace, memory.key)["data"]
    del data["backlinks_total"]
    data.pop("backlinks", None)
    links = data.pop("links", [])[:shown]
    if links:
        data["links"] = links
    return {**data, "key": memory.key}


def expect_stats(namespace: NamespaceModel) -> JsonObject:
    memories = list(namespace.memories.values())
    present = [memory for memory in memories if not memory.archived]
    types = Counter(memory.type for memory in present)
    importances = Counter(memory.importance for memory in present)
    tags = Counter(tag for memory in present for tag in memory.tags)
    size = sum(len((memory.content + memory.summary).encode()) for memory in memories)
    top_tags = sorted(tags.items(), key=lambda counted: (-counted[1], counted[0]))

    answer: JsonObject = {
        "total_memories": len(present),
        "by_type": {name: types[name] for name in ("core", "learning", "task")},
        "by_importance": {name: importances[name] for name in IMPORTANCES},
        "archived_count": len(memories) - len(present),
        "total_storage_kb": round(size / 1024, 3),
        "top_tags": [{"tag": tag, "count": count} for tag, count in top_tags[:10]],
    }

    if memories:
        answer["oldest_memory"] = min(memory.created_at for memory in memories)
        answer["newest_memory"] = max(memory.created_at for memory in memories)
    return answer


def find_matches(namespace: NamespaceModel, query: JsonObject) -> list[MemoryModel]:
    matches = [memory for memory in namespace.memories.values() if _is_match(memory, query)]
    find_place = partial(find_memory_place, sort_by=query["sort_by"])
    return sorted(matches, key=find_place, reverse=query["sort_order"] == "desc")


def find_memory_place(memory: MemoryModel, sort_by: str) -> tuple[object, str]:
    if sort_by == "importance":
        return IMPORTANCES.index(memory.importance), memory.id
    return getattr(memory, sort_by), memory.id


def find_by_piece(memory: MemoryModel, number: int) -> JsonObject:
    start = number * 7 % len(memory.content)
    query: JsonObject = {
        "search": memory.content[start : start + 1 + number % 9],
        "archived": True,
        "limit": 100,
        "sort_by": "created_at",
        "sort_order": "asc",
    }
    if number % 2:
        query["type"] = memory.type
        query["category"] = memory.category
    if number % 3:
        query["tags"] = memory.tags[:2]
    return query


def expect_exported(namespace: NamespaceModel, name: str) -> list[JsonObject]:
    lines: list[JsonObject] = []
    for key in sorted(namespace.memories):
        memory = namespace.memories[key]
        line: JsonObject = {"namespace": name}
        for field in ("key", "id", "type", "content", "importance", "created_at", "updated_at"):
            line[field] = getattr(memory, field)
        fields = ("summary", "category", "tags", "about", "archived", "metadata", "expires_at")
        for field in fields:
            if getattr(memory, field):
                line[field] = getattr(memory, field)

        if memory.is_scored:
            line["memory_score"] = memory.score
        links = [
            _describe_link(namespace, link, incoming=False) for link in namespace.list_links(key)
        ]
        if links:
            line["links"] = links
        lines.append(line)
    return lines


def expect_walk(
    namespace: NamespaceModel, key: str, limits: WalkLimits, direction: Direction
) -> JsonObject:
    expected = expect_by_recursion(build_graph(namespace), key, limits, direction)
    entries: list[JsonObject] = []

    for step in expected.order:
        memory = namespace.memories[step]
        data = describe_memory(namespace, memory)
        data["metadata"] = {"memory_score": memory.score}
        entry: JsonObject = {"key": step, "success": True, "data": data}

        if step in expected.link:
            link = expected.link[step]
            shown: JsonObject = {"link_weight": link.weight}
            if link.type != "association":
                shown["type"] = link.type
            if direction == "both" and link.incoming:
                shown["direction"] = "in"
            entry["depth"] = expected.depth[step]
            entry["parent"] = expected.parent[step]
            entry["link"] = shown
            entry["combinedScore"] = link.rank / RANK_ONE
        entries.append(entry)

    metadata: JsonObject = {
        "depthReached": max(expected.depth[step] for step in expected.order),
        "totalRetrieved": len(entries),
        "failed": 0,
        "truncated": 0,
        "duplicatesSkipped": expected.duplicates,
        "missingLinks": expected.missing,
        "invalidLinks": 0,
        "limits": limits._asdict(),
        "limitsReached": expected.limits_reached,
        "frontier": [
            {"key": target, "from": source, "combinedScore": rank / RANK_ONE, "cutBy": cut}
            for target, source, rank, cut in expected.frontier
        ],
    }
    if expected.has_more_frontier:
        metadata["frontier_more"] = True

    return {"targetMemory": entries[0], "associatedMemories": entries[1:], "metadata": metadata}


def build_graph(namespace: NamespaceModel) -> Graph:
    edges: dict[str, list[Edge]] = {key: [] for key in namespace.memories}
    for name, value in namespace.links.items():
        edges[name.source].append(Edge(name.target, value.weight, name.type))

    memories = namespace.memories.values()
    return Graph(
        edges,
        scores={memory.key: memory.score for memory in memories},
        missing={name.target for name in namespace.links} - namespace.memories.keys(),
        archived={memory.key for memory in memories if memory.archived},
    )


def list_plain(namespace: NamespaceModel) -> list[PlainMemory]:
    """Return the memories of a namespace as the plain computation takes them."""
    links: dict[str, list[tuple[str, float]]] = {key: [] for key in namespace.memories}
    days: dict[str, list[str]] = {key: [] for key in namespace.memories}
    kinds: dict[str, list[str]] = {key: [] for key in namespace.memories}
    for name, value in namespace.links.items():
        links[name.source].append((name.target, value.weight))
        kinds[name.source].append(name.type)
        if name.type == "replaced_by":
            days[name.source].append(value.term)

    plain: list[PlainMemory] = []
    for memory in namespace.memories.values():
        plain.append(
            PlainMemory(
                memory.key,
                memory.content,
                memory.summary,
                type=memory.type,
                tags=tuple(memory.tags),
                category=memory.category,
                importance=memory.importance,
                score=memory.score,
                archived=memory.archived,
                created_at=memory.created_at,
                updated_at=memory.updated_at,
                replaced_on=tuple(days[memory.key]),
                links=links[memory.key],
                kinds=kinds[memory.key],
            )
        )

    return plain


def _is_match(memory: MemoryModel, query: JsonObject) -> bool:
    if memory.archived and not query.get("archived", False):
        return False
    for name in ("type", "category", "importance"):
        if name in query and getattr(memory, name) != query[name]:
            return False
    if not set(query.get("tags", ())) <= set(memory.tags):
        return False

    searched = (memory.key, memory.summary, memory.content, memory.category, *memory.tags)
    texts = [text.casefold() for text in searched]
    for term in split_search(query.get("search", "")):
        if not any(term in text for text in texts):
            return False
    return True


def _describe_links(
    namespace: NamespaceModel, names: list[LinkName], *, incoming: bool
) -> list[JsonObject]:
    def get_place(name: LinkName) -> tuple[object, ...]:
        other = name.source if incoming else name.target
        weight = namespace.links[name].weight
        memory = namespace.memories.get(other)
        rank = -1
        if memory is not None and not memory.archived:
            rank = compute_rank(weight, memory.score)
        return -rank, -weight, other, name.type

    best = sorted(names, key=get_place)
    return [_describe_link(namespace, name, incoming=incoming) for name in best]


def _describe_link(namespace: NamespaceModel, name: LinkName, *, incoming: bool) -> JsonObject:
    value = namespace.links[name]
    data: JsonObject = {"key": name.source if incoming else name.target}
    data["link_weight"] = value.weight
    if name.type != "association":
        data["type"] = name.type
    if value.term:
        data["term"] = value.term
    return data
