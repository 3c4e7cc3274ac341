"""Rows B and S of the acceptance table that need only a store: requests, and what they get."""

from typing import Any

from abilities.declarations.refusals import Reason
from tests.support.file_cases import Row, refused

UNKNOWN = "00000000-0000-4000-8000-000000000000"
KEYS: list[Any] = [
    "",
    "k" * 201,
    " a",
    "a ",
    "a\0",
    "a\n",
    "a\u202e",
    "a\u2028",
    "\ufffd",
    "\ud800",
]
BOUNDS = {
    "depth": {"minimum": 1, "maximum": 6},
    "breadth": {"minimum": 1, "maximum": 20},
    "total": {"minimum": 1, "maximum": 50},
}
TOO_FAR = [("depth", 7), ("depth", 0), ("depth", -1), ("breadth", 21), ("total", 51)]
NO_INTEGERS = [
    ("breadth", 1.5),
    ("breadth", True),
    ("total", "１"),
    ("total", "1_0"),
    ("total", " 3"),
]
LIMITS: list[tuple[str, Any, Reason, dict[str, Any]]] = [
    *[(name, value, "out_of_range", {}) for name, value in (*TOO_FAR, ("depth", 10**400))],
    *[(name, value, "wrong_type", {"type": "integer"}) for name, value in NO_INTEGERS],
]
IDS: list[Any] = [
    "0" * 36,
    "A0000000-0000-4000-8000-000000000000",
    "00000000-0000-1000-8000-000000000000",
    UNKNOWN + "\n",
    "{" + UNKNOWN + "}",
    "urn:uuid:" + UNKNOWN,
    "",
    "x",
]
CONTENTS: list[tuple[Any, Reason]] = [
    ("", "too_short"),
    ("x" * 5001, "too_long"),
    ("a\0b", "invalid_format"),
    ("a\ud800b", "invalid_format"),
    (None, "wrong_type"),
    (5, "wrong_type"),
]
UNIT = {"minimum": 0, "maximum": 1}
NUMBER = {"type": "number", **UNIT}
JSON_FORM = {
    "format": "JSON of at most 16 levels, without NaN, infinities or integers over 64 bits"
}
SCORES: list[tuple[Any, Reason, dict[str, Any]]] = [
    *[(score, "out_of_range", UNIT) for score in (80, -1, 1e308, 10**400, float("inf"))],
    *[(score, "wrong_type", NUMBER) for score in (float("nan"), "inf", "x", True, [1])],
]


def nest(levels: int) -> Any:
    """Return objects and arrays within each other, in turns; the outermost is an object."""
    value: Any = {}
    for level in range(levels - 1, 0, -1):
        value = {"a": value} if level % 2 else [value]
    return value


STORES: list[tuple[str, Any, Reason, str, dict[str, Any] | None]] = [
    ("tags", ["t" * 31], "too_long", "tags[0]", {"min_length": 1, "max_length": 30}),
    ("tags", ["t"] * 11, "too_many", "tags", {"max_items": 10}),
    ("tags", "t", "wrong_type", "tags", None),
    ("tags", ["t", ""], "too_short", "tags[1]", {"min_length": 1, "max_length": 30}),
    ("category", "c" * 51, "too_long", "category", {"max_length": 50}),
    ("summary", "s" * 501, "too_long", "summary", {"max_length": 500}),
    ("importance", "HIGH", "not_one_of", "importance", {"one_of": ["high", "medium", "low"]}),
    ("type", "memory", "not_one_of", "type", {"one_of": ["core", "learning", "task"]}),
    *[("memory_score", score, reason, "memory_score", rule) for score, reason, rule in SCORES],
    ("memory_score", 1.1, "out_of_range", "memory_score", UNIT),
    ("metadata", {"m": "x" * 4100}, "too_long", "metadata", {"max_bytes": 4096}),
    ("metadata", [], "wrong_type", "metadata", {"type": "object"}),
    *[
        ("metadata", value, "invalid_format", "metadata", JSON_FORM)
        for value in (
            {"big": 2**70},
            {"deep": {"no": [float("inf")]}},
            {"none": float("nan")},
            {"low": -(2**63) - 1},
            {"huge": [10**400]},
            '{"a":' * 17 + "1" + "}" * 17,
        )
    ],
    ("metadata", {"half": "\ud800"}, "invalid_format", "metadata", None),
    ("metadata", {"in": {"\ud800": 1}}, "invalid_format", "metadata", None),
    *[
        ("metadata", {"memory_score": score}, reason, "metadata.memory_score", rule)
        for score, reason, rule in SCORES
    ],
    ("tags", "\ud800", "wrong_type", "tags", None),
    ("links", "\ud800", "wrong_type", "links", None),
    ("links", [{"key": "a", "link_weight": 2}], "out_of_range", "links[0].link_weight", UNIT),
    ("links", [{"link_weight": 0.5}], "missing_argument", "links[0].key", None),
    ("links", [{"key": "a", "extra": 1}], "unknown_argument", "links[0].extra", None),
    ("links", [{"key": "a"}] * 1001, "too_many", "links", {"max_items": 1000}),
    ("extra", 1, "unknown_argument", "extra", None),
]
FIELDS = ["created_at", "updated_at", "accessed_at", "importance", "access_count"]
OFFSETS = {"minimum": 0, "maximum": 2**53 - 1}
QUERIES: list[tuple[str, Any, Reason, dict[str, Any]]] = [
    *[("limit", limit, "out_of_range", {"minimum": 1, "maximum": 100}) for limit in (0, 101)],
    *[("offset", offset, "out_of_range", OFFSETS) for offset in (-1, 2**63, 10**400)],
    ("sort_by", "key", "not_one_of", {"one_of": FIELDS}),
    ("sort_by", "created_at; DROP TABLE memories", "not_one_of", {"one_of": FIELDS}),
    ("sort_order", "up", "not_one_of", {"one_of": ["asc", "desc"]}),
    ("search", "x" * 201, "too_long", {"max_length": 200}),
    ("tags", ["t"] * 101, "too_many", {"max_items": 100}),
    ("archived", "yes", "wrong_type", {"type": "boolean"}),
    ("type", ["core"], "not_one_of", {"one_of": ["core", "learning", "task"]}),
]
QUESTION = {"min_length": 1, "max_length": 1000}
QUESTIONS = {"min_items": 1, "max_items": 8}
TOKENS = {"minimum": 400, "maximum": 16_000}
RECALLS: list[tuple[str, Any, Reason, str | None, dict[str, Any] | None]] = [
    ("queries", [], "too_few", "queries", QUESTIONS),
    ("queries", ["q"] * 9, "too_many", "queries", QUESTIONS),
    ("queries", "", "too_short", "queries[0]", QUESTION),
    ("queries", ["q", ""], "too_short", "queries[1]", QUESTION),
    ("queries", ["x" * 1_001], "too_long", "queries[0]", QUESTION),
    ("queries", ["a\0b"], "invalid_format", "queries[0]", None),
    ("queries", ["a\ud800b"], "invalid_format", "queries[0]", None),
    ("queries", [5], "wrong_type", "queries[0]", None),
    *[("queries", value, "wrong_type", "queries", None) for value in (5, {"q": 1}, None)],
    ("queries", ["世" * 1_000] * 3, "too_long", "queries", {"max_bytes": 8_192}),
    *[
        ("max_tokens", tokens, "out_of_range", "max_tokens", TOKENS)
        for tokens in (199, 399, 16_001, 10**400)
    ],
    ("max_tokens", "many", "wrong_type", "max_tokens", {"type": "integer", **TOKENS}),
    *[("hops", hops, "out_of_range", "hops", {"minimum": 0, "maximum": 2}) for hops in (3, -1)],
    ("within_days", 0, "out_of_range", "within_days", {"minimum": 1, "maximum": 36_500}),
    ("type", "fact", "not_one_of", "type", {"one_of": ["core", "learning", "task"]}),
    ("tags", ["t"] * 11, "too_many", "tags", {"max_items": 10}),
    ("category", "c" * 51, "too_long", "category", {"max_length": 50}),
    ("notes", "yes", "wrong_type", "notes", {"type": "boolean"}),
    ("after", ["1.abcdefgh", "2.abcdefgh"], "too_many", "after", {"min_items": 1, "max_items": 1}),
    *[
        ("after", [cursor], "invalid_format", "after[0]", None)
        for cursor in ("1", "-1.abcdefgh", "1.abcdefgh\n", "99999.abcdefgh", "1.'; DROP")
    ],
    ("after", ["0.abcdefgh"], "memories_changed", None, None),
    ("detail", "brief", "not_one_of", "detail", {"one_of": ["full", "concise"]}),
    ("query", "another", "repeated_argument", "query", None),
    ("limit", 3, "unknown_argument", "limit", None),
]
DISAGREE: dict[str, Any] = {"key": "a", "total": 3, "totalLimit": 4}

# fmt: off
MEMORY_STORE_ROWS: list[Row] = [
    *[
        refused(f"B1-{name}-{n}", "invalid_key", "key", name, key=key)
        for name in ("bulk_read_memory", "memory_get") for n, key in enumerate(KEYS)
    ],
    refused("B1-number", "wrong_type", "key", "memory_get", key=5),
    refused("B2", "memory_not_found", None, "bulk_read_memory", key="no/such:key"),
    refused("B2-get", "memory_not_found", None, "memory_get", key="no/such:key"),
    *[
        refused(f"B3-{n}", reason, name, "bulk_read_memory", expected={**rule, **BOUNDS[name]},
                key="a", **{name: value})
        for n, (name, value, reason, rule) in enumerate(LIMITS)
    ],
    refused("B3-get", "out_of_range", "depth", "memory_get", expected=BOUNDS["depth"], key="a",
            depth=7),
    Row("B3-disagree", DISAGREE, call=("repeated_argument", "totalLimit"), name="bulk_read_memory"),
    refused("B10", "not_one_of", "output_format", "bulk_read_memory", key="a", output_format="xml",
            expected={"one_of": ["json", "text", "toon", "auto"]}),
    *[
        refused(f"S1-content-{n}", reason, "content", "store_memory", type="core", content=content)
        for n, (content, reason) in enumerate(CONTENTS)
    ],
    *[
        Row(f"S1-{n}", {"type": "core", "content": "x", name: value}, call=(reason, field),
            expected=expected, name="store_memory")
        for n, (name, value, reason, field, expected) in enumerate(STORES)
    ],
    *[
        refused(f"S2-{n}", "invalid_id", "id", "update_memory", id=value, content="x")
        for n, value in enumerate(IDS)
    ],
    *[
        refused(f"S1-update-{n}", reason, "metadata.memory_score", "update_memory", expected=rule,
                id=UNKNOWN, metadata={"memory_score": score})
        for n, (score, reason, rule) in enumerate(SCORES)
    ],
    refused("S2-delete", "invalid_id", "id", "delete_memory", id="x"),
    refused("S3-update", "id_not_found", None, "update_memory", id=UNKNOWN, content="x"),
    refused("S3-delete", "id_not_found", None, "delete_memory", id=UNKNOWN),
    refused("S3-store", "id_not_found", None, "store_memory", id=UNKNOWN, type="core", content="x"),
    *[
        refused(f"S5-{n}", reason, name, "query_memories", expected=expected, **{name: value})
        for n, (name, value, reason, expected) in enumerate(QUERIES)
    ],
    *[
        Row(f"R1-{n}", {"queries": ["q"], name: value}, call=(reason, field), expected=expected,
            name="recall")
        for n, (name, value, reason, field, expected) in enumerate(RECALLS)
    ],
    refused("R1-none", "missing_argument", "queries", "recall"),
    refused("R1-tokens-of-three", "out_of_range", "max_tokens", "recall", max_tokens=999,
            expected={"minimum": 1_000, "maximum": 16_000}, queries=["a", "b", "c"]),
    refused("R1-after-of-two", "too_few", "after", "recall", queries=["a", "b"], after=[""],
            expected={"min_items": 2, "max_items": 2}),
]
# fmt: on
