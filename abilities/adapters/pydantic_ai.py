"""Abilities as tools of pydantic-ai, for ``Agent(tools=…)`` or a ``FunctionToolset``: `load_tools`.

The namespace of a run is the key or the attribute ``namespace`` of its ``deps``. If it is not a
valid namespace, the run ends with ValueError.

A tool's return value is the text of the answer, and its metadata is the payload. A call that failed
as a whole has the outcome "failed", and does not count as a retry of the run.
"""

from functools import partial
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from abilities.adapters.functions import Function, ToolLoader, find_namespace
from abilities.errors import needs

with needs("pydantic_ai"):
    from pydantic_ai import RunContext, Tool, ToolFailed, ToolReturn

_OBJECT = SchemaValidator(core_schema.dict_schema())
"""Any object is valid. Without this, arguments that are no object would end the run."""


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


load_tools = ToolLoader(
    _build_tool,
    caller="pydantic-ai",
    place="give agent.run() deps with a key or attribute 'namespace'",
)
