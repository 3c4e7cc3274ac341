"""A chat model that calls tools by a script, for agents of LangChain and what is built on it."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

ToolCall = tuple[str, dict[str, Any]]


class Scripted(GenericFakeChatModel):
    """A chat model that sends the messages that it was created with."""

    def bind_tools(self, *_: Any, **__: Any) -> "Scripted":
        return self


def script_model(*turns: Sequence[ToolCall]) -> Scripted:
    """Return a model that makes the calls of each turn at once, and then says that it is done."""
    messages = [
        AIMessage(
            "",
            tool_calls=[
                {"id": f"{turn}-{n}", "name": name, "args": arguments}
                for n, (name, arguments) in enumerate(calls)
            ],
        )
        for turn, calls in enumerate(turns)
    ]
    return Scripted(messages=iter([*messages, AIMessage("Done.")]))


def find_answers(state: dict[str, Any]) -> list[ToolMessage]:
    """Return what the tools answered."""
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]
