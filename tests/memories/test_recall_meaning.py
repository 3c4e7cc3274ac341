"""`recall` with an embedder: what it finds by meaning, and what an embedder cannot break."""

import asyncio
import logging
import re
import sys
import threading
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings
from abilities.cli.doctor import diagnose
from abilities.declarations.recall import RecallInput
from abilities.embedders import GROUP
from abilities.helpers.embedder import SCALE, EmbedderFailed, Vectorizer
from abilities.helpers.memory import meaning
from abilities.helpers.memory.meaning import VectorMeaning
from tests.support.plugins import install
from tests.support.programs import run_code
from tests.support.synonyms import DIMENSIONS, WRONG, BadEmbedder, SynonymEmbedder

Payload = dict[str, Any]

SYNONYMS = SynonymEmbedder()
BAD = BadEmbedder()
POINTS = {
    "bad": "tests.memories.test_recall_meaning:BAD",
    "class": "tests.support.synonyms:SynonymEmbedder",
    "missing": "no_such_module:embedder",
    "synonyms": "tests.memories.test_recall_meaning:SYNONYMS",
    "wrong": "tests.support.synonyms:WRONG",
}


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "installed"
    folder.mkdir()
    SYNONYMS.calls.clear()
    with install(folder, {}, POINTS, monkeypatch, GROUP):
        yield


def choose(roots: Settings, name: str | None) -> Settings:
    return roots.model_copy(update={"embedder": name, "timezone": "UTC"})


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    """An application that ranks by meaning too."""
    async with Abilities.open(choose(roots, "synonyms")) as abilities:
        await fill(abilities)
        yield abilities


async def fill(abilities: Abilities) -> None:
    await store(abilities, "garage", "The automobile is red.")
    await store(abilities, "clinic", "Her physician moved to Basel.")
    await store(abilities, "engine", "The car of the museum.", tags=["old"])
    await store(abilities, "rain", "It rained all week.")


async def store(abilities: Abilities, key: str, content: str, **more: Any) -> None:
    memory = {"type": "core", "key": key, "content": content, **more}
    await abilities.call("store_memory", memory)


async def recall(abilities: Abilities, *queries: str, **more: Any) -> Payload:
    return await abilities.call("recall", {"queries": list(queries), **more})


async def ask(abilities: Abilities, query: str, **more: Any) -> list[str]:
    """Return what answers a question by keys and filenames, best first."""
    payload = await recall(abilities, query, **more)
    records = payload["results"][0]["memories"]
    return [record.get("key") or record["filename"] for record in records]


async def test_what_shares_no_word_with_the_question_is_found(app: Abilities) -> None:
    assert await ask(app, "vehicle") == ["engine", "garage"]
    assert await ask(app, "surgeon") == ["clinic"]
    assert await ask(app, "zebra") == []


async def test_without_an_embedder_words_alone_find(roots: Settings) -> None:
    async with Abilities.open(choose(roots, None)) as abilities:
        await fill(abilities)
        assert await ask(abilities, "vehicle") == []
        assert await ask(abilities, "car") == ["engine"]

    assert SYNONYMS.calls == []


async def test_similarity_adds_to_the_score_by_words(app: Abilities, roots: Settings) -> None:
    payload = await recall(app, "the red automobile", detail="full")

    first, second = payload["results"][0]["data"]["memories"]
    assert (first["key"], list(first["words"])) == ("garage", ["red", "automobile"])
    assert second["key"] == "engine" and "words" not in second
    assert 0 < second["score"] == second["own_score"] < first["score"]
    for place, memory in ((1, first), (2, second)):
        told = await app.context.memory.explain(
            memory["key"], RecallInput(queries=["the red automobile"])
        )
        parts = told.get("by_words", 0) * told.get("named", 1) + told["by_meaning"]
        assert (told["place"], told["score"]) == (place, memory["score"])
        assert parts == pytest.approx(told["score"], abs=0.006)

    async with Abilities.open(choose(roots, None)) as plain:
        payload = await recall(plain, "the red automobile", detail="full")
        assert payload["results"][0]["data"]["memories"][0]["score"] < first["score"]


async def test_what_meaning_alone_answers_is_weak(app: Abilities) -> None:
    for query, confidence in {
        "surgeon": "weak",
        "physician Basel": "strong",
        "zebra": "none",
    }.items():
        payload = await recall(app, query)
        assert payload["results"][0]["confidence"] == confidence


async def test_filters_hold_for_what_is_found_by_meaning(app: Abilities) -> None:
    assert await ask(app, "vehicle", tags=["old"]) == ["engine"]
    assert await ask(app, "vehicle", type="task") == []
    assert await ask(app, "vehicle", within_days=1) == ["engine", "garage"]

    memory = await app.call("memory_get", {"key": "garage"})
    await app.call("delete_memory", {"id": memory["data"]["id"]})
    assert await ask(app, "vehicle") == ["engine"]
    assert await ask(app, "vehicle", archived=True) == ["garage", "engine"]


async def test_notes_are_found_by_meaning_unless_they_are_left_out(app: Abilities) -> None:
    (app.settings.agent_dir / "MEMORY.md").write_text("# Plans\nSell the residence.\n")

    assert await ask(app, "home") == ["MEMORY.md"]
    assert await ask(app, "home", notes=False) == []


async def test_a_namespace_is_compared_as_far_as_its_bound(
    app: Abilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "MAX_MEMORIES", 4)
    assert await ask(app, "vehicle") == ["engine", "garage"]

    await store(app, "vessel", "A beverage of leaves.")
    assert await ask(app, "tea") == []

    memory = await app.call("memory_get", {"key": "rain"})
    await app.call("delete_memory", {"id": memory["data"]["id"], "permanent": True})
    await store(app, "vessel", "A beverage of many leaves.")
    assert await ask(app, "tea") == ["vessel"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "is not installed; there are: model2vec:MODEL, fastembed:MODEL, bad, class"),
        ("model2vec:minishlab/potion-base-8M", "run: pip install 'agent-abilities[semantic]'"),
        ("fastembed:BAAI/bge-small-en-v1.5", "run: pip install 'agent-abilities[fastembed]'"),
        ("synonyms", "numpy; run: pip install 'agent-abilities[semantic]'"),
    ],
)
async def test_an_embedder_that_is_not_there_is_an_error_that_says_the_way_out(
    name: str, words: str, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("numpy",) if name == "synonyms" else ("model2vec", "fastembed"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ValueError, match=re.escape(words)):
        async with Abilities.open(choose(roots, name)):
            pass


async def test_a_class_is_an_embedder_too(roots: Settings) -> None:
    async with Abilities.open(choose(roots, "class")) as abilities:
        await fill(abilities)
        assert await ask(abilities, "surgeon") == ["clinic"]


@pytest.mark.parametrize("name", ["missing", "wrong"])
async def test_an_embedder_that_cannot_be_loaded_fails_no_recall(
    name: str, roots: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with Abilities.open(choose(roots, name)) as abilities:
        await fill(abilities)
        assert await ask(abilities, "red car") == ["garage", "engine"]

    assert "recall ranks by words alone" in caplog.text


@pytest.mark.parametrize("how", [*WRONG, "exit", "interrupt", "stop", "unspeakable"])
async def test_a_bad_embedder_fails_no_recall_and_is_logged_once(
    how: str, roots: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BAD, "how", how)

    async with Abilities.open(choose(roots, "bad")) as abilities:
        await store(abilities, "engine", "The car of the museum.")
        for _ in range(3):
            assert await ask(abilities, "car") == ["engine"]

    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1


async def test_an_embedder_that_hangs_is_not_waited_for_and_may_recover(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BAD, "how", "hang")
    BAD.release.clear()
    monkeypatch.setattr(meaning, "EMBED_SECONDS", 0.1)
    settings = choose(roots, "bad")

    async with Abilities.open(settings) as abilities:
        await fill(abilities)
        for _ in range(5):
            assert await ask(abilities, "car") == ["engine"]

        BAD.release.set()
        monkeypatch.setattr(BAD, "how", "well")
        while await ask(abilities, "car") != ["engine", "garage"]:
            await asyncio.sleep(0.01)


async def test_calls_while_it_hangs_fail_at_once() -> None:
    bad = BadEmbedder("hang")
    slow = VectorMeaning(Vectorizer(lambda: bad), seconds=0.01)

    with pytest.raises(EmbedderFailed, match="in time"):
        await slow.measure(None, "a", ["a"], ())

    # The thread may have been too slow to take the first call.
    failure = "in time"
    while "in time" in failure:
        with pytest.raises(EmbedderFailed) as failed:
            await slow.measure(None, "b", ["b"], ())
        failure = str(failed.value)
    assert "still busy" in failure

    bad.release.set()
    slow.close()


async def test_memories_go_on_being_embedded_after_a_deadline(roots: Settings) -> None:
    gate = threading.Event()
    embedded: list[str] = []

    class Slow(SynonymEmbedder):
        def embed(self, texts: Any) -> list[list[float]]:
            gate.wait()
            embedded.extend(texts)
            return super().embed(texts)

    async with Abilities.open(choose(roots, None)) as abilities:
        await fill(abilities)
        store = abilities._resources.store
        namespace = abilities.settings.namespace
        slow = VectorMeaning(Vectorizer(Slow), seconds=0.1)
        with pytest.raises(EmbedderFailed):
            await slow.measure(store, namespace, ["vehicle"], ())
        gate.set()

        count = 0
        while not count:
            await asyncio.sleep(0.01)
            with suppress(EmbedderFailed):
                _, count = await slow.measure(store, namespace, ["vehicle"], ())
        slow.close()

    assert count == 4
    assert len([text for text in embedded if text != "vehicle"]) == 4


async def test_the_vectors_of_the_namespaces_asked_last_are_kept(
    app: Abilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = app.for_namespace("other")
    await store(other, "bus", "A vehicle.")
    monkeypatch.setattr(meaning, "MAX_NUMBERS", 3 * 1_000 * DIMENSIONS // 2)

    assert await ask(app, "vehicle") == ["engine", "garage"]
    assert await ask(other, "automobile") == ["bus"]
    SYNONYMS.calls.clear()
    assert await ask(other, "car") == ["bus"]
    assert SYNONYMS.calls == [["car"]]
    assert await ask(app, "vehicle") == ["engine", "garage"]
    assert len(SYNONYMS.calls) == 3  # the memories of the first namespace were embedded again


def test_vectors_have_one_length_and_whole_numbers() -> None:
    class Fixed:
        def embed(self, texts: Any) -> list[Any]:
            return [(3, 0), (0.0, 2.0), array("d", (1, 1)), (0, 0)]

    vectors = Vectorizer(Fixed).embed(["", "", "", ""])

    assert vectors.tolist() == [[SCALE, 0], [0, SCALE], [2_828, 2_828], [0, 0]]


async def test_doctor_says_whether_it_answers(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BAD, "how", "exit")

    described: dict[str | None, list[str]] = {}
    for name in (None, "synonyms", "bad", "missing", "none"):
        diagnoses = await diagnose(choose(roots, name))
        lines = [f"{d.state} {d.words}" for d in diagnoses if d.about == "embedder"]
        described[name] = [line.partition(" in ")[0] for line in lines]

    assert described == {
        None: [],
        "synonyms": ["ok synonyms answers; 0 memories got vectors"],
        "bad": ["fails bad fails: it raised SystemExit: secret"],
        "missing": [
            "fails missing fails: it raised ModuleNotFoundError: No module named 'no_such_module'"
        ],
        "none": [
            "fails embedder 'none' is not installed; there are: model2vec:MODEL, fastembed:MODEL, "
            "bad, class, missing, synonyms, wrong"
        ],
    }


def test_without_an_embedder_nothing_of_it_is_imported(roots: Settings) -> None:
    code = f"""
import asyncio, sys
from abilities import Abilities, Settings
from abilities.cli.main import main

async def run():
    settings = Settings(
        agent_dir={str(roots.agent_dir)!r},
        workspace_dir={str(roots.workspace_dir)!r},
        store_url={roots.store_url!r},
    )
    async with Abilities.open(settings) as abilities:
        await abilities.call("recall", {{"queries": ["a car"]}})

asyncio.run(run())
names = ("abilities.embedders", "abilities.helpers.embedder", "abilities.helpers.memory.meaning",
         "numpy", "fastembed", "model2vec")
print([name for name in names if name in sys.modules])
"""
    assert run_code(code).stdout == "[]\n"


def test_a_process_ends_while_an_embedder_hangs() -> None:
    code = """
import asyncio
from abilities.helpers.embedder import EmbedderFailed, Vectorizer
from abilities.helpers.memory.meaning import VectorMeaning
from tests.support.synonyms import BadEmbedder

async def run():
    try:
        await VectorMeaning(Vectorizer(BadEmbedder), seconds=0.1).measure(None, "a", ["b"], ())
    except EmbedderFailed as error:
        print(error)

asyncio.run(run())
"""
    assert run_code(code).stdout == "it did not answer in time; 0 memories have vectors\n"
