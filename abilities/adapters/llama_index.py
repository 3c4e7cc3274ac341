"""Abilities as tools of LlamaIndex, for agents and workflows: `load_tools`.

The namespace of an agent's run is the value ``namespace`` in the store of its ``Context``.
Synchronous calls have no context, and use that of the settings.

A tool's output has the text of the answer as its content, and the payload as its ``raw_output``. If
the call failed as a whole, ``is_error`` is set.
"""

from copy import deepcopy
from typing import Any

from typing_extensions import override

from abilities.adapters.functions import Function, ToolLoader, find_namespace
from abilities.declarations.values import JsonObject
from abilities.errors import needs
from abilities.registry import Reply

with needs("llama_index"):
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context

_CONTEXT = "abilities:context"
"""The keyword by which agents pass their context. No argument of an ability has such a name."""

_UNNAMED: JsonObject = {}


class LlamaIndexTool(FunctionTool):
    """One ability as a LlamaIndex tool."""

    def __init__(self, function: Function) -> None:
        super().__init__(self.call, _Metadata(function), self.acall)
        self.requires_context = True
        self.ctx_param_name = _CONTEXT
        self._function = function

    @override
    def call(self, *args: object, **arguments: Any) -> ToolOutput:
        arguments.pop(_CONTEXT, None)
        return self._to_output(arguments, self._function.call_sync(arguments))

    @override
    async def acall(self, *args: object, **arguments: Any) -> ToolOutput:
        context: Context[Any] | None = arguments.pop(_CONTEXT, None)
        namespace = None

        if context is not None:
            named = await context.store.get("namespace", default=_UNNAMED)
            if named is not _UNNAMED:
                namespace = find_namespace({"namespace": named})

        reply = await self._function.call(arguments, namespace=namespace)
        return self._to_output(arguments, reply)

    def _to_output(self, arguments: JsonObject, reply: Reply) -> ToolOutput:
        return ToolOutput(
            tool_name=self._function.name,
            content=reply.text,
            raw_input=arguments,
            raw_output=reply.payload,
            is_error=reply.failed,
        )


class _Metadata(ToolMetadata):
    """The description of a tool, with the ability's own schema instead of one made from a model."""

    def __init__(self, function: Function) -> None:
        super().__init__(function.description, function.name, function.model)
        self._schema = function.schema

    @override
    def get_parameters_dict(self) -> JsonObject:
        return deepcopy(self._schema)  # clients of models change it


load_tools: ToolLoader[FunctionTool] = ToolLoader(
    LlamaIndexTool,
    caller="llama-index",
    place="set 'namespace' in the store of the Context of the run",
)
