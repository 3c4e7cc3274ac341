"""Abilities as tools of the Microsoft Agent Framework, for an ``Agent``: `load_tools`.

The namespace of a run is ``agent.run(..., function_invocation_kwargs={"namespace": name})``. If it
is not a valid namespace, the run ends with MiddlewareFailure. A tool's result is the text of the
answer, or of the fault if the call failed as a whole.
"""

from collections.abc import Mapping

from pydantic import BaseModel
from typing_extensions import override

from abilities.adapters.functions import Function, ToolLoader, find_namespace
from abilities.declarations.values import JsonObject
from abilities.errors import needs

with needs("agent_framework"):
    from agent_framework import FunctionInvocationContext, FunctionTool, MiddlewareFailure


class AgentFrameworkTool(FunctionTool):
    """One ability as a tool of the framework. Only the ability itself validates the arguments."""

    def __init__(self, function: Function) -> None:
        super().__init__(
            name=function.name,
            description=function.description,
            func=self._call,
            input_model=function.schema,
        )
        self._function = function

    async def _call(self, context: FunctionInvocationContext, **_: object) -> str:
        """Answer a call. Its arguments are taken from the context, so that any name is possible."""
        try:
            namespace = find_namespace(context.kwargs)
            reply = await self._function.call(context.arguments, namespace=namespace)
        except ValueError as error:
            # Any other exception would not reach the application.
            raise MiddlewareFailure(str(error)) from error

        # An exception for a fault would reach the model without its text.
        return reply.text

    @override
    def _prepare_arguments(self, arguments: BaseModel | Mapping[str, object] | None) -> JsonObject:
        # The framework's own checks would say only that the arguments are wrong.
        return self._arguments_as_mapping(arguments) or {}


load_tools = ToolLoader(
    AgentFrameworkTool,
    caller="agent-framework",
    place="pass function_invocation_kwargs={'namespace': …} to agent.run()",
)
