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
from typing_extensions import override

from abilities.application import Abilities
from abilities.declarations.memory import parse_namespace
from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.offer import build_offer
from abilities.replies import Reply
from abilities.schemas import build_input_schema
from abilities.settings import Settings

T = TypeVar("T")


def load_tools(
    source: Abilities | Settings | None = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
) -> list[BaseTool]:
    """Return the abilities as LangChain tools, for sync and async code on any event loop.

    ``source`` is an open application, or settings (by default those of the environment) from which
    one is opened at the first call; it stays open, on one background loop, until the process ends.
    ``only`` names the tools to load, ``read_only`` leaves out those that change something.

    The namespace of a call is ``config["configurable"]["namespace"]``, by default that of the
    settings; one that cannot be a namespace is the application's mistake, and the call raises
    ValueError instead of answering the model. A tool's content is the answer in the format that the
    call or the settings name, its artifact the payload. A call that failed as a whole becomes a
    tool message with status "error".

    Raises KeyError for a name in ``only`` that is not offered, ValueError for a root that must not
    be shared or does not exist, and for tools in the settings that do not exist.
    """
    if isinstance(source, Abilities):
        registry = source.registry
    else:
        source = source or Settings()
        source.check_roots()
        registry = build_offer(source)[0].registry

    host = _Host(source)
    chosen = registry.only(*(only or ()), read_only=read_only)
    return [AbilityTool.from_ability(ability, host) for ability in chosen]


class AbilitiesToolkit(BaseToolkit):
    """The tools of `load_tools`, for code that expects a toolkit."""

    tools: list[BaseTool]

    @classmethod
    def load(
        cls,
        source: Abilities | Settings | None = None,
        *,
        only: Sequence[str] | None = None,
        read_only: bool = False,
    ) -> "AbilitiesToolkit":
        """Return a toolkit with the tools that `load_tools` returns for the same arguments."""
        return cls(tools=load_tools(source, only=only, read_only=read_only))

    @override
    def get_tools(self) -> list[BaseTool]:
        return self.tools


class AbilityTool(BaseTool):
    """One ability as a LangChain tool.

    The schema of its arguments is a plain dict: with a model, LangChain would add defaults that
    nobody gave, and drop arguments that it does not know. The registry validates them, as for every
    other surface.
    """

    _ability: Ability = PrivateAttr()
    _host: "_Host" = PrivateAttr()

    @classmethod
    def from_ability(cls, ability: Ability, host: "_Host") -> "AbilityTool":
        """Create the tool of an ability; ``host`` runs its calls."""
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

    @override
    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        return self._ability.input

    @override
    def _run(
        self, *args: object, config: RunnableConfig, **arguments: object
    ) -> tuple[str, JsonObject]:
        call = self._host.call(self.name, arguments, config)
        return _to_content_and_artifact(_submit_to_background(call).result())

    @override
    async def _arun(
        self, *args: object, config: RunnableConfig, **arguments: object
    ) -> tuple[str, JsonObject]:
        return _to_content_and_artifact(await self._host.call(self.name, arguments, config))


def _to_content_and_artifact(reply: Reply) -> tuple[str, JsonObject]:
    """Return the two parts of a tool message. Raises ToolException if the call failed."""
    if reply.failed:
        raise ToolException(reply.text)

    return reply.text, reply.payload


class _Host:
    """Opens the application once, on the background loop, and calls it from any other loop."""

    def __init__(self, source: Abilities | Settings) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._opening: Future[Abilities] | None = None
        self._view: Abilities | None = None
        self._stack = AsyncExitStack()  # never closed: the application lasts as long as the process

    async def call(self, name: str, arguments: JsonObject, config: RunnableConfig) -> Reply:
        """Call an ability in the namespace that the run's configuration names.

        Raises ValueError for one that cannot be a namespace.
        """
        abilities = self._view
        if abilities is None:
            opened = await self._get_abilities()
            abilities = self._view = opened.for_caller("langchain")

        configurable = config.get("configurable") or {}
        # A name that is given and empty is not left out: it must not open another's memories.
        namespace = parse_namespace(configurable.get("namespace", abilities.settings.namespace))

        return await abilities.for_namespace(namespace).reply(name, arguments, for_model=True)

    async def _get_abilities(self) -> Abilities:
        """Return the open application; the first call opens it."""
        if isinstance(self._source, Abilities):
            return self._source

        # A thread lock, because tools may run on several loops; it is never held while waiting.
        with self._lock:
            if self._opening is None:
                entering = self._stack.enter_async_context(Abilities.open(self._source))
                self._opening = _submit_to_background(entering)

        if self._opening.done():
            return self._opening.result()

        # A caller that is cancelled must not cancel the opening, for which others wait too.
        return await asyncio.shield(asyncio.wrap_future(self._opening))


_background_loop: asyncio.AbstractEventLoop | None = None
_background_lock = threading.Lock()


def _submit_to_background(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the background loop; may be called from any thread."""
    return asyncio.run_coroutine_threadsafe(work, _get_background_loop())


def _get_background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of the process's one background thread, which starts when first needed."""
    global _background_loop

    with _background_lock:
        if _background_loop is None:
            _background_loop = asyncio.new_event_loop()
            # A daemon thread, so that it never delays the end of the process.
            threading.Thread(
                target=_background_loop.run_forever, name="abilities-langchain", daemon=True
            ).start()

        return _background_loop
