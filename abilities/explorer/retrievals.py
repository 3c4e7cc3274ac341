"""What callers of a server were given: which memories, when, and for which question.

It is kept in the memory of the process alone, and none of it is logged.
"""

from collections import deque
from collections.abc import Iterator
from typing import cast

from abilities.declarations.values import JsonObject, as_object, utc_now

MAX_KEPT = 1_000
"""Answers that are kept, the latest ones of all namespaces."""

MAX_LISTED = 20
"""Answers in a list, the latest ones."""

MAX_KEYS = 51
"""Memories of an answer that are kept: as many as a walk returns at most."""

_PARTS = ("results", "memories", "targetMemory", "associatedMemories")
"""The fields of answers with memories, or with records that have some."""


class Retrievals:
    """The latest answers of a server that had memories."""

    def __init__(self) -> None:
        self._since = utc_now()
        self._kept: deque[tuple[str, JsonObject]] = deque(maxlen=MAX_KEPT)

    def add(self, namespace: str, by: str, ability: str, payload: JsonObject) -> None:
        """Note what a caller was given, once per question."""
        found: dict[str, dict[str, None]] = {}
        for question, key in _find_memories(payload):
            found.setdefault(question, {})[key] = None

        made: JsonObject = {"by": by, "ability": ability, "at": utc_now()}
        for question, keys in found.items():
            self._kept.append(
                (namespace, {**made, "question": question, "keys": [*keys][:MAX_KEYS]})
            )

    def list_latest(self, namespace: str, key: object = None) -> JsonObject:
        """Return the latest retrievals of a namespace, or those of one memory, and their number.

        ``since`` is when the server began to keep them.
        """
        kept = [one for name, one in self._kept if name == namespace]
        if key is not None:
            kept = [one for one in kept if key in one["keys"]]

        return {
            "retrievals": kept[: -MAX_LISTED - 1 : -1],
            "total": len(kept),
            "since": self._since,
        }


def _find_memories(value: object, question: str = "") -> Iterator[tuple[str, str]]:
    """Yield the question and the key of each memory in an answer, of the own namespace alone."""
    if isinstance(value, list):
        for one in cast(list[object], value):
            yield from _find_memories(one, question)
        return

    record = as_object(value)
    if record is None:
        return

    # A full record has its content in ``data``, and sometimes its key beside that.
    fields = {**record, **(as_object(record.get("data")) or {})}
    key, asked = fields.get("key"), fields.get("input")
    if "memories" in fields and isinstance(asked, str):
        question = asked
    if "content" in fields and "from" not in fields and isinstance(key, str):
        yield question, key

    for name in _PARTS:
        yield from _find_memories(fields.get(name), question)
