"""Values for memories: usual ones, those at the bounds, and hostile ones."""

from typing import Any

from hypothesis import strategies as st

from abilities.declarations.values import JsonObject
from tests.support.file_cases import Row
from tests.support.memory_cases import MEMORY_STORE_ROWS, nest

KEYS = [
    *"aAbcd",
    "\u00e9",
    "e\u0301",
    "ß",
    "ss",
    "project/goals",
    "a:b#L1",
    "%",
    "_",
    '"',
    "\\",
    "null",
]
KEYS += ["'; DROP TABLE memories; --", "שלום", "İ", "👩\u200d👧", "k" * 200, "😀" * 200, "ﷺ" * 200]
"""Keys that stores might mistake for each other, or take for something else."""

ALPHABET = list(
    'abAB \n\r\t"\\%_*\u0001\u007fäßİıσςﬁ世\u0301\ufe0f\u200d\u202e\u2028\ufeff👩🇩\U0010ffff'
)
short_texts = st.text(st.sampled_from(ALPHABET), max_size=20)


def rarely(
    rare: st.SearchStrategy[Any], usual: st.SearchStrategy[Any], times: int
) -> st.SearchStrategy[Any]:
    """Return a strategy that is the rare one once in so many times.

    A union would not do: it counts a strategy that is named several times as one.
    """
    return st.sampled_from([usual] * (times - 1) + [rare]).flatmap(lambda chosen: chosen)


def long_texts(limit: int) -> st.SearchStrategy[str]:
    return st.sampled_from(["x", "\u0001", "ß", "İ", "世", "😀", " ", "a\n"]).map(
        lambda piece: (piece * limit)[:limit]
    )


def texts(limit: int, *, least: int = 0) -> st.SearchStrategy[str]:
    usual = short_texts.map(lambda text: text[:limit]).filter(lambda text: len(text) >= least)
    return rarely(long_texts(limit), usual, 10)


keys = st.sampled_from(KEYS)
positions = st.integers(0, 20)
fractions = st.sampled_from([0, 1, 0.0, -0.0, 0.5, 0.25, 1.0, 1e-308, 5e-324, 1 / 3, 0.9999999])
fractions |= st.floats(0, 1)

plain_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0.0, -0.0, 1.0, 1e308, 5e-324, 2**63, 2**64 - 1, -(2**63)]),
    st.floats(allow_nan=False, allow_infinity=False),
    short_texts,
)
documents = st.recursive(
    plain_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short_texts, inner, max_size=3),
    max_leaves=6,
)
metadata = st.one_of(
    st.dictionaries(short_texts | st.just("accessed_at"), documents, max_size=3),
    st.fixed_dictionaries({"memory_score": fractions | st.none()}),
    st.sampled_from([15, 16]).map(nest),
    st.just({"m": "x" * 4_088}),
)

link_types = st.sampled_from(["association", "cause", "Cause", "ç", "replaced_by", "\u0001" * 50])
days = st.sampled_from(["2024-02-29", "2025-12-31", "2026-01-01", "2026-01-02", "2026-12-31"])
_link = {"link_weight": fractions, "type": link_types, "term": texts(200) | days | st.none()}
links = st.lists(st.fixed_dictionaries({"key": keys}, optional=_link), max_size=4)
many_links = st.builds(
    lambda count, kind, wide: [
        {"key": f"{n}{wide}"[:200], "type": kind, "link_weight": n % 7 / 7, "term": wide}
        for n in range(count)
    ],
    st.sampled_from([19, 20, 21, 45]),
    link_types,
    long_texts(200).filter(lambda text: text.strip() == text and text.isprintable()),
)
removals = st.lists(
    st.fixed_dictionaries({"key": keys}, optional={"type": link_types | st.none()}), max_size=3
)

types = st.sampled_from(["core", "learning", "task"])
importances = st.sampled_from(["high", "medium", "low"])
tags = st.lists(st.sampled_from(["t", "T", "ß", "ss", "a b"]) | texts(30, least=1), max_size=10)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "summary": texts(500),
    "category": texts(50),
    "tags": tags,
    "about": st.lists(st.sampled_from(["src/app.py", "src/*.{py,md}", "ß", "**"]), max_size=10),
    "importance": importances,
    "links": rarely(many_links, links, 12),
    "memory_score": fractions,
    "metadata": metadata,
}

_contents = texts(5_000, least=1)
new_memories = st.fixed_dictionaries(
    {"type": types, "content": _contents}, optional={**FIELDS, "key": keys}
)
_changing = {"content": _contents, "archived": st.booleans(), "remove_links": removals}
changes = st.fixed_dictionaries({}, optional={**FIELDS, **_changing})

_few = st.fixed_dictionaries(
    {"content": texts(20, least=1)},
    optional={"summary": texts(500), "importance": importances, "tags": tags},
)
_values: dict[str, st.SearchStrategy[JsonObject]] = {
    "store": st.builds(lambda few, **named: {**few, **named}, _few, key=keys, type=types),
    "update": _few,
    "append": st.fixed_dictionaries({"content": texts(20, least=1)}),
    "supersede": st.builds(
        lambda few, named: {**few, **named},
        _few,
        st.fixed_dictionaries({}, optional={"new_key": keys, "type": types}),
    ),
    "link": st.fixed_dictionaries({"links": links.filter(bool)}),
    "unlink": st.fixed_dictionaries({"remove_links": removals.filter(bool)}),
    "rename": st.fixed_dictionaries({"to": keys}),
    "archive": st.just({}),
    "delete": st.just({"permanent": True}),
}
operations = st.sampled_from(sorted(_values)).flatmap(
    lambda op: st.builds(
        lambda values, version: {"op": op, **values, **version},
        _values[op],
        st.sampled_from([{}, {}, {"if_version": 0}, {"if_version": 1}]),
    )
)
"""Operations of `remember`; its version is added to that of the memory, if it names one."""

questions = st.one_of(
    texts(1_000, least=1), keys, st.sampled_from(["ss and the ß", "project goals", "x" * 64, "?"])
)
cursors = st.lists(st.sampled_from(["", "", "", "0.AAAAAAAA", "9999._-_-_-_-"]), max_size=3)
filters: dict[str, st.SearchStrategy[object]] = {
    "type": types,
    "tags": st.lists(st.sampled_from(["t", "T", "ß", "ss", "a b"]), max_size=2),
    "category": texts(50),
    "importance": importances,
    "archived": st.booleans(),
}
recalls = st.fixed_dictionaries(
    {"queries": st.lists(questions, min_size=1, max_size=3)},
    optional={
        **filters,
        "max_tokens": st.sampled_from([400, 700, 1_000, 16_000]),
        "hops": st.integers(0, 2),
        "at_least": st.sampled_from((0, 0.5, 0.9, 1)),
        "within_days": st.sampled_from([1, 200, 36_500]),
        "as_of": days,
        "notes": st.booleans(),
        "after": cursors,
        "detail": st.sampled_from(["concise", "full"]),
    },
)
"""Arguments of `recall`; its calls may be refused for their size and their cursors."""

wild_texts = st.one_of(
    short_texts,
    st.text(max_size=5),
    st.sampled_from(["", "\0", "\ud800", "a\udfffb", "x" * 5_001, "x" * 501, "x" * 201, "x" * 51]),
)
wild_numbers = st.one_of(
    st.sampled_from([80, -1, 1e308, 2**64, 10**400, -(2**63) - 1, float("nan"), float("inf")]),
    st.integers(),
    st.floats(),
    st.booleans(),
)
wild_documents = st.one_of(
    st.dictionaries(wild_texts, wild_texts | wild_numbers, max_size=3),
    st.sampled_from([15, 16, 17, 18]).map(nest),
    st.sampled_from([4_087, 4_088, 4_089, 4_090]).map(lambda size: {"m": "x" * size}),
    st.fixed_dictionaries({"memory_score": wild_numbers | st.none()}),
)
_wild_link = {"link_weight": wild_numbers, "type": wild_texts, "term": wild_texts}
wild_links = st.lists(
    st.fixed_dictionaries({"key": keys | wild_texts}, optional=_wild_link), max_size=3
)
wild_changes = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("content", "summary", "category"), wild_texts),
        "tags": st.lists(wild_texts, max_size=11),
        "metadata": wild_documents,
        "memory_score": wild_numbers,
        "links": wild_links,
    },
)
"""Changes that may be accepted or refused: what is acknowledged must be kept."""

wrong_calls: st.SearchStrategy[Row] = st.sampled_from(MEMORY_STORE_ROWS)

times = st.sampled_from(
    ["2025-06-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"]
)
exported_links = st.lists(
    st.fixed_dictionaries(
        {"key": keys, "link_weight": fractions}, optional={"type": link_types, "term": texts(200)}
    ),
    max_size=3,
)
_kept = ("summary", "category", "tags", "memory_score", "metadata")
exported_memories = st.fixed_dictionaries(
    {
        **{"key": keys, "type": types, "content": _contents, "importance": importances},
        **dict.fromkeys(("created_at", "updated_at", "accessed_at"), times),
    },
    optional={
        **{name: FIELDS[name] for name in _kept},
        "archived": st.booleans(),
        "access_count": st.sampled_from([0, 1, 2**53 - 1]),
        "links": exported_links,
    },
)
"""Lines of an export, without namespace and id."""


def aim(row: Row, memory_id: str, key: str) -> JsonObject:
    arguments = dict(row.arguments)
    is_about_a_name = row.call is not None and row.call[0] in ("id_not_found", "invalid_id")
    if row.name == "update_memory" and not is_about_a_name:
        arguments["id"] = memory_id
    if row.name == "store_memory" and not is_about_a_name:
        arguments.setdefault("key", key)
    return arguments
