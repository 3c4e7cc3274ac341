"""Abilities as tools of CrewAI: `load_tools`."""

from collections.abc import Sequence
from copy import deepcopy
from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict, PrivateAttr, create_model
from typing_extensions import override

from abilities.adapters.functions import (
    Function,
    Source,
    build_strict_schema,
    check_namespace,
    leave_out_null,
    load_functions,
)
from abilities.declarations.values import JsonObject
from abilities.errors import needs
from abilities.registry import Reply

with needs("crewai"):
    from crewai.tools import BaseTool, ToolFailure


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    namespace: str | int | None = None,
    require_namespace: bool = False,
) -> list[BaseTool]:
    """Return the abilities as tools for an ``Agent``.

    Arguments and exceptions are those of `load_functions`.

    A CrewAI tool gets no context of its run, so the tools are bound to one ``namespace``, by
    default that of the source. Raises ValueError if ``require_namespace`` is set and there is none.

    A tool's result is the text of the answer, or a ToolFailure with the text of the fault if the
    call failed as a whole. CrewAI does not cache the results.
    """
    if require_namespace:
        check_namespace(namespace, "pass namespace=… to load_tools()")

    functions = load_functions(source, only=only, read_only=read_only, caller="crewai")
    return [CrewTool.from_function(function, namespace) for function in functions]


class PassedArguments(BaseModel):
    """Arguments as the model sent them. Each subclass has the schema that the model gets.

    There are no fields, because CrewAI would add defaults for the fields of the ability's model.
    """

    model_config = ConfigDict(extra="allow")
    offered: ClassVar[JsonObject] = {}

    @override
    @classmethod
    def model_json_schema(cls, *args: object, **kwargs: object) -> JsonObject:
        return deepcopy(cls.offered)  # because CrewAI changes it


class CrewTool(BaseTool):
    """One ability as a CrewAI tool. Only the ability itself validates the arguments."""

    _function: Function = PrivateAttr()
    _namespace: str | int | None = PrivateAttr(default=None)

    @classmethod
    def from_function(cls, function: Function, namespace: str | int | None) -> "CrewTool":
        """Create the tool of a function for a namespace."""
        arguments = create_model(f"{function.name}_arguments", __base__=PassedArguments)
        arguments.offered = build_strict_schema(function)
        tool = cls(
            name=function.name,
            description=function.description,
            args_schema=arguments,
            cache_function=lambda *_: False,  # a later read may have another result
        )
        tool._function = function
        tool._namespace = namespace
        return tool

    @override
    def _run(self, **arguments: object) -> object:
        cleaned = self._clean(arguments)
        return _to_result(self._function.call_sync(cleaned, namespace=self._namespace))

    @override
    async def _arun(self, **arguments: object) -> object:
        cleaned = self._clean(arguments)
        return _to_result(await self._function.call(cleaned, namespace=self._namespace))

    def _clean(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments without the nulls that a strict schema makes a model send."""
        schema = cast(type[PassedArguments], self.args_schema).offered
        return cast(JsonObject, leave_out_null(arguments, schema))


def _to_result(reply: Reply) -> str | ToolFailure:
    if not reply.failed:
        return reply.text

    # A code is left out, because CrewAI would add it to the text that the model gets.
    fault = reply.payload["error"]
    return ToolFailure(message=reply.text, retryable=fault.get("retryable", False), details=fault)
