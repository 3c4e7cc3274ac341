"""Abilities as tools of pydantic-ai: `load_tools`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from abilities.adapters.host import Function, Source, find_namespace, load_functions
from abilities.errors import Needs

with Needs("pydantic_ai"):
    from pydantic_ai import RunContext, Tool, ToolFailed, ToolReturn

_OBJECT = SchemaValidator(core_schema.dict_schema())
"""Without it, arguments that are no object end the run instead of being told to the model."""

_PLACE = "give agent.run() deps with a key or attribute 'namespace'"
"""Where a run names its namespace."""


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
) -> list[Tool[Any]]:
    """Return the abilities as tools for ``Agent(tools=…)`` or a ``FunctionToolset``.

    The arguments, and what is raised for them, are those of `load_functions`.

    The namespace of a run is the key or the attribute ``namespace`` of its ``deps``, by default
    that of the settings; one that cannot be a namespace ends the run with ValueError. A tool's
    return value is the text of the answer, its metadata the payload. A call that failed as a whole
    becomes a tool return with the outcome "failed", which takes none of the run's retries.
    """
    functions = load_functions(
        source,
        only=only,
        read_only=read_only,
        require_namespace=require_namespace,
        caller="pydantic-ai",
        place=_PLACE,
    )
    return [_build_tool(function) for function in functions]


def _build_tool(function: Function) -> Tool[Any]:
    tool: Tool[Any] = Tool.from_schema(
        partial(_call, function),
        name=function.name,
        description=function.description,
        json_schema=function.schema,
        takes_ctx=True,
    )
    tool.strict = False  # strict schemas have no optional arguments
    tool.function_schema.validator = _OBJECT
    return tool


async def _call(
    function: Function, context: RunContext[Any], /, **arguments: object
) -> ToolReturn[str]:
    """Call a function. Raises ToolFailed, which the model reads, if the call failed as a whole."""
    namespace = find_namespace(context.deps)
    reply = await function.call(arguments, namespace=namespace)
    if reply.failed:
        raise ToolFailed(reply.text)

    return ToolReturn(reply.text, metadata=reply.payload)
