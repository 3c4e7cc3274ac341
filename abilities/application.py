"""Abilities: an open application, the registry together with what its abilities share."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self

from abilities.builtin.catalog import BUILT_IN
from abilities.declarations.faults import Refused
from abilities.declarations.values import as_object
from abilities.definition import Context
from abilities.errors import AbilityError
from abilities.helpers.files.lister import FileLister
from abilities.helpers.files.reader import FileReader
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.reply.render import render
from abilities.helpers.stores.opening import open_store
from abilities.helpers.stores.protocol import MemoryStore
from abilities.helpers.workers import WorkerPool
from abilities.plugins import add_plugins
from abilities.registry import AbilityAnswer, AbilityRegistry
from abilities.replies import Reply, failed_reply
from abilities.settings import Settings


def build_registry(settings: Settings) -> tuple[AbilityRegistry, list[str]]:
    """The abilities that the settings offer, built-in ones first, and what was wrong with plugins."""
    registry = AbilityRegistry(BUILT_IN)
    problems = add_plugins(registry) if settings.plugins else []
    offered = [ability for ability in registry if ability.name not in settings.disabled]
    return AbilityRegistry(offered, read_only=True), problems


Middleware = Callable[[str, Callable[[], Awaitable[Reply]]], Awaitable[Reply]]
"""What stands around each call that a surface makes: given the ability's name and the call, it returns the reply."""


class Abilities:
    """An open application; made by `Abilities.open`. Calls may come from any event loop.

    ``registry`` holds the abilities offered, ``problems`` a sentence for each plugin that did not load, and
    ``context`` is what abilities run in.
    """

    def __init__(
        self,
        settings: Settings,
        registry: AbilityRegistry,
        problems: list[str],
        workers: WorkerPool,
        store: MemoryStore,
        *,
        read_only: bool = False,
        around: Middleware | None = None,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.problems = problems
        self._workers = workers
        self._store = store
        self._around = around
        agent, policy = settings.agent_root, settings.policy
        self.context = Context(
            namespace=settings.namespace,
            files=FileReader([agent, settings.workspace_root], policy, workers),
            lister=FileLister([agent, settings.workspace_root], policy, workers),
            memory=MemoryHelper(
                settings.namespace,
                store,
                agent,
                policy,
                workers,
                settings.memory_files,
                settings.zone,
            ),
            max_response_bytes=settings.max_response_bytes,
            read_only=read_only,
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings | None = None) -> AsyncGenerator[Self]:
        """Open the application: ``async with Abilities.open(Settings(...)) as abilities``.

        Raises ValueError for a root that must not be shared, and for a store that cannot be used.
        """
        settings = settings or Settings()
        settings.check_roots()
        workers, store = (
            WorkerPool(),
            open_store(settings.store_url, max_memories=settings.max_memories),
        )
        try:
            yield cls(settings, *build_registry(settings), workers, store)
        finally:
            workers.close()
            await store.close()

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call an ability and return its answer as a JSON-able dict.

        Items that failed have records that say so. Raises AbilityError when the call failed as a whole:
        its ``fault`` has the code and the reason.
        """
        return await self.registry.call(name, arguments, self.context)

    async def reply(self, name: str, arguments: Any) -> "Reply":
        """Call an ability for a surface: the answer, or ``{"error": fault}``, in the format asked for."""
        if self._around is None:
            return await self._reply(name, arguments)
        return await self._around(name, lambda: self._reply(name, arguments))

    async def _reply(self, name: str, arguments: Any) -> Reply:
        try:
            answer = await self.registry.run_ability(name, arguments, self.context)
            if (as_object(arguments) or {}).get("output_format") == "toon":
                return await self._toon(name, arguments, answer)
        except AbilityError as error:
            return failed_reply(error.fault)
        return Reply(answer.payload, answer.json, failed=False)

    async def _toon(self, name: str, arguments: Any, answer: AbilityAnswer) -> Reply:
        """The answer as TOON. Where that is over the bound that the JSON kept, less is asked for until it fits."""
        limit = room = self.context.max_response_bytes
        while (size := len((text := render(answer.payload, "toon")).encode())) > limit:
            room = min(room * limit // size, room - 1_000)
            answer = await self.registry.run_ability(
                name, arguments, replace(self.context, max_response_bytes=room)
            )
        return Reply(answer.payload, text, failed=False)

    @property
    def offered(self) -> AbilityRegistry:
        """The abilities that may be called: all in the registry, or those that change nothing."""
        return self.registry.only(read_only=True) if self.context.read_only else self.registry

    @property
    def queue_size(self) -> int:
        """How many calls wait for the store at this moment."""
        return self._store.queue_size

    async def is_ready(self) -> bool:
        """Whether the store answers."""
        try:
            await self._store.read_stats(self.settings.namespace)
        except Refused:
            return False
        return True

    def for_namespace(self, namespace: str, *, read_only: bool = False) -> Self:
        """The same application for another namespace, and for reading alone if so asked.

        Raises ValueError for a name that cannot be a namespace.
        """
        if namespace == self.settings.namespace and read_only == self.context.read_only:
            return self
        return self._like(self.settings.for_namespace(namespace), read_only, self._around)

    def with_middleware(self, around: Middleware) -> Self:
        """The same application, with something around each `reply`."""
        return self._like(self.settings, self.context.read_only, around)

    def _like(self, settings: Settings, read_only: bool, around: Middleware | None) -> Self:
        shared = (self.registry, self.problems, self._workers, self._store)
        return type(self)(settings, *shared, read_only=read_only, around=around)
