"""The steps of a trial of the past, and the values that they may take."""

from typing import Literal, NamedTuple

from hypothesis import strategies as st

from abilities.declarations.values import JsonObject
from abilities.helpers.stores.changes import Kind

_KINDS: list[Kind] = [
    *("store", "store", "update", "update", "update", "append", "archive", "delete"),
    *("restore", "restore", "restore", "purge"),
]
_texts = st.sampled_from(["a", "b\n", "ß\u0301", "\U0001f9e0", "x" * 2_000])
_keys = st.sampled_from(["a", "b", "c", "d\U0001f9e0", "d"])
_links = st.lists(
    st.fixed_dictionaries(
        {
            "key": _keys,
            "link_weight": st.sampled_from([0.0, 0.5, 1 / 3]),
            "type": st.sampled_from(["association", "part"]),
        },
        optional={"term": _texts},
    ),
    max_size=3,
)
_fields = st.fixed_dictionaries(
    {},
    optional={
        "content": _texts,
        "summary": _texts,
        "category": st.sampled_from(["", "x"]),
        "tags": st.lists(st.sampled_from(["t", "u", "ß"]), max_size=3),
        "importance": st.sampled_from(["low", "high"]),
        "memory_score": st.sampled_from([0.0, 1.0]),
        "metadata": st.dictionaries(_texts, st.sampled_from([None, 1, [0.5]]), max_size=2),
        "archived": st.booleans(),
    },
)


class Wish(NamedTuple):
    """A change to be made: what names its memory is a position among those that ever were.

    ``condition`` says which version it names, ``end`` after how many seconds the memory expires.
    """

    kind: Kind
    position: int
    by_key: bool
    key: str
    fields: JsonObject
    links: list[JsonObject]
    removed: list[JsonObject]
    version: int
    condition: Literal["none", "right", "stale"]
    end: int | None


class Step(NamedTuple):
    """What is done at once: changes, or a task; so many milliseconds after the last step."""

    task: Literal["change", "follow", "list", "forget"]
    wishes: list[Wish]
    atomic: bool
    limit: int
    milliseconds: int


_wishes = st.builds(
    Wish,
    kind=st.sampled_from(_KINDS),
    position=st.integers(0, 9),
    by_key=st.booleans(),
    key=_keys,
    fields=_fields,
    links=_links,
    removed=st.lists(
        st.fixed_dictionaries({"key": _keys, "type": st.sampled_from([None, "part"])}), max_size=1
    ),
    version=st.integers(0, 40),
    condition=st.sampled_from(["none", "none", "right", "stale"]),
    end=st.sampled_from([None, None, None, None, 1, 60]),
)
steps = st.builds(
    Step,
    task=st.sampled_from(["change"] * 7 + ["follow", "follow", "list", "forget"]),
    wishes=st.lists(_wishes, min_size=1, max_size=4),
    atomic=st.booleans(),
    limit=st.integers(1, 5),
    milliseconds=st.sampled_from([0, 1, 2_000, 2_000, -5_000]),
)
