"""Abilities as tools of the Microsoft Agent Framework: `load_tools`."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import FunctionInvocationContext, FunctionTool, MiddlewareFailure
from pydantic import BaseModel
from typing_extensions import override

from abilities.adapters.functions import Function, load_functions
from abilities.adapters.host import find_namespace
from abilities.application import Abilities
from abilities.settings import Settings


def load_tools(
    source: Abilities | Settings | None = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
) -> list[FunctionTool]:
    """Return the abilities as tools for an ``Agent``, in runs on any event loop.

    ``source`` is an open application, or settings (by default those of the environment) from which
    one is opened at the first call; it stays open, on one background loop, until the process ends.
    ``only`` names the tools to load, ``read_only`` leaves out those that change something.

    The namespace of a run is ``agent.run(..., function_invocation_kwargs={"namespace": name})``, by
    default that of the settings; one that cannot be a namespace is the application's mistake, and
    the run ends with MiddlewareFailure. A tool's result is the answer in the format that the call
    or the settings name. If the call failed as a whole it is the text of the fault.

    Raises KeyError for a name in ``only`` that is not offered, ValueError for a root that must not
    be shared or does not exist, and for tools in the settings that do not exist.
    """
    functions = load_functions(source, only=only, read_only=read_only, caller="agent-framework")
    return [AbilityTool(function) for function in functions]


class AbilityTool(FunctionTool):
    """One ability as a tool of the framework; its arguments are validated by the ability alone."""

    def __init__(self, function: Function) -> None:
        super().__init__(
            name=function.name,
            description=function.description,
            func=self._call,
            input_model=function.schema,
        )
        self._function = function

    async def _call(self, context: FunctionInvocationContext, **_: object) -> str:
        """Answer a call, whose arguments the context has too, whatever their names are."""
        try:
            namespace = find_namespace(context.kwargs)
        except ValueError as error:
            # The framework would hide any other exception from the application.
            raise MiddlewareFailure(str(error)) from error

        # An exception for a fault would reach the model without its text.
        return (await self._function.call(context.arguments, namespace=namespace)).text

    @override
    def _prepare_arguments(self, arguments: BaseModel | Mapping[str, Any] | None) -> dict[str, Any]:
        # The framework's own checks answer only that something is wrong with the arguments.
        return self._arguments_as_mapping(arguments) or {}
