"""`recall` with an embedder: what it finds by meaning, and what an embedder cannot break."""

import asyncio
import logging
import subprocess
import sys
from array import array
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from abilities import Abilities, AbilityError, Settings
from abilities.cli.doctor import diagnose
from abilities.cli.main import main
from abilities.embedders import GROUP
from abilities.helpers import embedder as embedding
from abilities.helpers.embedder import Comparison, EmbedderFailed, EmbedderThread
from abilities.helpers.memory import meaning
from tests.support.plugins import install
from tests.support.synonyms import DIMENSIONS, WRONG, BadEmbedder, SynonymEmbedder
from tests.support.waiting import wait_until

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


async def test_first_by_words_and_by_meaning_is_a_score_of_one(app: Abilities) -> None:
    payload = await recall(app, "the red automobile", detail="full")

    first, second = payload["results"][0]["data"]["memories"]
    assert (first["key"], first["score"], first["own_score"]) == ("garage", 1.0, 1.0)
    assert first["words"] == ["red", "automobile"]
    assert second["key"] == "engine" and 0 < second["score"] < 0.5
    assert "words" not in second


async def test_each_memory_stands_under_one_question(app: Abilities) -> None:
    payload = await recall(app, "vehicle", "museum", "doctor")

    found = [[m["key"] for m in record["memories"]] for record in payload["results"]]
    assert sorted(key for own in found for key in own) == ["clinic", "engine", "garage"]
    assert found[2] == ["clinic"]


async def test_filters_hold_for_what_is_found_by_meaning(app: Abilities) -> None:
    assert await ask(app, "vehicle", tags=["old"]) == ["engine"]
    assert await ask(app, "vehicle", type="task") == []
    assert await ask(app, "vehicle", within_days=1) == ["engine", "garage"]

    memory = await app.call("memory_get", {"key": "garage"})
    await app.call("delete_memory", {"id": memory["data"]["id"]})
    assert await ask(app, "vehicle") == ["engine"]
    assert await ask(app, "vehicle", archived=True) == ["engine", "garage"]


async def test_notes_are_found_by_meaning_unless_they_are_left_out(app: Abilities) -> None:
    (app.settings.agent_dir / "MEMORY.md").write_text("# Plans\nSell the residence.\n")

    assert await ask(app, "home") == ["MEMORY.md"]
    assert await ask(app, "home", notes=False) == []


async def test_other_namespaces_are_not_found(app: Abilities) -> None:
    assert await ask(app.for_namespace("other"), "vehicle") == []


async def test_larger_namespaces_are_ranked_again_but_not_compared_whole(
    app: Abilities, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "MAX_COMPARED", 3)
    await store(app, "annex", "The museum.")
    await store(app, "zone", "The museum garden.")

    assert await ask(app, "vehicle") == []
    assert await ask(app, "museum vehicle") == ["annex", "engine", "zone"]
    async with Abilities.open(choose(roots, None)) as plain:
        assert await ask(plain, "museum vehicle") == ["annex", "zone", "engine"]


async def test_contents_that_are_too_large_are_ranked_by_words_alone(
    app: Abilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "MAX_LOADED_BYTES", 10)
    await store(app, "sale", "A car for sale.")

    assert await ask(app, "car") == ["engine", "sale"]


async def test_a_second_question_embeds_itself_alone(app: Abilities) -> None:
    await ask(app, "vehicle")
    SYNONYMS.calls.clear()
    await ask(app, "physician")

    assert SYNONYMS.calls == [["physician"]]


async def test_next_request_gives_each_memory_once(app: Abilities) -> None:
    for number in range(40):
        await store(app, f"fleet-{number:02}", f"Vehicle {number} of ours. " + "It drives. " * 9)

    seen: list[str] = []
    arguments: Payload | None = {"queries": ["automobile", "drives"], "max_tokens": 700}
    while arguments is not None:
        payload = await app.call("recall", arguments)
        seen += [m["key"] for record in payload["results"] for m in record["memories"]]
        arguments = payload.get("next_request")

    assert len(seen) == len(set(seen)) == 42


async def test_a_cursor_is_of_the_ranking_that_was_answered(app: Abilities) -> None:
    for number in range(20):
        await store(app, f"fleet-{number:02}", f"Vehicle {number}. " + "It drives. " * 9)
    payload = await recall(app, "automobile", max_tokens=400)

    await store(app, "new", "An automobile.")

    with pytest.raises(AbilityError) as caught:
        await app.call("recall", payload["next_request"])
    assert caught.value.fault.reason == "changed"


async def test_a_name_that_is_not_installed_is_an_error_that_names_the_others(
    roots: Settings,
) -> None:
    message = (
        "embedder 'none' is not installed; installed are: bad, class, missing, synonyms, wrong"
    )
    with pytest.raises(ValueError, match=message):
        async with Abilities.open(choose(roots, "none")):
            pass


def test_the_command_line_says_so_too(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("agent_dir", "workspace_dir", "store_url"):
        monkeypatch.setenv(f"ABILITIES_{name.upper()}", str(getattr(roots, name)))
    monkeypatch.setenv("ABILITIES_EMBEDDER", "none")

    done = CliRunner().invoke(main, ["call", "recall", '{"queries": ["a"]}'])

    assert done.exit_code == 2
    assert "embedder 'none' is not installed" in done.output


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
    how: str,
    roots: Settings,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
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
    monkeypatch.setattr(embedding.EmbedderThread.__init__, "__defaults__", (0.1,))
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
    thread = EmbedderThread(lambda: bad, seconds=0.01)
    comparison = [Comparison("a", ["b"])]

    # A call that a slow machine has not begun by its deadline is taken back.
    while thread._running is None:
        with pytest.raises(EmbedderFailed, match="in time"):
            await thread.compare(comparison)
    with pytest.raises(EmbedderFailed, match="still busy"):
        await thread.compare(comparison)

    bad.release.set()
    await wait_until(lambda: thread._running is None)
    thread.close()


async def test_what_was_embedded_before_a_deadline_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    embedded: list[str] = []

    class Slow(SynonymEmbedder):
        def embed(self, texts: Any) -> list[list[float]]:
            nonlocal clock
            clock += 400.0
            embedded.extend(texts)
            return super().embed(texts)

    monkeypatch.setattr(embedding, "monotonic", lambda: clock)
    thread = EmbedderThread(Slow, seconds=500.0)
    comparisons = [Comparison("tea", [f"text {number}" for number in range(100)])]

    with pytest.raises(EmbedderFailed):
        await thread.compare(comparisons)
    (similarities,) = await thread.compare(comparisons)
    thread.close()

    assert len(similarities) == 100
    assert len(embedded) == len(set(embedded)) == 101


async def test_vectors_are_bounded_and_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "KEPT_NUMBERS", 3 * DIMENSIONS)
    synonyms = SynonymEmbedder()
    thread = EmbedderThread(lambda: synonyms)

    await thread.compare([Comparison("a1", ["a2", "a3"])])
    await thread.compare([Comparison("a1", ["a4"])])
    await thread.compare([Comparison("a1", ["a2"])])
    thread.close()

    assert synonyms.calls == [["a1", "a2", "a3"], ["a4"], ["a2"]]


async def test_similarities_are_cosines_in_millionths() -> None:
    vectors = {"x": (3, 0), "y": (0, 2.0), "xy": array("d", (1, 1)), "-x": (-1, 0), "0": (0, 0)}

    class Fixed:
        def embed(self, texts: Any) -> list[Any]:
            return [vectors[text] for text in texts]

    thread = EmbedderThread(Fixed)
    similarities = await thread.compare([Comparison("x", ["x", "y", "xy", "-x", "0"])])
    thread.close()

    assert similarities == [[1_000_000, 0, 707_107, -1_000_000, 0]]


async def test_doctor_says_whether_it_answers(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BAD, "how", "exit")

    described: dict[str | None, list[str]] = {}
    for name in (None, "synonyms", "bad", "missing", "none"):
        diagnoses = await diagnose(choose(roots, name))
        described[name] = [f"{d.state} {d.words}" for d in diagnoses if d.about == "embedder"]

    assert described == {
        None: [],
        "synonyms": ["ok synonyms answers"],
        "bad": ["fails bad fails: it raised SystemExit: secret"],
        "missing": [
            "fails missing fails: it raised ModuleNotFoundError: No module named 'no_such_module'"
        ],
        "none": [
            "fails embedder 'none' is not installed; "
            "installed are: bad, class, missing, synonyms, wrong"
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
         "numpy", "fastembed")
print([name for name in names if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == b"[]\n"


def test_a_process_ends_while_an_embedder_hangs() -> None:
    code = """
import asyncio
from abilities.helpers.embedder import Comparison, EmbedderFailed, EmbedderThread
from tests.support.synonyms import BadEmbedder

async def run():
    try:
        await EmbedderThread(BadEmbedder, seconds=0.1).compare([Comparison("a", ["b"])])
    except EmbedderFailed as error:
        print(error)

asyncio.run(run())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)

    assert (done.returncode, done.stdout) == (0, b"it did not answer in time\n")
