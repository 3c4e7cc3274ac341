"""Abilities as LangChain tools: `load_tools`, and `AbilitiesToolkit` to hold them."""

from collections.abc import Sequence

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, BaseToolkit, ToolException
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

from abilities.adapters.functions import Function, load_functions
from abilities.adapters.host import find_namespace
from abilities.application import Abilities
from abilities.declarations.values import JsonObject
from abilities.replies import Reply
from abilities.settings import Settings


def load_tools(
    source: Abilities | Settings | None = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
) -> list[BaseTool]:
    """Return the abilities as LangChain tools, for sync and async code on any event loop.

    The arguments, and what is raised for them, are those of `load_functions`.

    The namespace of a call is ``config["configurable"]["namespace"]``, by default that of the
    settings; one that cannot be a namespace is the application's mistake, and the call raises
    ValueError instead of answering the model. A tool's content is the answer in the format that the
    call or the settings name, its artifact the payload. A call that failed as a whole becomes a
    tool message with status "error".
    """
    functions = load_functions(source, only=only, read_only=read_only, caller="langchain")
    return [AbilityTool.from_function(function) for function in functions]


class AbilitiesToolkit(BaseToolkit):
    """The tools of `load_tools`, for code that expects a toolkit."""

    tools: list[BaseTool]

    @classmethod
    def load(
        cls,
        source: Abilities | Settings | None = None,
        *,
        only: Sequence[str] | None = None,
        read_only: bool = False,
    ) -> "AbilitiesToolkit":
        """Return a toolkit with the tools that `load_tools` returns for the same arguments."""
        return cls(tools=load_tools(source, only=only, read_only=read_only))

    @override
    def get_tools(self) -> list[BaseTool]:
        return self.tools


class AbilityTool(BaseTool):
    """One ability as a LangChain tool.

    The schema of its arguments is a plain dict: with a model, LangChain would add defaults that
    nobody gave, and drop arguments that it does not know. The registry validates them, as for every
    other surface.
    """

    _function: Function = PrivateAttr()

    @classmethod
    def from_function(cls, function: Function) -> "AbilityTool":
        """Create the tool of a function."""
        tool = cls(
            name=function.name,
            description=function.description,
            args_schema=function.schema,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        tool._function = function
        return tool

    @override
    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        return self._function.model

    @override
    def _run(
        self, /, *args: object, config: RunnableConfig, **arguments: object
    ) -> tuple[str, JsonObject]:
        namespace = find_namespace(config.get("configurable"))
        reply = self._function.call_sync(arguments, namespace=namespace)
        return _to_content_and_artifact(reply)

    @override
    async def _arun(
        self, /, *args: object, config: RunnableConfig, **arguments: object
    ) -> tuple[str, JsonObject]:
        namespace = find_namespace(config.get("configurable"))
        reply = await self._function.call(arguments, namespace=namespace)
        return _to_content_and_artifact(reply)


def _to_content_and_artifact(reply: Reply) -> tuple[str, JsonObject]:
    """Return the two parts of a tool message. Raises ToolException if the call failed."""
    if reply.failed:
        raise ToolException(reply.text)

    return reply.text, reply.payload
