"""Abilities as tools of Google's Agent Development Kit: `load_tools`."""

from collections.abc import Sequence

from typing_extensions import override

from abilities.adapters.functions import Function, Source, find_namespace, load_functions
from abilities.declarations.values import JsonObject
from abilities.errors import Needs

with Needs("google_adk"):
    from google.adk.tools import BaseTool, ToolContext
    from google.genai import types

_PLACE = "set 'namespace' in the state of the session"
"""How a run names its namespace."""


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
) -> list[BaseTool]:
    """Return the abilities as tools for an ``LlmAgent``.

    Arguments and exceptions are those of `load_functions`.

    The namespace of a run is ``namespace`` in the state of its session, by default that of the
    settings. If it is not a valid namespace, the run ends with ValueError. The model gets
    ``{"result": text}``, or ``{"error": text}`` if the call failed as a whole.
    """
    functions = load_functions(
        source,
        only=only,
        read_only=read_only,
        require_namespace=require_namespace,
        caller="google-adk",
        place=_PLACE,
    )
    return [AdkTool(function) for function in functions]


class AdkTool(BaseTool):
    """One ability as an ADK tool. Only the ability itself validates the arguments."""

    def __init__(self, function: Function) -> None:
        super().__init__(name=function.name, description=function.description)
        self._function = function

    @override
    def _get_declaration(self) -> types.FunctionDeclaration:
        # The field "parameters" is a subset of JSON Schema, which cannot express everything.
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._function.schema,
        )

    @override
    async def run_async(self, *, args: JsonObject, tool_context: ToolContext) -> dict[str, str]:
        namespace = find_namespace(tool_context.state.to_dict())
        reply = await self._function.call(args, namespace=namespace)

        return {"error" if reply.failed else "result": reply.text}
