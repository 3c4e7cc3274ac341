"""Calls in either detail: a small store, and what concise answers to calls on it are."""

from typing import Any, NamedTuple

import jsonschema_rs

from abilities import Abilities, Settings, definition
from tests.support.catalog import BUILT_IN

Payload = dict[str, Any]

CONTENT = 'one, "two"\n- three: 3'


class Case(NamedTuple):
    """A call that asks for concise records, and the answer without versions and dates."""

    name: str
    arguments: Payload
    answer: Payload

    def __str__(self) -> str:
        return self.name + ", ".join(self.arguments)


def record(key: str, *, parent: str | None = None, depth: int = 1, score: float = 0.3) -> Payload:
    shown: Payload = {"key": key, "content": CONTENT}
    if parent is not None:
        shown |= {"score": score, "depth": depth, "parent": parent}
    return shown


async def fill(settings: Settings) -> dict[str, str]:
    """Store A, which leads to B and C, and B, which leads to D; return their ids by their keys."""
    ids: dict[str, str] = {}
    async with Abilities.open(settings) as abilities:
        for key, links in (("A", "BC"), ("B", "D"), ("C", ""), ("D", "")):
            memory: Payload = {"type": "core", "key": key, "content": CONTENT, "tags": ["t"]}
            memory |= {"links": [{"key": linked} for linked in links], "detail": "full"}
            ids[key] = (await abilities.call("store_memory", memory))["id"]
    return ids


def without_changing_values(payload: Any) -> Any:
    """Return an answer without what differs from run to run: versions, days and resume points."""
    if isinstance(payload, list):
        return [without_changing_values(value) for value in payload]
    if not isinstance(payload, dict):
        return payload

    changing = ("version", "date", "next", "next_request", "next_requests")
    return {
        name: without_changing_values(value)
        for name, value in payload.items()
        if name not in changing
    }


VALIDATORS = {
    ability.name: jsonschema_rs.validator_for(definition.build_schema(ability.answer))
    for ability in BUILT_IN
}


def check_schema(name: str, payload: Payload) -> None:
    VALIDATORS[name].validate(payload)
    (ability,) = (ability for ability in BUILT_IN if ability.name == name)
    ability.answer.model_validate(payload)


SUMMARY = {"requested": 3, "succeeded": 1, "failed": 2, "truncated": 0, "returned_chars": 5}
WALK = {"targetMemory": record("B"), "associatedMemories": [record("D", parent="B")]}

# fmt: off
CASES = [
    Case("file_read_bulk", {"paths": ["ok.txt", "../x", "none.txt"]}, {
        "results": [
            {"input": "ok.txt", "success": True, "content": "fine\n", "lines": 1},
            {"input": "../x", "success": False, "reason": "parent_traversal"},
            {"input": "none.txt", "success": False, "reason": "not_found"},
        ],
        "summary": SUMMARY,
    }),
    Case("file_read_bulk", {"paths": ["both.txt", "ok.txt"], "max_chars_per_file": 4}, {
        "results": [
            {"input": "both.txt", "success": True, "content": "from", "source": "agent",
             "lines": 1},
            {"input": "ok.txt", "success": True, "content": "fine", "lines": 1},
        ],
        "summary": {"requested": 2, "succeeded": 2, "failed": 0, "truncated": 2,
                    "returned_chars": 8},
    }),
    Case("memory_read_bulk", {
        "targets": [
            {"type": "stored", "key": "A"}, {"type": "stored", "key": "none"}, {"type": "stored"},
        ],
        "max_chars_per_item": 5,
    }, {
        "results": [
            {"type": "stored", "key": "A", "success": True, "content": "one, "},
            {"input": '{"type":"stored","key":"none"}', "success": False, "reason": "not_found"},
            {"input": '{"type":"stored"}', "success": False, "reason": "missing_argument",
             "message": "key is missing."},
        ],
        "summary": {**SUMMARY, "truncated": 1},
    }),
    Case("bulk_read_memory", {"key": "A", "total": 3}, {
        "targetMemory": record("A"),
        "associatedMemories": [record("B", parent="A"), record("D", parent="B", depth=2)],
        "metadata": {"limitsReached": ["total"], "frontier": ["C"]},
    }),
    Case("bulk_read_memory", {"key": "B"}, WALK),
    Case("memory_get", {"key": "A", "links_offset": 1, "direction": "both"}, record("A")),
    Case("memory_get", {"key": "B", "bulkRead": True}, WALK),
    Case("file_list", {"pattern": "{ok,both}.txt"}, {
        "files": [
            {"path": "both.txt", "source": "agent", "size_bytes": 14},
            {"path": "ok.txt", "size_bytes": 5},
        ],
        "has_more": False,
    }),
    Case("recall", {
        "queries": ["B: one or three?", "zebra"], "hops": 0, "notes": False, "at_least": 1,
    }, {
        "results": [
            {"input": "B: one or three?", "matched": 1, "confidence": "strong",
             "memories": [{"key": "B", "content": CONTENT, "score": 1.91}]},
            {"input": "zebra", "memories": [], "matched": 0, "confidence": "none",
             "unknown_words": ["zebra"]},
        ],
    }),
    Case("query_memories", {"search": "THREE", "sort_by": "created_at", "limit": 2}, {
        "memories": [{"key": key, "content": CONTENT, "score": 0.6} for key in "DC"],
        "total": 4, "limit": 2, "offset": 0, "has_more": True,
    }),
]
# fmt: on
"""Rows of the reading and finding abilities, on the sample files and the small store."""
