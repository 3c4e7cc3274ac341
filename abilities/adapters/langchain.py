"""Abilities as LangChain tools: `load_tools`, and `AbilitiesToolkit` to hold them."""

import sys
from collections.abc import Sequence

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, BaseToolkit, ToolException
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

from abilities.adapters.host import Function, Source, find_namespace, load_functions
from abilities.declarations.values import JsonObject
from abilities.registry import Reply

_PLACE = "pass context={'namespace': …} or config={'configurable': {'namespace': …}} to the run"
"""Where a run names its namespace."""


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
) -> list[BaseTool]:
    """Return the abilities as LangChain tools, for sync and async code on any event loop.

    The arguments, and what is raised for them, are those of `load_functions`.

    The namespace of a call is the key or attribute ``namespace`` of the run's ``context``, or
    ``config["configurable"]["namespace"]``, by default that of the settings. One that cannot be a
    namespace, two that differ, and one that is missing although ``require_namespace`` is set are
    the application's mistake: the call raises ValueError instead of answering the model. A tool's
    content is the answer in the format that the
    call or the settings name, its artifact the payload. A call that failed as a whole becomes a
    tool message with status "error".
    """
    functions = load_functions(
        source,
        only=only,
        read_only=read_only,
        require_namespace=require_namespace,
        caller="langchain",
        place=_PLACE,
    )
    return [AbilityTool.from_function(function) for function in functions]


class AbilitiesToolkit(BaseToolkit):
    """The tools of `load_tools`, for code that expects a toolkit."""

    tools: list[BaseTool]

    @classmethod
    def load(
        cls,
        source: Source = None,
        *,
        only: Sequence[str] | None = None,
        read_only: bool = False,
        require_namespace: bool = False,
    ) -> "AbilitiesToolkit":
        """Return a toolkit with the tools that `load_tools` returns for the same arguments."""
        tools = load_tools(
            source, only=only, read_only=read_only, require_namespace=require_namespace
        )
        return cls(tools=tools)

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
        namespace = _find_namespace(config)
        reply = self._function.call_sync(arguments, namespace=namespace)
        return _to_content_and_artifact(reply)

    @override
    async def _arun(
        self, /, *args: object, config: RunnableConfig, **arguments: object
    ) -> tuple[str, JsonObject]:
        namespace = _find_namespace(config)
        reply = await self._function.call(arguments, namespace=namespace)
        return _to_content_and_artifact(reply)


def _find_namespace(config: RunnableConfig) -> str | None:
    """Return the namespace that a run names. Raises ValueError for two that differ."""
    configured = find_namespace(config.get("configurable"))
    passed = find_namespace(_find_context())
    if None not in (configured, passed) and configured != passed:
        raise ValueError("the context of the run and config['configurable'] name two namespaces")

    return passed if configured is None else configured


def _find_context() -> object:
    """Return the ``context`` that LangGraph passes to a run; None outside of a graph."""
    # Whoever runs a graph has imported it; LangChain's core alone works without.
    if "langgraph" not in sys.modules:
        return None

    from langgraph.runtime import get_runtime

    try:
        runtime = get_runtime()
    except RuntimeError:  # outside of any run
        return None

    return getattr(runtime, "context", None)


def _to_content_and_artifact(reply: Reply) -> tuple[str, JsonObject]:
    """Return the two parts of a tool message. Raises ToolException if the call failed."""
    if reply.failed:
        raise ToolException(reply.text)

    return reply.text, reply.payload
