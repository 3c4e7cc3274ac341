"""Abilities as tools of LlamaIndex: `load_tools`."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from typing_extensions import override

from abilities.adapters.host import Function, Source, find_namespace, load_functions
from abilities.declarations.values import JsonObject
from abilities.errors import Needs
from abilities.registry import Reply

with Needs("llama_index"):
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context

_CONTEXT = "abilities:context"
"""The keyword under which agents pass their context; no argument of a model can have its name."""

_UNNAMED: JsonObject = {}

_PLACE = "set 'namespace' in the store of the Context of the run"
"""Where a run names its namespace."""


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
) -> list[FunctionTool]:
    """Return the abilities as tools for agents and workflows, for sync and async code.

    The arguments, and what is raised for them, are those of `load_functions`.

    The namespace of an agent's run is the value ``namespace`` in the store of its ``Context``, by
    default that of the settings, as for synchronous calls, which have no context. A tool's output
    has the text of the answer as its content and the payload as its ``raw_output``. A call that
    failed as a whole has ``is_error``.
    """
    functions = load_functions(
        source,
        only=only,
        read_only=read_only,
        require_namespace=require_namespace,
        caller="llama-index",
        place=_PLACE,
    )
    return [LlamaIndexTool(function) for function in functions]


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
        namespace = await _find_namespace(arguments.pop(_CONTEXT, None))
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
    """What a model reads of a tool: its schema as it is, not one that is made from a model."""

    def __init__(self, function: Function) -> None:
        super().__init__(function.description, function.name, function.model)
        self._schema = function.schema

    @override
    def get_parameters_dict(self) -> JsonObject:
        return deepcopy(self._schema)  # clients of models change what they get


async def _find_namespace(context: Context[Any] | None) -> str | None:
    if context is None:
        return None

    named = await context.store.get("namespace", default=_UNNAMED)
    return None if named is _UNNAMED else find_namespace({"namespace": named})
