"""The open application: the abilities that it offers, and the resources that they share."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from abilities.builtin.catalog import BUILT_IN
from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject
from abilities.definition import Context
from abilities.helpers.files.confinement import Policy, Root
from abilities.helpers.files.lister import FileLister
from abilities.helpers.files.reader import FileReader
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.stores.opening import open_store
from abilities.helpers.stores.protocol import MemoryStore
from abilities.helpers.workers import WorkerPool
from abilities.plugins import add_plugins
from abilities.registry import AbilityRegistry
from abilities.replies import Reply
from abilities.settings import Settings

MAX_ROOTS = 1_000
"""Optional roots that an application remembers before it forgets those that never existed."""

Middleware = Callable[[str, Callable[[], Awaitable[Reply]]], Awaitable[Reply]]
"""Wraps each call of a surface: given the ability's name and the call, it returns the reply."""


def build_registry(settings: Settings) -> tuple[AbilityRegistry, list[str]]:
    """Return the abilities that the settings offer, built-in ones first, and problems with plugins.

    A problem is a sentence for each plugin that could not be loaded.
    """
    registry = AbilityRegistry(BUILT_IN)
    problems: list[str] = []
    if settings.plugins:
        problems = add_plugins(registry)

    offered = [ability for ability in registry if ability.name not in settings.disabled]
    return AbilityRegistry(offered, read_only=True), problems


class OptionalRoots:
    """The optional roots of an application: one object per directory, for all of its views.

    An optional root remembers whether its directory ever existed: before that it is empty, and
    after that it is unavailable while its directory is missing. Two objects would disagree.
    """

    def __init__(self) -> None:
        self._roots: dict[Path, Root] = {}
        self._lock = threading.Lock()  # views are made on any thread

    def get(self, name: str, path: Path) -> Root:
        """Return the root of a directory, the same one at each call."""
        with self._lock:
            if path not in self._roots:
                self._make_room()
                self._roots[path] = Root(name, path, optional=True)

            return self._roots[path]

    def _make_room(self) -> None:
        """Bound what callers who invent namespaces can fill.

        A root whose directory never existed is forgotten, because a new one knows as much. The
        others stay; there are no more of them than directories that existed.
        """
        if len(self._roots) < MAX_ROOTS:
            return

        for path, root in list(self._roots.items()):
            if root.optional:  # its directory was never seen
                del self._roots[path]


@dataclass(frozen=True, slots=True)
class Resources:
    """What an open application makes once, and all of its views share."""

    registry: AbilityRegistry
    problems: list[str]
    policy: Policy
    store: MemoryStore
    workers: WorkerPool = field(default_factory=WorkerPool)
    optional_roots: OptionalRoots = field(default_factory=OptionalRoots)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Make the resources. Raises ValueError for a store that cannot be used."""
        # The store comes first: if it cannot be used, no plugin is imported in vain.
        store = open_store(settings.store_url, max_memories=settings.max_memories)
        registry, problems = build_registry(settings)
        return cls(registry, problems, settings.policy, store)

    async def close(self) -> None:
        """Let the threads end, and finish what the store has begun."""
        self.workers.close()
        await self.store.close()

    def build_context(self, settings: Settings, *, read_only: bool = False) -> Context:
        """Return the context of one namespace, that of the settings. It is cheap to make."""
        agent = self._get_agent_root(settings)
        roots = [agent, Root("workspace", settings.workspace_path)]

        return Context(
            namespace=settings.namespace,
            files=FileReader(roots, self.policy, self.workers),
            lister=FileLister(roots, self.policy, self.workers),
            memory=MemoryHelper(
                settings.namespace,
                self.store,
                agent,
                self.policy,
                self.workers,
                settings.memory_files,
                settings.zone,
            ),
            max_response_bytes=settings.max_response_bytes,
            read_only=read_only,
        )

    def _get_agent_root(self, settings: Settings) -> Root:
        if settings.has_default_agent_dir:
            return self.optional_roots.get("agent", settings.agent_path)

        # A required root remembers nothing, so each view may have its own.
        return Root("agent", settings.agent_path)


class Abilities:
    """An open application, made by `Abilities.open`. Calls may come from any event loop.

    ``registry`` holds the abilities offered, ``problems`` has a sentence for each plugin that did
    not load, and ``context`` is what the abilities run in.

    `for_namespace` and `with_middleware` return views: further objects of this class that share
    everything that is open.
    """

    def __init__(
        self,
        resources: Resources,
        settings: Settings,
        context: Context,
        middleware: Middleware | None = None,
    ) -> None:
        self.settings = settings
        self.context = context
        self.registry: AbilityRegistry = resources.registry
        self.problems: list[str] = resources.problems
        self._resources = resources
        self._middleware = middleware

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings | None = None) -> AsyncGenerator[Self]:
        """Open the application: ``async with Abilities.open(Settings(...)) as abilities``.

        Raises ValueError for a root that must not be shared, and for a store that cannot be used.
        """
        settings = settings or Settings()
        settings.check_roots()

        resources = Resources.open(settings)
        try:
            yield cls(resources, settings, resources.build_context(settings))
        finally:
            await resources.close()

    async def call(self, name: str, arguments: JsonObject | None = None) -> JsonObject:
        """Call an ability and return its answer as a JSON-able dict.

        Items that failed have records that say so. Raises AbilityError if the call failed as a
        whole; its ``fault`` has the code and the reason.
        """
        return await self.registry.call(name, arguments, self.context)

    async def reply(self, name: str, arguments: object) -> Reply:
        """Call an ability for a surface, through the middleware if there is one.

        The reply holds the answer, or ``{"error": fault}``, in the requested format.
        """
        call = partial(self.registry.reply, name, arguments, self.context)
        if self._middleware is None:
            return await call()

        return await self._middleware(name, call)

    @property
    def offered(self) -> AbilityRegistry:
        """The abilities that may be called: all in the registry, or those that change nothing."""
        if self.context.read_only:
            return self.registry.only(read_only=True)

        return self.registry

    @property
    def queue_size(self) -> int:
        """How many calls wait for the store at this moment."""
        return self._resources.store.queue_size

    async def is_ready(self) -> bool:
        """Return whether the store answers."""
        try:
            await self._resources.store.read_stats(self.settings.namespace)
        except Refused:
            return False

        return True

    def for_namespace(self, namespace: str, *, read_only: bool = False) -> Self:
        """Return a view for another namespace; with ``read_only``, one that changes nothing.

        A view of a read-only view is read-only too. Raises ValueError for a name that cannot be a
        namespace.
        """
        # A view hands on what it may not do, so that its holder cannot make a stronger one.
        read_only = read_only or self.context.read_only
        is_same_scope = read_only == self.context.read_only
        if is_same_scope and namespace == self.settings.namespace:
            return self

        settings = self.settings.for_namespace(namespace)
        context = self._resources.build_context(settings, read_only=read_only)
        return type(self)(self._resources, settings, context, self._middleware)

    def with_middleware(self, middleware: Middleware) -> Self:
        """Return a view whose every `reply` goes through the middleware, in place of any other."""
        return type(self)(self._resources, self.settings, self.context, middleware)

    def __repr__(self) -> str:
        mode = ", read-only" if self.context.read_only else ""
        return f"<Abilities: {len(self.offered)} in namespace {self.context.namespace!r}{mode}>"
