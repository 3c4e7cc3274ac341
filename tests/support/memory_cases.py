"""Rows B and S of the acceptance table that need only a store: requests, and what they get."""

from typing import Any

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
LIMITS: list[tuple[str, Any]] = [
    ("depth", 7),
    ("depth", 0),
    ("depth", -1),
    ("breadth", 21),
    ("breadth", 1.5),
    ("breadth", True),
    ("total", 51),
    ("total", "１"),
    ("total", "1_0"),
    ("total", " 3"),
    ("depth", 10**400),
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
CONTENTS: list[Any] = ["", "x" * 5001, "a\0b", "a\ud800b", None, 5]
STORES: list[tuple[str, Any]] = [
    ("tags", ["t" * 31]),
    ("tags", ["t"] * 11),
    ("tags", "t"),
    ("tags", [""]),
    ("category", "c" * 51),
    ("summary", "s" * 501),
    ("importance", "HIGH"),
    ("type", "memory"),
    ("memory_score", 1.1),
    ("memory_score", "high"),
    ("memory_score", True),
    ("metadata", {"m": "x" * 4100}),
    ("metadata", []),
    ("metadata", {"big": 2**70}),
    ("metadata", {"deep": {"infinite": [float("inf")]}}),
    ("metadata", {"none": float("nan")}),
    ("links", [{"key": "a", "link_weight": 2}]),
    ("links", [{"link_weight": 0.5}]),
    ("links", [{"key": "a", "extra": 1}]),
    ("links", [{"key": "a"}] * 1001),
    ("extra", 1),
]
QUERIES: list[tuple[str, Any]] = [
    ("limit", 0),
    ("limit", 101),
    ("offset", -1),
    ("offset", 2**63),
    ("offset", 10**400),
    ("sort_by", "key"),
    ("sort_by", "created_at; DROP TABLE memories"),
    ("sort_order", "up"),
    ("search", "x" * 201),
    ("archived", "yes"),
    ("type", ["core"]),
]
DISAGREE: dict[str, Any] = {"key": "a", "total": 3, "totalLimit": 4}

MEMORY_STORE_ROWS: list[Row] = [
    *[
        refused(f"B1-{n}", "invalid_key", "key", "bulk_read_memory", key=key)
        for n, key in enumerate(KEYS)
    ],
    *[
        refused(f"B1-get-{n}", "invalid_key", "key", "memory_get", key=key)
        for n, key in enumerate(KEYS)
    ],
    refused("B1-number", "invalid_parameter", "key", "memory_get", key=5),
    refused("B2", "memory_not_found", None, "bulk_read_memory", key="no/such:key"),
    refused("B2-get", "memory_not_found", None, "memory_get", key="no/such:key"),
    *[
        refused(f"B3-{n}", "invalid_parameter", name, "bulk_read_memory", key="a", **{name: value})
        for n, (name, value) in enumerate(LIMITS)
    ],
    refused("B3-get", "invalid_parameter", "depth", "memory_get", key="a", depth=7),
    Row("B3-disagree", DISAGREE, call=("invalid_parameter", None), name="bulk_read_memory"),
    refused(
        "B10",
        "invalid_parameter",
        "output_format",
        "bulk_read_memory",
        key="a",
        output_format="xml",
    ),
    *[
        refused(
            f"S1-content-{n}",
            "invalid_parameter",
            "content",
            "store_memory",
            type="core",
            content=content,
        )
        for n, content in enumerate(CONTENTS)
    ],
    *[
        Row(
            f"S1-{n}",
            {"type": "core", "content": "x", name: value},
            call=("invalid_parameter", name),
            name="store_memory",
        )
        for n, (name, value) in enumerate(STORES)
    ],
    *[
        refused(f"S2-{n}", "invalid_id", "id", "update_memory", id=value, content="x")
        for n, value in enumerate(IDS)
    ],
    refused("S2-delete", "invalid_id", "id", "delete_memory", id="x"),
    refused("S3-update", "id_not_found", None, "update_memory", id=UNKNOWN, content="x"),
    refused("S3-delete", "id_not_found", None, "delete_memory", id=UNKNOWN),
    refused("S3-store", "id_not_found", None, "store_memory", id=UNKNOWN, type="core", content="x"),
    *[
        refused(f"S5-{n}", "invalid_parameter", name, "query_memories", **{name: value})
        for n, (name, value) in enumerate(QUERIES)
    ],
]
