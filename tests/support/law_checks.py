"""What is tried after acknowledged changes: reads, walks, queries, exports, backups, deletions.

Each check compares what a store answers with what its model says.
"""

import json
import re
from collections.abc import Iterable, Mapping

from abilities.declarations.memory import Direction
from abilities.declarations.values import JsonObject
from abilities.helpers.walk import WalkLimits
from tests.support import law_payloads
from tests.support.law_model import NamespaceModel
from tests.support.law_places import Place, Reading, check_refusal, complete
from tests.support.law_recall import check_found

COPY = "copy"
"""The namespace into which everything is copied, to be changed and deleted there."""

MOST_PAGES = 4
"""The first pages of a query that are read."""

Models = Mapping[str, NamespaceModel]


def check_record(reading: Reading, namespace: NamespaceModel, key: str) -> None:
    if key in namespace.memories:
        same(read_with_links(reading, key), law_payloads.expect_get(namespace, key))
        return
    for name in ("memory_get", "bulk_read_memory"):
        assert check_refusal(reading.call(name, key=key)) == "not_found"


def check_content(reading: Reading, namespace: NamespaceModel, key: str) -> None:
    memory = namespace.memories[key]
    read = reading.call("memory_read_bulk", targets=[{"type": "stored", "key": key}])
    record = complete(reading, read["results"][0])
    assert record["data"]["content"] == memory.content
    assert record["data"]["modified_at"] == memory.updated_at


def check_walk(
    reading: Reading, namespace: NamespaceModel, key: str, limits: WalkLimits, direction: Direction
) -> None:
    depth, breadth, total = limits
    walked = reading.call(
        "bulk_read_memory", key=key, depth=depth, breadth=breadth, total=total, direction=direction
    )
    assert "error" not in walked, walked
    expected = law_payloads.expect_walk(namespace, key, limits, direction)

    # Contents that there was no room for are fetched with the requests that the answer names.
    walked.pop("next_requests", None)
    walked["metadata"] |= {"failed": 0, "truncated": 0}
    for entry, expected_entry in zip(
        [walked["targetMemory"], *walked["associatedMemories"]],
        [expected["targetMemory"], *expected["associatedMemories"]],
        strict=True,
    ):
        complete(reading, entry)
        if not entry["success"]:
            assert entry["error"]["reason"] == "response_budget"
            entry |= {"success": True, "data": expected_entry["data"]}
            del entry["error"]

    same(walked, expected)


def read_with_links(reading: Reading, key: str) -> JsonObject:
    record = reading.call("memory_get", key=key, direction="both")
    assert "error" not in record, record
    data = complete(reading, record)["data"]
    links, backlinks = data.pop("links", []), data.pop("backlinks", [])
    totals = data.get("links_total", 0), data["backlinks_total"]
    offset = max(len(links), len(backlinks))

    while offset < max(totals):
        page = reading.call("memory_get", key=key, direction="both", links_offset=offset)["data"]
        more_links, more_backlinks = page.get("links", []), page.get("backlinks", [])
        assert more_links or more_backlinks, "every page goes on"
        links += more_links
        backlinks += more_backlinks
        offset += max(len(more_links), len(more_backlinks))

    for name, all_links in (("links", links), ("backlinks", backlinks)):
        if all_links:
            data[name] = all_links
    return record


def check_query(reading: Reading, namespace: NamespaceModel, query: JsonObject) -> list[JsonObject]:
    """Find memories, page by page, and compare with a filter over plain lists.

    Of many pages the first ones and the last one are read; return these.
    """
    matches = law_payloads.find_matches(namespace, query)
    expected = [
        {
            **law_payloads.describe_memory(namespace, memory),
            "key": memory.key,
            "version": memory.version,
        }
        for memory in matches
    ]

    offset = 0
    pages: list[JsonObject] = []
    request: JsonObject | None = {**query, "offset": offset}
    while request is not None:
        page = reading.call("query_memories", **request)
        assert "error" not in page, page
        assert page["total"] == len(expected)
        assert "failed" not in page

        found = page["memories"]
        same(found, expected[offset : offset + len(found)])
        assert found or offset == len(expected)

        offset += len(found)
        pages.append(page)
        assert page["has_more"] == (offset < len(expected))
        request = page.get("next_request")
        assert page["has_more"] == (request is not None)
        if request is not None:
            value, memory_id = law_payloads.find_memory_place(matches[offset - 1], query["sort_by"])
            same(request, {**query, "after": f"{offset}/{value}/{memory_id}"})
        if request is not None and len(pages) == MOST_PAGES:
            offset = max(offset, len(expected) - len(found))
            request = {**query, "offset": offset}

    return pages


def check_stats(reading: Reading, namespace: NamespaceModel) -> None:
    same(reading.call("get_memory_stats"), law_payloads.expect_stats(namespace))


def check_listing(
    reading: Reading, namespace: NamespaceModel, key: str | None, number: int
) -> None:
    if number % 3 == 0:
        check_list(reading, namespace)
    elif number % 3 == 1:
        check_changes(reading, namespace, max(namespace.version - number % 11, 0))
    elif key in namespace.memories:
        check_known(reading, namespace, key)


def check_list(reading: Reading, namespace: NamespaceModel) -> None:
    listed: list[JsonObject] = []
    request: JsonObject | None = {"archived": True, "limit": 40}
    while request is not None:
        page = reading.call("memory_list", **request)
        listed += page["memories"]
        request = page.get("next_request")

    expected: list[tuple[object, ...]] = []
    for key in sorted(namespace.memories):
        memory = namespace.memories[key]
        size = len(memory.content.encode())
        expected.append((key, memory.type, size, memory.version, memory.archived))

    found = [
        (item["key"], item["type"], item["size"], item["version"], item.get("archived", False))
        for item in listed
    ]
    assert found == expected


def check_changes(reading: Reading, namespace: NamespaceModel, since: int) -> None:
    page = reading.call("memory_changes", since=since, limit=500)
    changes = {change["id"]: change for change in page["changes"]}
    for memory in namespace.memories.values():
        change = changes.pop(memory.id, None)
        if memory.version > since:
            assert change is not None, memory.key
        if change is not None and change["action"] != "relinked":  # which gives no new version
            assert (change["key"], change["version"]) == (memory.key, memory.version)
    assert {change["action"] for change in changes.values()} <= {"deleted"}, changes


def check_known(reading: Reading, namespace: NamespaceModel, key: str) -> None:
    version = namespace.memories[key].version
    items = [{"memory": key, "known": version}, {"memory": key, "known": version + 1}]
    known, other = reading.call("read", items=items)["results"]
    assert known["unchanged"] is True
    assert not other.get("unchanged", False)


WALKS: dict[str, Direction] = {"walk out": "out", "walk in": "in", "walk both": "both"}
CHECKS = ["record", "content", "walk out", "walk in", "listing"]
CHECKS += ["walk both", "query", "recall", "stats"]
"""What is tried after an operation."""


def check(kind: str, reading: Reading, models: Models, key: str | None, number: int) -> None:
    """Make one of `CHECKS`, of a key if it needs one; the number chooses between ways to ask."""
    model = models[reading.namespace]
    match kind:
        case "record" if key is not None:
            check_record(reading, model, key)
        case "content" if key in model.memories:
            check_content(reading, model, key)
        case "listing":
            check_listing(reading, model, key, number)
        case "query" if key in model.memories:
            check_query(reading, model, law_payloads.find_by_piece(model.memories[key], number))
        case "recall" if key is not None:
            check_found(reading, model, key, number)
        case "stats":
            for name, namespace in models.items():
                check_stats(reading._replace(namespace=name), namespace)
        case _ if kind in WALKS and key in model.memories:
            breadth, total = (1, 2, 5, 20)[number % 4], (1, 3, 20, 50)[number % 4]
            limits = WalkLimits(1 + number % 6, breadth, total)
            check_walk(reading, model, key, limits, WALKS[kind])


def check_export(place: Place, models: Models, store_url: str | None = None) -> str:
    target = place.folder / "checked.jsonl"
    result = place.run("export", "--no-history", target, store_url=store_url)
    assert result.exit_code == 0, result.output

    text = target.read_text()
    target.unlink()
    expected: list[JsonObject] = []
    for name in sorted(models):
        expected += law_payloads.expect_exported(models[name], name)

    same(list(parse_export(text)), expected)
    return text


def parse_export(text: str) -> Iterable[object]:
    heading, *lines = text.split("\n")[:-1]
    assert json.loads(heading)["version"] == 3
    return [law_payloads.drop_counters(json.loads(line)) for line in lines]


def check_integrity(place: Place) -> None:
    result = place.run("check", "--json", "--full")
    assert result.exit_code == 0, result.output
    damage = [finding for finding in json.loads(result.stdout) if finding["state"] == "damaged"]
    assert not damage, damage


def check_backup(place: Place, models: Models) -> None:
    target = place.folder / "checked.backup"
    result = place.run("backup", target)
    assert result.exit_code == 0, result.output
    check_export(place, models, f"sqlite:///{target}")
    for leftover in place.folder.glob(f"{target.name}*"):
        leftover.unlink()


def check_copies(reading: Reading, models: Models) -> None:
    copying = reading._replace(namespace=COPY)

    for name, model in models.items():
        if not model.memories:
            continue

        target = reading.place.folder / "copied.jsonl"
        result = reading.place.run("export", "--namespace", name, target)
        assert result.exit_code == 0, result.output

        result = reading.place.run("import", "--namespace", COPY, target)
        assert result.exit_code == 0, result.output
        target.unlink()
        assert count_outcomes(result.stderr) == {"added": len(model.memories)}

        for memory in model.memories.values():
            _change_and_delete(copying, memory.id)

        same(copying.call("get_memory_stats"), law_payloads.expect_stats(NamespaceModel()))


def _change_and_delete(copying: Reading, memory_id: str) -> None:
    content = f"changed {memory_id}"
    changed = copying.call("update_memory", id=memory_id, content=content)
    assert "error" not in changed, changed
    found = copying.call("query_memories", search=content, archived=True)
    assert [memory["id"] for memory in found["memories"]] == [memory_id]
    deleted = copying.call("delete_memory", id=memory_id, permanent=True)
    assert deleted == {"success": True, "action": "deleted", "id": memory_id}


def count_outcomes(output: str) -> dict[str, int]:
    (line,) = [line for line in output.splitlines() if line.startswith("Imported: ")]
    return {name: int(count) for count, name in re.findall(r"(\d+) (\w+)", line)}


def same(actual: object, expected: object) -> None:
    """Assert that two payloads are the same JSON, access counters left out."""
    found, wanted = law_payloads.normalize(actual), law_payloads.normalize(expected)
    if found == wanted:
        return
    start = next(
        (n for n, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]),
        min(len(found), len(wanted)),
    )
    window = slice(max(start - 120, 0), start + 120)
    raise AssertionError(f"is {found[window]!r}, and must be {wanted[window]!r}")
