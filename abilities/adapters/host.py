"""The application behind the tools of a framework, opened once and called from any event loop.

Abilities as plain functions, for any framework that takes a name, a schema and a call.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from abilities.adapters.http import parse_document
from abilities.application import Abilities, Opening
from abilities.declarations.memory import parse_namespace
from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.helpers.threads.loops import LoopThread
from abilities.registry import AbilityRegistry, Reply
from abilities.schemas import build_input_schema
from abilities.settings import Settings

T = TypeVar("T")
Work = Coroutine[Any, Any, T]

Source = Abilities | Opening | Settings | Sequence[Ability] | None
"""The application behind tools: open, or to be opened at the first call.

`Abilities.open` returns the latter; settings, or abilities of one's own beside the settings of the
environment, or nothing stand for it.
"""


class Host:
    """Calls abilities for a framework, whose name the history, logs and metrics show as ``caller``.

    What was not open before stays open, on one background loop, as long as this object, or until
    the process ends. Raises ValueError for settings with a root that must not be shared or does not
    exist.

    With ``required`` each call must name a namespace. It is a phrase that says where to name one,
    for the error that is raised otherwise.
    """

    def __init__(self, source: Source, caller: str, *, required: str | None = None) -> None:
        self._source = _prepare(source)
        self._caller = caller
        self._required = required
        self._lock = threading.Lock()
        self._opening: Future[Abilities] | None = None
        self._view: Abilities | None = None
        self._process = os.getpid()
        self._stack = AsyncExitStack()

    def build_registry(self) -> AbilityRegistry:
        """Return the abilities that are offered, without opening what is not open.

        Raises ValueError for tools in the settings that do not exist, and as `Abilities.open` for
        abilities of one's own.
        """
        if isinstance(self._source, Abilities):
            return self._source.registry

        return self._source.build_registry()

    async def call(self, name: str, arguments: object, namespace: str | int | None = None) -> Reply:
        """Call an ability for a model; may be awaited on any event loop.

        Without a namespace it is that of the settings, unless one is required. Raises ValueError
        for one that is missing or cannot be a namespace, and for settings from which no application
        can be opened.
        """
        abilities = await self.get_view(namespace)
        return await abilities.reply(name, arguments, for_model=True)

    async def get_view(self, namespace: str | int | None = None) -> Abilities:
        """Return the application as the framework sees it; raises ValueError as `call` does."""
        if self._required is not None:
            check_namespace(namespace, self._required)
        if self._process != os.getpid():
            self._begin_anew()

        abilities = self._view
        if abilities is None:
            opened = await self._get_abilities()
            abilities = self._view = opened.for_caller(self._caller)

        if namespace is not None:
            abilities = abilities.for_namespace(parse_namespace(namespace))

        return abilities

    def call_sync(self, name: str, arguments: object, namespace: str | int | None = None) -> Reply:
        """Call an ability as `call` does, from a thread that may wait for the reply."""
        return self.run_sync(self.call(name, arguments, namespace))

    async def run(self, work: Work[T]) -> T:
        """Run a coroutine on the background loop; may be awaited on any event loop."""
        return await asyncio.wrap_future(_submit_to_background(work))

    def run_sync(self, work: Work[T]) -> T:
        """Run a coroutine on the background loop, from a thread that may wait for its result."""
        return _submit_to_background(work).result()

    def _begin_anew(self) -> None:
        """Forget what a forked process has of its parent's application: none of its threads."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._opening = None
        self._view = None

    async def _get_abilities(self) -> Abilities:
        """Return the open application; the first call opens it."""
        if isinstance(self._source, Abilities):
            return self._source

        # A thread lock, because tools may run on several loops; it is never held while waiting.
        with self._lock:
            if self._opening is None or _has_failed(self._opening):
                # Never closed: the application lasts as long as this, or the process.
                self._stack = AsyncExitStack()
                entering = self._stack.enter_async_context(self._source)
                self._opening = _submit_to_background(entering)

        if self._opening.done():
            return self._opening.result()

        # A caller that is cancelled must not cancel the opening, for which others wait too.
        return await asyncio.shield(asyncio.wrap_future(self._opening))


def _prepare(source: Source) -> Abilities | Opening:
    """Return an application that is open, or can be opened."""
    if source is None or isinstance(source, Settings):
        source = Abilities.open(source)
    elif isinstance(source, Sequence):
        source = Abilities.open(abilities=source)

    if isinstance(source, Opening):
        source.settings.check_roots()
    return source


def check_namespace(namespace: str | int | None, place: str) -> None:
    """Raise ValueError if a namespace is missing; ``place`` says where to name one.

    Without a namespace, the memories of all users would be in that of the settings.
    """
    if namespace is None:
        raise ValueError(f"no namespace was given, and require_namespace is set: {place}")


def find_namespace(context: object) -> str | None:
    """Return the namespace that the context of a run names; None if it names none.

    A mapping names it by its key ``namespace``, any other object by its attribute of that name.
    Raises ValueError for one that cannot be a namespace.

    >>> find_namespace({"namespace": 42}), find_namespace({}), find_namespace(None)
    ('42', None, None)
    """
    named: object
    if isinstance(context, Mapping):
        fields = cast(Mapping[object, object], context)
        named = fields.get("namespace", _UNNAMED)
    else:
        named = getattr(context, "namespace", _UNNAMED)

    # A name that is given and empty is not left out: it must not open another's memories.
    return None if named is _UNNAMED else parse_namespace(named)


def _has_failed(opening: Future[Abilities]) -> bool:
    """Return whether an application could not be opened; what was wrong may be mended since."""
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


_UNNAMED = object()

_background = LoopThread("abilities-adapters", "the adapters")
"""The process's one background loop, which starts when first needed."""


def _submit_to_background(work: Work[T]) -> Future[T]:
    """Run a coroutine on the background loop; may be called from any thread."""
    return asyncio.run_coroutine_threadsafe(work, _background.start())


def _forget_background_loop() -> None:
    """Let a forked process start a loop of its own: it has no thread of its parent's."""
    global _background
    _background = LoopThread("abilities-adapters", "the adapters")


os.register_at_fork(after_in_child=_forget_background_loop)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One ability as a function.

    ``schema`` is the JSON Schema of its arguments in the form for models, a dict of its own, and
    ``model`` is their pydantic model, for frameworks that take no schema. A function that is
    ``read_only`` changes nothing.
    """

    name: str
    description: str
    schema: JsonObject
    model: type[BaseModel]
    read_only: bool
    _host: Host = field(repr=False)

    @classmethod
    def from_ability(cls, ability: Ability, host: Host) -> "Function":
        """Create the function of an ability; ``host`` runs its calls."""
        return cls(
            ability.name,
            ability.description,
            build_input_schema(ability),
            ability.input,
            ability.read_only,
            host,
        )

    async def call(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        namespace: str | int | None = None,
    ) -> Reply:
        """Call the ability on any event loop.

        ``arguments`` are a mapping or its JSON; whatever is wrong with them is told in the reply.
        Without a namespace it is that of the settings. If the call failed as a whole, the reply is
        ``failed`` and its text is the fault. Raises ValueError for what cannot be a namespace.
        """
        return await self._host.call(self.name, _read_arguments(arguments), namespace)

    def call_sync(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        namespace: str | int | None = None,
    ) -> Reply:
        """Call the ability as `call` does, from synchronous code."""
        return self._host.call_sync(self.name, _read_arguments(arguments), namespace)


def load_functions(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
    caller: str = "functions",
    place: str = "pass namespace=… to call() or call_sync()",
) -> list[Function]:
    """Return the abilities as functions, for sync and async code on any event loop.

    ``source`` is an open application, or what `Abilities.open` returns, settings (by default those
    of the environment) or abilities of one's own, from which one is opened at the first call; it
    stays open, on one background loop, until the process ends.
    ``only`` names the functions to load, ``read_only`` leaves out those that change something.
    With ``require_namespace`` a call that names no namespace raises ValueError instead of using
    that of the settings; ``place`` says where to name one. ``caller`` is who the history, logs and
    metrics say made the calls.

    Raises KeyError for a name in ``only`` that is not offered, ValueError for a root that must not
    be shared or does not exist, and for tools in the settings that do not exist.
    """
    host = Host(source, caller, required=place if require_namespace else None)
    chosen = host.build_registry().only(*(only or ()), read_only=read_only)
    return [Function.from_ability(ability, host) for ability in chosen]


def _read_arguments(arguments: Mapping[str, Any] | str | None) -> object:
    """Return arguments as a dict if they can be one; the call refuses anything else."""
    if isinstance(arguments, Mapping):
        return dict(arguments)

    if arguments is None or not arguments.strip():
        return {}

    try:
        return parse_document(arguments.encode())
    except ValueError:
        return arguments
