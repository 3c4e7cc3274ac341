"""An agent whose tools keep facts in a store and find them again.

The model here follows a script, so that the example runs without a key; put your own in its place.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.store.base import GetOp

from abilities import Abilities, Settings
from abilities.adapters.langgraph_store import AbilitiesStore


class Scripted(GenericFakeChatModel):
    """Sends the messages that it was created with."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Scripted":
        """Take any tools."""
        return self


@tool
async def keep(key: str, fact: str, runtime: ToolRuntime) -> str:
    """Keep a fact about the user."""
    assert runtime.store is not None
    await runtime.store.aput(("users", "ada"), key, {"text": fact})
    return "kept"


@tool
async def find(question: str, runtime: ToolRuntime) -> str:
    """Find facts that answer a question."""
    assert runtime.store is not None
    found = await runtime.store.asearch(("users", "ada"), query=question, limit=1)
    return "\n".join(item.value["text"] for item in found)


async def main() -> bool:
    """Run the agent, and check what its tools kept and found."""
    calls = [
        ("keep", {"key": "drinks", "fact": "Ada likes green tea."}),
        ("keep", {"key": "pets", "fact": "Ada has a cat."}),
        ("find", {"question": "Which tea does she like?"}),
    ]
    messages = [
        AIMessage("", tool_calls=[{"id": str(number), "name": name, "args": arguments}])
        for number, (name, arguments) in enumerate(calls)
    ]

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store_url=f"sqlite:///{folder}/memory.db")
        async with Abilities.open(settings) as abilities:
            store = AbilitiesStore(abilities)
            model = Scripted(messages=iter([*messages, AIMessage("Green tea.")]))
            agent = create_agent(model, [keep, find], store=store)
            state = await agent.ainvoke({"messages": [{"role": "user", "content": "Hello."}]})

            answers = [m.content for m in state["messages"] if isinstance(m, ToolMessage)]
            assert answers == ["kept", "kept", "Ada likes green tea."]

            # A batch of gets is one read of the store, however many they are.
            keys = ["drinks", "pets", "nothing"]
            drinks, pets, nothing = await store.abatch(
                [GetOp(("users", "ada"), key) for key in keys]
            )
            assert drinks and pets and nothing is None

            # The abilities see the same memories: here the history of one, which can be restored.
            key = "langgraph/users/ada//drinks"
            history = await abilities.call("memory_history", {"key": key})
            assert [entry["by"] for entry in history["entries"]] == ["langgraph"]

    return True


if __name__ == "__main__":
    asyncio.run(main())
