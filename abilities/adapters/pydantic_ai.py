"""Abilities as tools of pydantic-ai: `load_tools`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from abilities.adapters.functions import Function, Source, find_namespace, load_functions
from abilities.errors import Needs

with Needs("pydantic_ai"):
    from pydantic_ai import RunContext, Tool, ToolFailed, ToolReturn

_OBJECT = SchemaValidator(core_schema.dict_schema())
"""Any object is valid. Without this, arguments that are no object would end the run."""

_PLACE = "give agent.run() deps with a key or attribute 'namespace'"
"""How a run names its namespace."""


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
) -> list[Tool[Any]]:
    """Return the abilities as tools for ``Agent(tools=…)`` or a ``FunctionToolset``.

    Arguments and exceptions are those of `load_functions`.

    The namespace of a run is the key or the attribute ``namespace`` of its ``deps``, by default
    that of the settings. If it is not a valid namespace, the run ends with ValueError.

    A tool's return value is the text of the answer, and its metadata is the payload. A call that
    failed as a whole has the outcome "failed", and does not count as a retry of the run.
    """
    functions = load_functions(
        source,
        only=only,
        read_only=read_only,
        require_namespace=require_namespace,
        caller="pydantic-ai",
        place=_PLACE,
    )
    tools: list[Tool[Any]] = []

    for function in functions:
        tool: Tool[Any] = Tool.from_schema(
            partial(_call, function),
            name=function.name,
            description=function.description,
            json_schema=function.schema,
            takes_ctx=True,
        )
        tool.strict = False  # strict schemas have no optional arguments
        tool.function_schema.validator = _OBJECT
        tools.append(tool)

    return tools


async def _call(
    function: Function, context: RunContext[Any], /, **arguments: object
) -> ToolReturn[str]:
    """Call a function. Raises ToolFailed, which the model reads, if the call failed as a whole."""
    namespace = find_namespace(context.deps)
    reply = await function.call(arguments, namespace=namespace)
    if reply.failed:
        raise ToolFailed(reply.text)

    return ToolReturn(reply.text, metadata=reply.payload)
