"""Abilities as tools of the OpenAI Agents SDK, for ``Agent(tools=…)``: `load_tools`.

The namespace of a run is the key or the attribute ``namespace`` of its ``context``. If it is not a
valid namespace, the run ends with an error. A tool's output is the text of the answer. If the call
failed as a whole, it is the text of the fault, and the span of the trace has an error.
"""

from functools import partial
from typing import Any

from abilities.adapters.functions import Function, ToolLoader, find_namespace
from abilities.errors import needs

with needs("openai_agents"):
    from agents import FunctionTool, Tool
    from agents.tool_context import ToolContext
    from agents.tracing import get_current_span


def _build_tool(function: Function) -> Tool:
    return FunctionTool(
        name=function.name,
        description=function.description,
        params_json_schema=function.schema,
        on_invoke_tool=partial(_invoke, function),
        strict_json_schema=False,  # strict schemas have no optional arguments
    )


async def _invoke(function: Function, context: ToolContext[Any], arguments: str) -> str:
    """Call a function with arguments as JSON, and return the text for the model."""
    namespace = find_namespace(context.context)
    reply = await function.call(arguments, namespace=namespace)
    span = get_current_span()

    # The trace gets the code only, because the fault may quote arguments.
    if reply.failed and span is not None:
        code = reply.payload["error"]["code"]
        span.set_error({"message": code, "data": {"tool_name": function.name}})

    return reply.text


load_tools = ToolLoader(
    _build_tool,
    caller="openai-agents",
    place="give Runner.run() a context with a key or attribute 'namespace'",
)
