"""A chain that puts what memories say about a question in front of it."""

import asyncio
import tempfile

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from abilities import Abilities, Settings
from abilities.adapters.retriever import AbilitiesRetriever

FACTS = {
    "people/ada": "Ada likes green tea.",
    "people/bob": "Bob drinks coffee.",
    "plan": "The plan is to ship in May.",
}


def join(documents: list[Document]) -> str:
    """Return documents as lines, each with its source."""
    return "\n".join(f"{each.page_content} [{each.metadata['key']}]" for each in documents)


async def main() -> bool:
    """Ask a question, and check what a model would read."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store_url=f"sqlite:///{folder}/memory.db")
        async with Abilities.open(settings) as abilities:
            for key, fact in FACTS.items():
                memory = {"type": "core", "key": key, "content": fact}
                await abilities.call("store_memory", memory)

            retriever = AbilitiesRetriever(source=abilities, k=2, filters={"type": "core"})
            prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
            chain = {"context": retriever | join, "question": RunnablePassthrough()} | prompt
            value = await chain.ainvoke("Which tea does Ada like?")

    assert value.to_messages()[0].content == (
        "Ada likes green tea. [people/ada]\n\nQuestion: Which tea does Ada like?"
    )
    return True


if __name__ == "__main__":
    asyncio.run(main())
