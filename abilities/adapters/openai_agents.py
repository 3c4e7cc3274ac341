"""Abilities as tools of the OpenAI Agents SDK: `load_tools`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from abilities.adapters.host import Function, Source, find_namespace, load_functions
from abilities.errors import Needs

with Needs("openai_agents"):
    from agents import FunctionTool, Tool
    from agents.tool_context import ToolContext
    from agents.tracing import get_current_span

_PLACE = "give Runner.run() a context with a key or attribute 'namespace'"
"""Where a run names its namespace."""


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
) -> list[Tool]:
    """Return the abilities as tools for ``Agent(tools=…)``, on any event loop.

    The arguments, and what is raised for them, are those of `load_functions`.

    The namespace of a run is the key or the attribute ``namespace`` of its ``context``, by default
    that of the settings; one that cannot be a namespace ends the run with an error. A tool's output
    is the text of the answer. A call that failed as a whole has the fault as its output, and an
    error in its span of the trace.
    """
    functions = load_functions(
        source,
        only=only,
        read_only=read_only,
        require_namespace=require_namespace,
        caller="openai-agents",
        place=_PLACE,
    )
    return [_build_tool(function) for function in functions]


def _build_tool(function: Function) -> Tool:
    return FunctionTool(
        name=function.name,
        description=function.description,
        params_json_schema=function.schema,
        on_invoke_tool=partial(_invoke, function),
        strict_json_schema=False,  # strict schemas have no optional arguments
    )


async def _invoke(function: Function, context: ToolContext[Any], arguments: str) -> str:
    """Call a function with arguments as JSON; return what the model gets."""
    namespace = find_namespace(context.context)
    reply = await function.call(arguments, namespace=namespace)
    if reply.failed:
        _mark_span(function, reply.payload["error"]["code"])

    return reply.text


def _mark_span(function: Function, code: str) -> None:
    """Tell in the trace that a call failed, without the model's arguments."""
    span = get_current_span()
    if span is not None:
        span.set_error({"message": code, "data": {"tool_name": function.name}})
