"""Abilities as tools of Google's Agent Development Kit, for an ``LlmAgent``: `load_tools`.

The namespace of a run is ``namespace`` in the state of its session. If it is not a valid namespace,
the run ends with ValueError. The model gets ``{"result": text}``, or ``{"error": text}`` if the
call failed as a whole.
"""

from typing_extensions import override

from abilities.adapters.functions import Function, ToolLoader, find_namespace
from abilities.declarations.values import JsonObject
from abilities.errors import needs

with needs("google_adk"):
    from google.adk.tools import BaseTool, ToolContext
    from google.genai import types


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


load_tools: ToolLoader[BaseTool] = ToolLoader(
    AdkTool, caller="google-adk", place="set 'namespace' in the state of the session"
)
