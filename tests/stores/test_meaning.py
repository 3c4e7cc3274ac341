"""The vectors of a store's memories follow its changes, on every engine."""

from typing import Any

import pytest

from abilities.helpers.embedder import Vectorizer
from abilities.helpers.memory import meaning
from abilities.helpers.memory.meaning import VectorMeaning
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.protocol import MemoryStore
from tests.stores.behaviours.steps import NAMESPACE, end, plan, put, put_many, rename
from tests.support.places import StorePlace
from tests.support.synonyms import SynonymEmbedder


class Watched:
    """Asks for what is similar, and remembers which texts were embedded."""

    def __init__(self, store: MemoryStore) -> None:
        self.embedder = SynonymEmbedder()
        self.meaning = VectorMeaning(Vectorizer(lambda: self.embedder), seconds=600.0)
        self.store = store

    async def ask(self, question: str) -> list[str]:
        """Return the keys of what is similar, best first."""
        (similarity,), _ = await self.meaning.measure(self.store, NAMESPACE, [question], ())
        return [key for key, value in similarity.memories if value > 0]

    def take_texts(self) -> list[str]:
        """Return the texts that were embedded since the last call, without the questions."""
        texts = [text for call in self.embedder.calls for text in call if " " in text]
        self.embedder.calls.clear()
        return texts


@pytest.mark.parametrize("days", [90, 0])
async def test_vectors_follow_every_change(place: StorePlace, days: int) -> None:
    async with place.open(history=HistoryLimits(days=days)) as store:
        watched = Watched(store)
        await put_many(store, [plan_text(number) for number in range(3)])
        await put(store, "a", content="a car")
        await put(store, "b", content="a house")
        assert await watched.ask("vehicle") == ["a"]
        assert len(watched.take_texts()) == 5

        await put(store, "c", content="an automobile of steel")
        assert await watched.ask("vehicle") == ["a", "c"]
        await put(store, "c", kind="update", tags=["t"])
        await put(store, "b", kind="update", content="a car for tea")
        assert await watched.ask("vehicle") == ["a", "c", "b"]
        assert watched.take_texts() == ["an automobile of steel", "a car for tea"]

        await end(store, "archive", "a")
        assert await watched.ask("vehicle") == ["a", "c", "b"]  # filters leave it out
        await end(store, "delete", "a")
        await end(store, "purge", "b")
        assert await watched.ask("vehicle") == ["c"]

        await rename(store, "c", "d")
        assert await watched.ask("vehicle") == ["d"]
        assert not days or watched.take_texts() == []
        watched.meaning.close()


async def test_what_is_forgotten_is_listed_again(place: StorePlace) -> None:
    async with place.open() as store:
        watched = Watched(store)
        await put_many(store, [plan_text(number) for number in range(3)])
        await put(store, "a", content="a car")
        assert await watched.ask("vehicle") == ["a"]

        await end(store, "delete", "a")
        await put(store, "c", content="a vehicle")
        async with place.open(history=HistoryLimits(days=0)) as other:
            await put(other, "c", kind="update", tags=["t"])
        watched.take_texts()
        assert await watched.ask("vehicle") == ["c"]
        assert watched.take_texts() == ["a vehicle"]
        watched.meaning.close()


async def test_a_large_namespace_is_read_in_pages(
    place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "PAGE", 7)
    monkeypatch.setattr(meaning, "MAX_NEAR", 5)
    monkeypatch.setattr(meaning, "_BLOCK", 3)

    async with place.open() as store:
        watched = Watched(store)
        await put_many(store, [plan_text(number) for number in range(40)])
        expected = [f"k{number:02}" for number in range(3, 40, 4)]

        assert await watched.ask("vehicle") == expected[:5]
        await put_many(store, [plan_text(number) for number in range(40, 80)])
        assert await watched.ask("vehicle") == expected[:5]
        _, count = await watched.meaning.measure(store, NAMESPACE, ["x"], ())
        assert count == 80
        watched.meaning.close()


def plan_text(number: int) -> Any:
    content = "a car" if number % 4 == 3 else f"number {number}"
    return plan("store", f"k{number:02}", fields={"type": "core", "content": content})
