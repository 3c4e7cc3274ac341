"""Reads that tell what there is, what changed, and that a version is known already."""

from abilities.declarations.values import JsonObject
from tests.support.law_model import NamespaceModel
from tests.support.law_reading import Reading


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
