"""The LangChain retriever over recall: its standard suite, documents, filters and failures."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from abilities import Abilities, AbilityError, Settings
from abilities.adapters.retriever import AbilitiesRetriever

TEAS = [
    {"op": "store", "type": "core", "key": f"tea/{n}", "content": f"Green tea, kind {n}."}
    for n in range(10)
]
ADA = {
    "op": "store",
    "type": "learning",
    "key": "Ada",
    "content": "Ada drinks tea.",
    "tags": ["people"],
}


@pytest.fixture
async def abilities(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as opened:
        await opened.call("remember", {"operations": [*TEAS, ADA]})
        yield opened


class TestStandard(RetrieversIntegrationTests):
    """LangChain's own suite for retrievers."""

    @pytest.fixture(autouse=True)
    def _opened(self, abilities: Abilities) -> None:
        self._source = abilities

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return AbilitiesRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"source": self._source}

    @property
    def retriever_query_example(self) -> str:
        return "Which kind of green tea?"


async def test_documents_are_records_best_first(abilities: Abilities) -> None:
    retriever = AbilitiesRetriever(source=abilities, k=3)

    first, *others = await retriever.ainvoke("What does Ada drink, tea?")

    assert (first.page_content, first.id) == ("Ada drinks tea.", "Ada")
    assert first.metadata["key"] == "Ada" and first.metadata["type"] == "learning"
    assert first.metadata["score"] > others[0].metadata["score"]
    assert set(first.metadata) >= {"key", "score", "date", "type", "importance", "words"}
    assert await asyncio.to_thread(retriever.invoke, "What does Ada drink, tea?") == [
        first,
        *others,
    ]


async def test_notes_are_documents_too(roots: Settings) -> None:
    assert roots.agent_dir is not None
    Path(roots.agent_dir, "MEMORY.md").write_text("# Drinks\nAda had mate.\n")
    async with Abilities.open(roots) as abilities:
        (document,) = await AbilitiesRetriever(source=abilities).ainvoke("mate")

    assert "Ada had mate." in document.page_content
    assert document.id is None and document.metadata["filename"] == "MEMORY.md"


async def test_filters_are_arguments_of_recall_and_an_answer_is_continued(
    abilities: Abilities,
) -> None:
    async def find(question: str, **more: Any) -> list[str | None]:
        retriever = AbilitiesRetriever(source=abilities, **more)
        return [document.id for document in await retriever.ainvoke(question)]

    assert await find("tea", filters={"tags": ["people"]}) == ["Ada"]
    many = await find("tea", k=20, filters={"max_tokens": 400})
    assert len(set(many)) == len(many) == 11
    assert len(await find("tea " * 1_000)) == 4, "a long question is cut"
    assert await find("tea", namespace=42) == []
    with pytest.raises(AbilityError, match="INVALID_INPUT"):
        await find("tea", filters={"colour": "green"})


def test_settings_are_a_source_and_may_disable_recall(roots: Settings) -> None:
    without = roots.model_copy(update={"disabled": ("recall",)})

    assert AbilitiesRetriever(source=roots).invoke("tea") == []
    with pytest.raises(AbilityError):
        AbilitiesRetriever(source=without).invoke("tea")
