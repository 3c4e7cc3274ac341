"""Callers of the server: who sent a request, by its token, and what they may use.

HTTP and MCP share this check. Neither a stuck disk nor a store that does not answer holds up the
event loop: the tokens file is read on a thread, and the store is asked in a task.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import NamedTuple
from urllib.parse import unquote

from abilities.adapters.http import get_status
from abilities.application import Abilities
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject
from abilities.explorer.views import SHARED
from abilities.helpers.grants import GrantFile
from abilities.helpers.tokens import Token, TokenFile, TokenSet
from abilities.server.connections import Headers, RefusedRequest

MCP = "/mcp"
"""The only address that the access token of an OAuth client opens."""

METRICS = "/metrics"
"""The only address that a token of scope "metrics" opens."""

SURFACE_HEADER = "x-abilities-surface"
"""The header by which the explorer's page marks its own requests."""

NAMESPACE_HEADER = "x-abilities-namespace"
"""The header by which the page chooses another namespace that its caller reads, percent-encoded."""

FRESH_SECONDS = 0.5
"""Maximum age of a reading of the tokens file, so that most requests need no new one."""

READ_SECONDS = 5.0
"""Timeout for reading the tokens file; after that, requests are refused until the reading ends.

A busy disk takes a second or two for a small file; after five seconds it is stuck.
"""

RECALL_SECONDS = 10.0
"""Timeout for the store to answer whether there ever were tokens.

It is as long as that of a call: the store is asked once, and a busy disk can take seconds to open
it.
"""

RETRY_SECONDS = 5.0
"""Pause before the store is asked again to remember tokens, after it failed to."""

EXPLORER = "explorer"

_log = logging.getLogger("abilities")


class Caller(NamedTuple):
    """Who sent a request: its namespace, its token if it has one, and the surface that it uses.

    ``reads`` are the other namespaces that it may read. The explorer shows one of them if it is
    ``shown``.
    """

    namespace: str
    token: Token | None = None
    surface: str = "http"
    reads: tuple[str, ...] = ()
    shown: str = ""

    @property
    def name(self) -> str:
        """The name of the caller in the history and the log: the token's label or the surface."""
        if self.token is not None and self.token.label:
            return self.token.plain_label

        return self.surface

    @property
    def metrics_namespace(self) -> str | None:
        """The only namespace whose metrics the caller may see; None for all of the server's."""
        if self.token is None or self.token.scope == "metrics":
            return None

        return self.namespace

    @property
    def details(self) -> JsonObject:
        """The caller's fields in the log: only those that are known, and nothing secret."""
        details: JsonObject = {}

        if self.namespace:
            details["namespace"] = self.namespace
        if self.token is not None:
            details["token"] = self.token.id
            details["label"] = self.token.plain_label
        if self.token is not None and self.token.client:
            details["client"] = self.token.client

        return details


UNKNOWN_CALLER = Caller("")
"""The sender of a request that has not been identified yet."""

current_caller: ContextVar[Caller] = ContextVar("current_caller", default=UNKNOWN_CALLER)
"""The sender of the current request; for the log and the metrics."""


def name_surface(path: str, headers: Headers) -> str:
    """Return the surface that a request is sent to: "mcp", "explorer" or "http"."""
    if path == MCP:
        return "mcp"
    if headers.get(SURFACE_HEADER) == [EXPLORER] or path.startswith("/api/explorer/"):
        return EXPLORER

    return "http"


class Callers:
    """Identifies the sender of a request, and finds the `Abilities` that it may use.

    Callers need a token if other machines can reach the server (``is_public``) or if the settings
    say so. If the settings say nothing, they need one if there is a tokens file or ever was a
    token: losing the file locks callers out instead of letting everyone in. If no token is needed,
    everyone is in the namespace of the settings. ``grants`` has the access tokens of OAuth clients.
    """

    def __init__(
        self, abilities: Abilities, file: TokenFile, grants: GrantFile | None, *, is_public: bool
    ) -> None:
        self._abilities = abilities
        self._file = file
        self._grants = grants
        self._is_public = is_public
        self._watch = TokenWatch(self._load)
        self._memory = TokenMemory(abilities)
        self._views: dict[str, Abilities] = {}  # of callers without a token, by surface
        self._problem = ""  # the last one that was logged

    async def identify(self, headers: Headers) -> Caller:
        """Return the sender of a request, by its headers.

        Raises RefusedRequest: 401 if the request needs a valid token; 503 and others if the tokens
        file or the store does not answer.
        """
        authorization = headers.get("authorization", [])
        shown = unquote(headers.get(NAMESPACE_HEADER, [""])[0])
        settings = self._abilities.settings
        tokens = await self._watch.read_recent()
        if tokens.by_id:
            self._memory.remember()

        # A token that was sent is always checked, so that its holder never gets into the
        # namespace of the settings by mistake.
        is_checked = bool(authorization and (tokens.by_id or tokens.problem))
        is_needed: bool | None = True
        if not is_checked and not self._is_public:
            is_needed = settings.require_tokens
        if is_needed is None:
            # If the file exists without tokens, they were revoked or lost.
            is_needed = tokens.exists or await self._memory.recall()
        if not is_needed:
            return Caller(settings.namespace, reads=settings.other_namespaces, shown=shown)

        token = await self._find_token(tokens, authorization)
        if token is None:
            raise RefusedRequest(401, "unauthorized")

        return Caller(token.namespace, token, reads=token.reads, shown=shown)

    async def _find_token(self, tokens: TokenSet, authorization: Sequence[str]) -> Token | None:
        """Return the token of a request; None unless it sent exactly one that is valid."""
        if len(authorization) != 1:
            return None

        scheme, _, text = authorization[0].partition(" ")
        if scheme.lower() != "bearer":
            return None

        token = tokens.find(text.strip())
        if token is not None:
            return token

        # It may have been made a moment ago.
        tokens = await self._watch.read_now()
        return tokens.find(text.strip())

    def open_abilities(self, caller: Caller, path: str) -> Abilities | None:
        """Return the abilities that a caller may use at an address; None for metrics alone.

        Callers without a token share one object per surface. Raises RefusedRequest(403) for a token
        that does not open the address, and for a namespace that the caller does not read.
        """
        own = self._open_own(caller, path)
        if own is None or caller.surface != EXPLORER or not caller.shown:
            return own
        if caller.shown not in caller.reads:
            raise RefusedRequest(403, "scope")

        return own.for_caller(
            caller.name, namespace=caller.shown, read_only=True, tools=SHARED, reads=()
        )

    def _open_own(self, caller: Caller, path: str) -> Abilities | None:
        # The explorer's page shows one namespace at a time.
        reads = () if caller.surface == EXPLORER else caller.reads
        if caller.token is None:
            if caller.surface not in self._views:
                view = self._abilities.for_caller(caller.surface, reads=reads)
                self._views[caller.surface] = view

            return self._views[caller.surface]

        if caller.token.client and path != MCP:
            raise RefusedRequest(403, "scope")

        if caller.token.scope == "metrics":
            if path != METRICS:
                raise RefusedRequest(403, "scope")
            return None

        return self._abilities.for_caller(
            caller.name,
            namespace=caller.namespace,
            read_only=caller.token.scope == "read",
            may_purge=caller.token.scope == "purge",
            tools=caller.token.tools,
            reads=reads,
        )

    def _load(self) -> TokenSet:
        """Read the tokens file; `TokenWatch` calls this on a thread."""
        tokens = self._file.load()

        try:
            self._abilities.settings.check_namespaces(tokens.namespaces)
        except ValueError as error:
            tokens = TokenSet({}, problem=str(error))

        problem = f"every token is refused: {tokens.problem}" if tokens.problem else ""
        if self._grants is not None and not problem:
            try:
                tokens = tokens._replace(accesses=self._grants.list_accesses())
            except (OSError, ValueError):
                problem = "every OAuth client is refused: their file cannot be read"

        # Logged once, and not for each request that is refused because of it.
        if problem and problem != self._problem:
            _log.error(problem)

        self._problem = problem
        return tokens


class _Reading(NamedTuple):
    """A reading of the tokens file; ``finished`` wakes the requests that wait for it."""

    began: float
    finished: Future[None]


class _Snapshot(NamedTuple):
    """The tokens of a reading that has ended."""

    began: float
    tokens: TokenSet


class TokenWatch:
    """Reads the tokens file on a thread, when a request needs it, one reading at a time.

    ``load`` reads the file; its exceptions are raised to the requests that wait for the reading.
    """

    def __init__(self, load: Callable[[], TokenSet]) -> None:
        self._load = load
        self._reading: _Reading | None = None
        self._snapshot: _Snapshot | None = None  # set on the thread

    async def read_recent(self) -> TokenSet:
        """Return tokens that are at most `FRESH_SECONDS` old. Raises RefusedRequest(503)."""
        return await self._read_since(time.monotonic() - FRESH_SECONDS)

    async def read_now(self) -> TokenSet:
        """Return the tokens of this moment or later. Raises RefusedRequest(503)."""
        return await self._read_since(time.monotonic())

    async def _read_since(self, since: float) -> TokenSet:
        """Return the tokens of a reading that began at ``since`` or later.

        Raises RefusedRequest(503) if a reading takes longer than `READ_SECONDS`.
        """
        while True:
            snapshot = self._snapshot
            if snapshot is not None and snapshot.began >= since:
                return snapshot.tokens

            reading = self._reading
            if reading is None or reading.finished.done():
                reading = _Reading(time.monotonic(), Future())
                self._reading = reading
                # A daemon, because a disk that never answers must not keep the process alive.
                threading.Thread(
                    target=self._run, args=(reading,), name="abilities-tokens", daemon=True
                ).start()

            seconds = reading.began + READ_SECONDS - time.monotonic()
            if seconds > 0:
                await asyncio.wait([asyncio.wrap_future(reading.finished)], timeout=seconds)

            # Older tokens are no substitute: one may have been revoked since.
            if not reading.finished.done():
                raise RefusedRequest(503, "timeout")

            reading.finished.result()

    def _run(self, reading: _Reading) -> None:
        try:
            self._snapshot = _Snapshot(reading.began, self._load())
            reading.finished.set_result(None)
        except Exception as error:
            reading.finished.set_exception(error)


class TokenMemory:
    """Remembers in the store that tokens were made, so that deleting their file opens nothing.

    The store is asked once, and written to once; the process never forgets.
    """

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities
        self._known: bool | None = None
        self._asking: asyncio.Task[bool] | None = None
        self._writing: asyncio.Task[None] | None = None

    async def recall(self) -> bool:
        """Return whether there ever were tokens.

        Raises RefusedRequest if the store does not answer.
        """
        if self._known is not None:
            return self._known

        # All requests that wait share one question.
        asking = self._asking
        if asking is None or asking.done():
            asking = asyncio.create_task(self._abilities.has_token_mark())
            self._asking = asking

        await asyncio.wait([asking], timeout=RECALL_SECONDS)
        if not asking.done():
            raise RefusedRequest(503, "unavailable")

        try:
            answer = asking.result()
        except Refused as refusal:
            fault = Fault.from_refusal(refusal)
            raise RefusedRequest(get_status(fault.to_payload()), refusal.reason) from refusal

        # A request may have brought tokens in the meantime.
        self._known = self._known or answer
        return self._known

    def remember(self) -> None:
        """Note that there are tokens, and write it to the store soon."""
        self._known = True

        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """Write to the store, and retry until it has succeeded."""
        has_failed = False

        while True:
            try:
                await self._abilities.set_token_mark()
                return
            except Exception as error:  # callers need a token, whatever the store says
                if not has_failed:
                    _log.warning(
                        "the store cannot remember that there are tokens yet: %s",
                        Fault.from_exception(error).message,
                    )
                has_failed = True

            await asyncio.sleep(RETRY_SECONDS)
