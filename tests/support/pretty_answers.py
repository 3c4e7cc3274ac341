"""An answer of each kind of every built-in ability, for tests of how people see them."""

from typing import Any

from abilities import Abilities, AbilityError, Settings
from abilities.cli.records import AnsweredCall

Arguments = dict[str, Any]

LONG = "Test, then ship. 世界 " * 20


class Recorder:
    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities
        self.answers: list[AnsweredCall] = []

    async def call(self, name: str, **arguments: Any) -> Arguments:
        try:
            payload = await self._abilities.call(name, arguments)
        except AbilityError as error:
            payload = {"error": error.fault.to_payload()}
        self.answers.append(AnsweredCall(name, arguments, payload))
        return payload


async def record_answers(settings: Settings) -> list[AnsweredCall]:
    """Fill the roots and the store, and return answers with every kind of record and rest."""
    settings.agent_dir.mkdir(exist_ok=True)
    (settings.agent_dir / "MEMORY.md").write_text("Ada likes tea.\n")
    for name in ("a.md", "b.md", "世界.md"):
        (settings.workspace_dir / name).write_text("tea and words\n" * 1_500)

    async with Abilities.open(settings) as abilities:
        recorder = Recorder(abilities)
        await _write(recorder)

        for detail in ("full", "concise"):
            await _read(recorder, detail)

        await _look(recorder)
        await _fail(recorder)
    return recorder.answers


async def _write(recorder: Recorder) -> None:
    links = [{"key": "plan", "link_weight": 0.9, "term": "how"}, {"key": "tea"}, {"key": "gone"}]
    goals = {"type": "core", "key": "goals", "content": "Ship it.\nAll of it.", "links": links}
    made = await recorder.call("store_memory", **goals, tags=["x"], metadata={"size": 3})
    await recorder.call("store_memory", type="task", key="plan", content=LONG, detail="concise")
    tea = {"type": "learning", "key": "tea", "content": "Ada likes tea.", "summary": "tea"}
    await recorder.call("store_memory", **tea, links=[{"key": "deep"}])
    await recorder.call("store_memory", type="core", key="deep", content="Deep.")
    await recorder.call("update_memory", id=made["id"], category="aim")

    spare = await recorder.call("store_memory", type="core", key="spare", content="Old.")
    ways: list[Arguments] = [{}, {"permanent": True}, {"permanent": True, "detail": "concise"}]
    for wanted in ways:
        await recorder.call("delete_memory", id=spare["id"], **wanted)
        await recorder.call("memory_restore", id=spare["id"], version=spare["memory"]["version"])

    store = {"op": "store", "type": "core", "key": "long", "content": "word " * 1_800}
    append = {"op": "append", "key": "nobody", "content": "x"}
    ways = [{"detail": "full"}, {"atomic": True}, {}]
    for wanted in ways:
        await recorder.call("remember", operations=[store, {"op": "link"}, append], **wanted)
    gone = {"op": "delete", "key": "long", "permanent": True}
    await recorder.call("remember", operations=[gone])


async def _read(recorder: Recorder, detail: str) -> None:
    paths = ["a.md", "b.md#L1-L9", "世界.md", "none.md", "a.md", "b.md", "a.md", "b.md", "a.md"]
    await recorder.call("file_read_bulk", paths=paths, detail=detail)
    targets = [{"type": "long_term"}, {"type": "stored", "key": "plan"}, {"type": "stored"}]
    await recorder.call("memory_read_bulk", targets=targets, max_chars_per_item=9, detail=detail)
    for direction in ("out", "both"):
        walk = {"key": "goals", "depth": 1, "direction": direction, "detail": detail}
        await recorder.call("bulk_read_memory", **walk)
        await recorder.call("memory_get", key="tea", direction=direction, detail=detail)

    await recorder.call("memory_get", key="goals", bulkRead=True, detail=detail)
    await recorder.call("query_memories", limit=2, detail=detail)
    await recorder.call("recall", queries=["tea", "zebra"], hops=1, detail=detail)
    items: list[object] = ["a.md", {"glob": "*.md"}, {"memory": "goals", "depth": 2}, "none.md"]
    items += [{"recall": "tea"}, {"search": "tea"}]
    await recorder.call("read", items=items, detail=detail)
    await recorder.call("read", items=items, plan=True, max_tokens=1_000, detail=detail)
    await recorder.call("file_list", limit=2, detail=detail)


async def _look(recorder: Recorder) -> None:
    await recorder.call("file_list")
    await recorder.call("get_memory_stats")
    await recorder.call("memory_list", limit=2, archived=True)
    await recorder.call("memory_history", key="spare", limit=2)
    await recorder.call("memory_changes", limit=2)
    await recorder.call("memory_changes", since=1_000)
    await recorder.call("memory_get", key="long", whole=True)
    await recorder.call("query_memories", search="nowhere")


async def _fail(recorder: Recorder) -> None:
    await recorder.call("query_memories", limit=1_000, sort_by="size")
    await recorder.call("memory_get", key="none")
    await recorder.call("file_read_bulk", path=["a.md"])
