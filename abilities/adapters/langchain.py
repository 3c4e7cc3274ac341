"""Abilities as LangChain tools: `load_tools`, and `AbilitiesToolkit` to hold them."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, BaseToolkit, ToolException
from pydantic import BaseModel, PrivateAttr

from abilities.application import Abilities, build_registry
from abilities.declarations.faults import Fault
from abilities.definition import Ability
from abilities.replies import Reply, failed_reply
from abilities.schemas import build_input_schema
from abilities.settings import Settings

T = TypeVar("T")

_LOOP_LOCK = threading.Lock()


def load_tools(
    source: Abilities | Settings | None = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
) -> list[BaseTool]:
    """The abilities as LangChain tools, for sync and async code on any event loop.

    ``source`` is an open application, or settings from which one is opened at the first call (on one
    background loop, until the process ends). ``only`` names the tools wanted, ``read_only`` leaves out
    those that change something. The namespace of a call is ``config["configurable"]["namespace"]``, by
    default that of the settings. A tool's content is the answer as JSON or TOON text and its artifact the
    payload; a call that failed as a whole becomes a tool message with status "error".

    Raises KeyError for a name in ``only`` that is not offered, ValueError for a root that must not be shared.
    """
    if not isinstance(source, Abilities):
        source = source or Settings()
        source.check_roots()
    registry = source.registry if isinstance(source, Abilities) else build_registry(source)[0]
    host = _Host(source)
    return [
        AbilityTool.from_ability(ability, host)
        for ability in registry.only(*(only or ()), read_only=read_only)
    ]


class AbilitiesToolkit(BaseToolkit):
    """A toolkit over `load_tools`, for code that expects one."""

    tools: list[BaseTool]

    @classmethod
    def load(
        cls,
        source: Abilities | Settings | None = None,
        *,
        only: Sequence[str] | None = None,
        read_only: bool = False,
    ) -> "AbilitiesToolkit":
        """A toolkit with the tools that `load_tools` returns for the same arguments."""
        return cls(tools=load_tools(source, only=only, read_only=read_only))

    def get_tools(self) -> list[BaseTool]:
        """The tools."""
        return self.tools


class AbilityTool(BaseTool):
    """One ability as a LangChain tool.

    The arguments' schema is a plain dict, so that LangChain neither adds defaults that nobody gave nor
    drops what it does not know: validation is the registry's, the same as on every surface.
    """

    _ability: Ability = PrivateAttr()
    _host: "_Host" = PrivateAttr()

    @classmethod
    def from_ability(cls, ability: Ability, host: "_Host") -> "AbilityTool":
        """The tool of an ability, run by a host."""
        tool = cls(
            name=ability.name,
            description=ability.description,
            args_schema=build_input_schema(ability),
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        tool._ability = ability
        tool._host = host
        return tool

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """The ability's input model."""
        return self._ability.input

    def _run(
        self, *args: Any, config: RunnableConfig, **arguments: Any
    ) -> tuple[str, dict[str, Any]]:
        return _answered(self._host.submit(self._host.reply(self.name, arguments, config)).result())

    async def _arun(
        self, *args: Any, config: RunnableConfig, **arguments: Any
    ) -> tuple[str, dict[str, Any]]:
        return _answered(await self._host.reply(self.name, arguments, config))


def _answered(reply: Reply) -> tuple[str, dict[str, Any]]:
    if reply.failed:
        raise ToolException(reply.text)
    return reply.text, reply.payload


class _Host:
    """Opens the application once, on one background loop, and calls it from whatever loop a tool runs on."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, source: Abilities | Settings) -> None:
        self._starting = threading.Lock()
        self._source = source
        self._opening: Future[Abilities] | None = None
        self._stack = AsyncExitStack()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start work on the background loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._background())

    async def reply(self, name: str, arguments: dict[str, Any], config: RunnableConfig) -> Reply:
        """Call an ability in the namespace that the run's configuration names."""
        abilities = await self._abilities()
        namespace = (config.get("configurable") or {}).get(
            "namespace", abilities.settings.namespace
        )
        try:
            return await abilities.for_namespace(
                namespace if isinstance(namespace, str) else ""
            ).reply(name, arguments)
        except ValueError:
            return failed_reply(Fault.from_reason("invalid_parameter", field="namespace"))

    async def _abilities(self) -> Abilities:
        """The open application; the first caller has it opened."""
        if isinstance(self._source, Abilities):
            return self._source
        with self._starting:
            opening = self._opening = self._opening or self._open(self._source)
        return (
            opening.result()
            if opening.done()
            else await asyncio.shield(asyncio.wrap_future(opening))
        )

    def _open(self, settings: Settings) -> "Future[Abilities]":
        return self.submit(self._stack.enter_async_context(Abilities.open(settings)))

    @classmethod
    def _background(cls) -> asyncio.AbstractEventLoop:
        """The loop of the process's one background thread; a daemon, so that it never delays the exit."""
        with _LOOP_LOCK:
            if _Host._loop is None:
                _Host._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_Host._loop.run_forever, name="abilities-langchain", daemon=True
                ).start()
            return _Host._loop
