"""Abilities as tools of LangChain: `load_tools`, and `AbilitiesToolkit` for them.

The namespace of a call is the key or attribute ``namespace`` of the run's ``context``, or
``config["configurable"]["namespace"]``. The call raises ValueError, instead of answering the model,
if a namespace is not valid, if both are given and differ, or if a required one is missing.

A tool's content is the answer in the format that the call or the settings name. Its artifact is the
payload. A call that failed as a whole becomes a tool message with status "error".
"""

import sys
from collections.abc import Sequence
from contextlib import suppress

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, BaseToolkit, ToolException
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

from abilities.adapters.functions import Function, Source, ToolLoader, find_namespace
from abilities.declarations.values import JsonObject
from abilities.registry import Reply


class AbilityTool(BaseTool):
    """One ability as a LangChain tool.

    The schema of its arguments is a plain dict. With a pydantic model, LangChain would add default
    values and drop unknown arguments. The registry validates the arguments, as for every surface.
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
    """Return the namespace that a run names in its config or its context.

    Raises ValueError if the two differ.
    """
    configured = find_namespace(config.get("configurable"))
    passed = None

    # LangChain's core works without LangGraph. A run of a graph has imported it already.
    if "langgraph" in sys.modules:
        from langgraph.runtime import get_runtime

        with suppress(RuntimeError):  # outside of any run
            passed = find_namespace(getattr(get_runtime(), "context", None))

    if None not in (configured, passed) and configured != passed:
        raise ValueError("the context of the run and config['configurable'] name two namespaces")

    return passed if configured is None else configured


def _to_content_and_artifact(reply: Reply) -> tuple[str, JsonObject]:
    """Return both parts of a tool message. Raises ToolException if the call failed as a whole."""
    if reply.failed:
        raise ToolException(reply.text)

    return reply.text, reply.payload


load_tools: ToolLoader[BaseTool] = ToolLoader(
    AbilityTool.from_function,
    caller="langchain",
    place="pass context={'namespace': …} or config={'configurable': {'namespace': …}} to the run",
)


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
