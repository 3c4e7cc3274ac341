"""The sets of `make bench-recall`: memories and questions, from files in other people's forms."""

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from abilities.declarations.values import JsonObject
from abilities.helpers.search.terms import LanguageName
from tests.support.recall_index import PlainMemory
from tests.support.recall_sample import Question

JOINED = 5
"""Memories that become one long memory."""

LEAST_QUESTIONS = 20
"""The least questions with short answers for which memories are joined."""

ANSWER_CHARS = 100
"""The most characters of an answer that is looked for in the text."""

_TURN = re.compile(r"D\d+:\d+")
_BEAM_MARK = re.compile(r"\s*->->.*$", re.DOTALL)
_LINK_WEIGHT = 0.5


class World(NamedTuple):
    """Memories of one namespace, and the questions about them."""

    memories: Sequence[PlainMemory]
    questions: Sequence[Question]


class RecallSet(NamedTuple):
    """Worlds of one kind, and the language of their words."""

    name: str
    worlds: Sequence[World]
    language: LanguageName = "english"


def load_sets(path: Path) -> list[RecallSet]:
    """Return the sets of a file or folder.

    - A list in JSON has the form of LoCoMo (Maharana et al., 2024).
    - ``{"language", "worlds": [{"memories", "questions"}]}``, in JSON or gzipped JSON, has worlds.
      If the questions have short answers, their memories are also joined to long ones.
    - A folder with ``chats/100K`` has the form of BEAM (mohammadtavakoli78/BEAM).
    - Any other folder has files of these forms.
    """
    if (path / "chats").is_dir():
        return [RecallSet("BEAM 100K, user turns", list(_list_beam(path / "chats" / "100K")))]
    if path.is_dir():
        return [one for file in sorted(path.iterdir()) if _is_data(file) for one in load_sets(file)]

    raw = path.read_bytes()
    data: Any = orjson.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    name = path.name.partition(".")[0]
    if isinstance(data, list):
        return [RecallSet(name, [_load_conversation(one) for one in cast(list[JsonObject], data)])]

    worlds = [_load_world(world) for world in data["worlds"]]
    sets = [RecallSet(name, worlds, data["language"])]
    joined = [join_memories(world) for world in worlds]
    if sum(len(world.questions) for world in joined) >= LEAST_QUESTIONS:
        sets.append(RecallSet(f"{name}, joined to long memories", joined, data["language"]))

    return sets


def _is_data(file: Path) -> bool:
    return file.is_dir() or file.name.endswith((".json", ".json.gz"))


def _load_world(world: JsonObject) -> World:
    memories: list[PlainMemory] = []
    for memory in world["memories"]:
        links = [(key, _LINK_WEIGHT) for key in memory["links"]]
        summary = memory.get("summary") or ""
        memories.append(PlainMemory(memory["key"], memory["content"], summary, links=links))

    questions: list[Question] = []
    for asked in world["questions"]:
        answer = asked.get("answer") or ""
        evidence = tuple(asked["evidence"])
        questions.append(Question(asked["question"], evidence, asked["category"], answer))

    return World(memories, questions)


def join_memories(world: World) -> World:
    """Return a world whose memories are joined to long ones, with the short answers' questions."""
    memories: list[PlainMemory] = []
    places: dict[str, str] = {}

    for start in range(0, len(world.memories), JOINED):
        part = world.memories[start : start + JOINED]
        key = f"long {start}"
        places |= dict.fromkeys((memory.key for memory in part), key)
        memories.append(PlainMemory(key, "\n\n".join(memory.content for memory in part)))

    questions: list[Question] = []
    for asked in world.questions:
        if 0 < len(asked.answer) <= ANSWER_CHARS:
            evidence = tuple(dict.fromkeys(places[key] for key in asked.evidence))
            questions.append(asked._replace(evidence=evidence, is_quoted=True))

    return World(memories, questions)


def _load_conversation(entry: JsonObject) -> World:
    """Return the turns of a conversation as memories, and its questions."""
    memories: list[PlainMemory] = []
    keys: dict[str, str] = {}

    for number, turns in _list_sessions(entry["conversation"]):
        date = entry["conversation"][f"session_{number}_date_time"].partition(" on ")[2]
        names = [f"s{number}/{place}" for place in range(1, len(turns) + 1)]

        for place, turn in enumerate(turns):
            content = f"[{date}] {turn['speaker']}: {turn['text']}"
            if turn.get("blip_caption"):
                content += f" [shares {turn['blip_caption']}]"

            beside = names[max(0, place - 1) : place] + names[place + 1 : place + 2]
            links = [(name, _LINK_WEIGHT) for name in beside]
            memories.append(PlainMemory(names[place], content, links=links))
            keys[turn["dia_id"]] = names[place]

    questions: list[Question] = []
    for asked in entry["questions"]:
        named = _TURN.findall(" ".join(asked["evidence"]))
        evidence = tuple(dict.fromkeys(keys[turn] for turn in named if turn in keys))
        if evidence:
            questions.append(Question(asked["question"], evidence, str(asked["category"])))

    return World(memories, questions)


def _list_sessions(conversation: JsonObject) -> Iterator[tuple[int, list[JsonObject]]]:
    """Yield the number and the turns of each session, in order."""
    number = 1
    while f"session_{number}_date_time" in conversation:
        yield number, conversation.get(f"session_{number}", [])
        number += 1


def _list_beam(folder: Path) -> Iterator[World]:
    """Yield the worlds of BEAM: the user's turns, each linked to the one before."""
    for chat in sorted(folder.iterdir(), key=lambda one: int(one.name)):
        memories: list[PlainMemory] = []
        for batch in orjson.loads((chat / "chat.json").read_bytes()):
            for turn in (turn for turns in batch["turns"] for turn in turns):
                if turn["role"] != "user":
                    continue
                links = [(memories[-1].key, _LINK_WEIGHT)] if memories else []
                content = _BEAM_MARK.sub("", turn["content"])
                memories.append(PlainMemory(f"t{turn['id']}", content, links=links))

        keys = {memory.key for memory in memories}
        questions: list[Question] = []
        probing = chat / "probing_questions" / "probing_questions.json"
        for category, asked in orjson.loads(probing.read_bytes()).items():
            for one in asked:
                named = (f"t{number}" for number in _list_numbers(one.get("source_chat_ids", [])))
                evidence = tuple(dict.fromkeys(key for key in named if key in keys))
                if evidence:
                    questions.append(Question(one["question"], evidence, category))

        yield World(memories, questions)


def _list_numbers(value: object) -> Iterator[int]:
    """Yield the numbers in nested lists and objects, in order."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict):
        yield from _list_numbers(list(cast(dict[str, object], value).values()))
    elif isinstance(value, list):
        for one in cast(list[object], value):
            yield from _list_numbers(one)
