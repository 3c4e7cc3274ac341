"""The open application: the abilities that it offers, and the resources that they share."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from typing_extensions import override

from abilities.builtin import index
from abilities.declarations.refusals import Reason
from abilities.declarations.values import JsonObject
from abilities.definition import Ability, Context
from abilities.helpers.files.confinement import Policy
from abilities.helpers.files.files import Files
from abilities.helpers.files.reader import Root, RootPlace
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.store import opening
from abilities.helpers.store.protocol import HistoryStore, MarkableStore, MemoryStore, ServableStore
from abilities.helpers.threads.workers import WorkerPool
from abilities.plugins import add_ability, add_plugins, open_documents
from abilities.registry import AbilityRegistry, Reply
from abilities.settings import LOCAL_URL, Settings

if TYPE_CHECKING:
    from abilities.helpers.embedder import Embedder
    from abilities.helpers.memory.meaning import VectorMeaning

MAX_ROOTS = 1_000
"""Optional roots that are kept before those whose directory never existed are dropped."""

Middleware = Callable[[str, Callable[[], Awaitable[Reply]]], Awaitable[Reply]]
"""Wraps each call of a surface: given the ability's name and the call, it returns the reply."""


class Offer(NamedTuple):
    """The abilities of a caller.

    ``withheld`` names registered abilities that the caller may not use. It leaves out an ability
    if another one that is offered does the same.
    """

    registry: AbilityRegistry
    withheld: tuple[str, ...] = ()

    def narrow(self, tools: Iterable[str]) -> "Offer":
        """Return only abilities that a profile or a name in ``tools`` selects.

        Unknown names select nothing.
        """
        tools = tuple(tools)
        names = self.registry.names
        selected = index.select_names(tools, names)
        allowed = selected | index.find_implied(selected)
        withheld = [name for name in names if name not in allowed]

        return Offer(self.registry.select(selected), (*self.withheld, *withheld))


def build_registry(
    settings: Settings, own: Sequence[Ability] = ()
) -> tuple[AbilityRegistry, list[str]]:
    """Return all registered abilities, and a sentence for each plugin that could not be loaded.

    Built-in abilities come first, then the application's own, then those of plugins. Raises
    ValueError and TypeError for the application's own, as `add_ability` does.
    """
    explorer = settings.public_url or LOCAL_URL
    registry = AbilityRegistry(
        index.list_built_in(
            for_kv_memory=settings.compat == "kv-memory",
            for_chatgpt=explorer if settings.chatgpt else None,
        )
    )
    for ability in own:
        add_ability(registry, ability)

    problems: list[str] = []
    if settings.plugins:
        problems = add_plugins(registry)

    return registry, problems


def build_offer(
    settings: Settings, own: Sequence[Ability] = (), store: MemoryStore | None = None
) -> tuple[Offer, list[str]]:
    """Return the abilities that the settings offer, and problems as `build_registry` does.

    The application's own abilities are offered whatever ``tools`` names, unless they are disabled.
    If its own ``store`` keeps no history, abilities that need one are left out.

    An unknown name in ``disabled`` is a problem too, because the user believes that ability to be
    off. It is no error, because the package that declares it may not be installed here.

    Raises ValueError if ``tools`` has a name that is neither a profile nor an ability, and the
    exceptions of `build_registry`.
    """
    registry, problems = build_registry(settings, own)
    names = registry.names
    mistake = index.explain_unknown_tools(settings.tools, names)
    if mistake is not None:
        raise ValueError(f"tools: {mistake}")

    problems += index.explain_unknown_names(settings.disabled, names)

    disabled = settings.disabled
    if store is not None and not isinstance(store, HistoryStore):
        disabled = (*disabled, *index.NEED_HISTORY)
    enabled = [name for name in names if name not in disabled]
    withheld = tuple(name for name in names if name in disabled)

    tools = [*settings.tools, *(ability.name for ability in own)]
    return Offer(registry.select(enabled), withheld).narrow(tools), problems


class OptionalRoots:
    """The optional roots of an application: one object per directory, shared by all views.

    A root without a directory is empty if the directory never existed, and unavailable if it did.
    The root remembers this, so two objects for one directory could disagree.
    """

    def __init__(self) -> None:
        self._roots: dict[RootPlace, Root] = {}
        self._lock = threading.Lock()  # views are created on any thread

    def get(self, place: RootPlace) -> Root:
        """Return the root at a place, the same one at each call."""
        with self._lock:
            if place in self._roots:
                return self._roots[place]

            # Callers may invent namespaces. A new root knows as much as one whose directory never
            # existed; the others stay, at most one for each directory that existed.
            if len(self._roots) >= MAX_ROOTS:
                for old, root in list(self._roots.items()):
                    if root.optional:  # no longer true once its directory was seen
                        del self._roots[old]

            self._roots[place] = Root(place.name, place.path, optional=True)
            return self._roots[place]


def open_store(settings: Settings) -> ServableStore:
    """Return the store of the settings; it connects at its first use.

    Raises ValueError if its database driver is not installed.
    """
    return opening.open_store(
        settings.store_url,
        max_memories=settings.max_memories,
        language=settings.recall_language,
        history=settings.history_limits,
    )


@asynccontextmanager
async def use_store(settings: Settings) -> AsyncGenerator[ServableStore]:
    """Open the store of the settings for a block. Raises ValueError as `open_store` does."""
    store = open_store(settings)
    try:
        yield store
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that an open application creates once and all its views share."""

    offer: Offer
    problems: list[str]
    policy: Policy
    store: MemoryStore
    meaning: "VectorMeaning | None" = None
    workers: WorkerPool = field(default_factory=WorkerPool)
    optional_roots: OptionalRoots = field(default_factory=OptionalRoots)

    async def close(self) -> None:
        """End the threads, and close the store when it has finished its work."""
        await self.offer.registry.close()  # first, because plugins use the others
        self.workers.close()
        self.policy.documents.close()
        if self.meaning is not None:
            self.meaning.close()
        await self.store.close()

    def build_context(
        self,
        settings: Settings,
        caller: str,
        offer: Offer,
        *,
        read_only: bool,
        may_purge: bool,
    ) -> Context:
        """Return the context of the namespace of the settings. It is cheap to create.

        The history records ``caller`` as the author of its changes.
        """
        roots: list[Root] = []
        for place in settings.roots:
            if place.optional:
                roots.append(self.optional_roots.get(place))
            else:
                # A required root remembers nothing, so each view may have its own.
                roots.append(Root(place.name, place.path))

        absent: Reason = "not_found" if settings.workspace_root else "no_workspace"

        return Context(
            namespace=settings.namespace,
            files=Files(roots, self.policy, self.workers, absent=absent),
            memory=MemoryHelper(
                settings.namespace,
                self.store,
                roots[0],  # the agent's: the workspace has no notes
                self.policy,
                self.workers,
                settings.memory_files,
                settings.zone,
                self.meaning,
                caller,
                settings.other_namespaces,
            ),
            max_response_bytes=settings.max_response_bytes,
            read_only=read_only,
            disabled=offer.withheld,
            detail=settings.detail or "full",
            caller=caller,
            may_purge=may_purge and not read_only,
            remembers=settings.remembered and not index.SHOW_MEMORIES.issubset(offer.withheld),
        )


class Abilities:
    """An open application, created by `Abilities.open`. Calls may come from any event loop.

    ``registry`` has the abilities that are offered, and ``context`` is the context that they run
    in. ``problems`` has a sentence for each plugin that could not be loaded and each unknown name
    in ``disabled``.

    `for_namespace`, `for_caller` and `with_middleware` return views: further objects of this class
    that share the same resources.
    """

    def __init__(
        self,
        resources: Resources,
        settings: Settings,
        *,
        caller: str = "python",
        offer: Offer | None = None,
        read_only: bool = False,
        may_purge: bool | None = None,
        middleware: Middleware | None = None,
    ) -> None:
        self._resources = resources
        self._offer = resources.offer if offer is None else offer
        self._middleware = middleware
        self.settings = settings
        self.registry: AbilityRegistry = self._offer.registry
        self.problems: list[str] = resources.problems
        self.context = resources.build_context(
            settings,
            caller,
            self._offer,
            read_only=read_only,
            may_purge=settings.allow_purge if may_purge is None else may_purge,
        )

    @staticmethod
    def open(
        settings: Settings | None = None,
        *,
        abilities: Sequence[Ability] = (),
        store: MemoryStore | None = None,
        embedder: "Embedder | None" = None,
    ) -> "Opening":
        """Open the application: ``async with Abilities.open(Settings(...)) as abilities``.

        ``settings`` are read from the environment by default. ``abilities`` are the application's
        own, offered together with the others. ``store`` and ``embedder`` replace those of the
        settings; the store is closed with the application.

        The returned object can also be passed to `load_tools` of any framework, which opens it.

        Entering it raises ValueError for a root that must not be shared or does not exist, for a
        store that cannot be used, and for an ability whose name is taken, and TypeError for an
        object that is no ability.
        """
        return Opening(settings or Settings(), tuple(abilities), store, embedder)

    async def call(self, name: str, arguments: JsonObject | None = None) -> JsonObject:
        """Call an ability and return its answer as a dict that JSON can represent.

        An item that failed has a record with its error. Raises AbilityError if the call failed as
        a whole; its ``fault`` has the code and the reason.
        """
        return await self.registry.call(name, arguments, self.context)

    async def reply(
        self, name: str, arguments: object, *, for_model: bool = False, structured: bool = False
    ) -> Reply:
        """Call an ability for a surface, through the middleware if there is one.

        The reply has the answer, or ``{"error": fault}``, in the requested format, by default JSON.
        ``for_model`` changes the defaults: the format is that of the settings, and the answer is
        concise unless the settings say otherwise. ``structured`` means that the surface sends the
        payload together with the text.
        """
        context = self.context
        if for_model:
            context = replace(
                context,
                output_format=self.settings.output_format,
                structured=structured,
                detail=self.settings.detail or "concise",
            )

        return await self.observe(name, partial(self.registry.reply, name, arguments, context))

    async def observe(self, name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Make a call through the middleware if there is one."""
        if self._middleware is None:
            return await call()

        return await self._middleware(name, call)

    @property
    def offered(self) -> AbilityRegistry:
        """The abilities that may be called; in a read-only view, only those that change nothing."""
        if self.context.read_only:
            return self.registry.only(read_only=True)

        return self.registry

    @property
    def queue_size(self) -> int:
        """The number of calls that wait for the store at this moment."""
        return self._resources.store.queue_size

    @property
    def stuck_threads(self) -> int:
        """The number of threads that are stuck in files and folders that do not answer."""
        return self._resources.workers.count_stuck()

    async def check_ready(self) -> None:
        """Raise Refused if the store does not answer within 2 seconds."""
        await self._resources.store.ping()

    async def set_token_mark(self) -> None:
        """Record in the store, for good, that tokens of a server were created. Raises Refused.

        An application's own store need not support this; then only the tokens file says so.
        """
        store = self._resources.store
        if isinstance(store, MarkableStore):
            await store.set_mark("tokens")

    async def has_token_mark(self) -> bool:
        """Return whether the store has a record of tokens. Raises Refused."""
        store = self._resources.store
        return isinstance(store, MarkableStore) and await store.has_mark("tokens")

    def for_namespace(self, namespace: str, *, read_only: bool = False) -> Self:
        """Return a view for another namespace; with ``read_only``, one that changes nothing.

        A view of a read-only view is read-only too. Raises ValueError for a name that cannot be a
        namespace.
        """
        is_same_scope = self.context.read_only or not read_only
        if is_same_scope and namespace == self.settings.namespace:
            return self

        return self.for_caller(self.context.caller, namespace=namespace, read_only=read_only)

    def for_caller(
        self,
        caller: str,
        *,
        namespace: str | None = None,
        read_only: bool = False,
        may_purge: bool | None = None,
        tools: Sequence[str] = (),
        reads: Sequence[str] | None = None,
    ) -> Self:
        """Return a view for a surface, or for the holder of a token, whose name is ``caller``.

        The history records the caller as the author of its changes. ``may_purge`` lets it delete
        memories with their history; None leaves this as it is. ``tools`` names profiles and
        abilities, to which the abilities of this view are reduced. ``reads`` replaces the setting
        ``read_namespaces``. Raises ValueError as `for_namespace` does.
        """
        settings = self.settings
        if namespace is not None:
            settings = settings.for_namespace(namespace)
        if reads is not None:
            settings = settings.model_copy(update={"read_namespaces": tuple(reads)})
        if may_purge is None:
            may_purge = self.context.may_purge

        # A view passes its restrictions on, so that its holder cannot create a stronger one.
        return type(self)(
            self._resources,
            settings,
            caller=caller,
            offer=self._offer.narrow(tools) if tools else self._offer,
            read_only=read_only or self.context.read_only,
            may_purge=may_purge,
            middleware=self._middleware,
        )

    def with_middleware(self, middleware: Middleware) -> Self:
        """Return a view whose calls of `reply` go through this middleware and no other."""
        view = copy(self)
        view._middleware = middleware
        return view

    def __repr__(self) -> str:
        mode = ", read-only" if self.context.read_only else ""
        return f"<Abilities: {len(self.offered)} in namespace {self.context.namespace!r}{mode}>"


class Opening(AbstractAsyncContextManager[Abilities]):
    """An application that ``async with`` opens; created by `Abilities.open`."""

    def __init__(
        self,
        settings: Settings,
        abilities: Sequence[Ability],
        store: MemoryStore | None,
        embedder: "Embedder | None",
    ) -> None:
        self.settings = settings
        self._abilities = abilities
        self._store = store
        self._embedder = embedder
        self._opened: AbstractAsyncContextManager[Abilities] | None = None

    def build_registry(self) -> AbilityRegistry:
        """Return the abilities that will be offered. Raises the exceptions of entering it."""
        offer, _ = build_offer(self.settings, self._abilities, self._store)
        return offer.registry

    @override
    async def __aenter__(self) -> Abilities:
        self._opened = self._open()
        return await self._opened.__aenter__()

    @override
    async def __aexit__(self, *raised: Any) -> None:
        assert self._opened is not None, "it was entered"
        await self._opened.__aexit__(*raised)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Abilities]:
        # A generator, because the event loop ends forgotten ones.
        settings = self.settings
        settings.check_roots()
        chosen = settings.embedder if self._embedder is None else self._embedder
        meaning = None
        if chosen not in (None, ""):
            # Imported here, because few use it.
            from abilities.embedders import open_meaning

            meaning = open_meaning(chosen)

        # The store comes first: if it cannot be used, no plugin is imported in vain.
        store = self._store
        if store is None:  # an application's own store may be false, if it is empty
            store = open_store(settings)

        offer, problems = build_offer(settings, self._abilities, store)
        documents, unloaded = open_documents(plugins=settings.plugins)
        policy = replace(settings.policy, documents=documents)
        resources = Resources(offer, problems + unloaded, policy, store, meaning)

        try:
            yield Abilities(resources, settings)
        finally:
            await resources.close()
