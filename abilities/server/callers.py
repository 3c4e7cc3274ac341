"""Callers: which application a request may use, by its token; the one check for HTTP and MCP.

What the store remembers of tokens: asked and told by a server, without holding up its calls.

Watching a tokens file from a server: a stuck disk must not stop the event loop.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import NamedTuple

from abilities.adapters.http import get_status
from abilities.application import Abilities
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.tokens import Token, TokenFile, TokenSet
from abilities.server.headers import Headers, RefusedRequest

RECALL_SECONDS = 10.0
"""How long a request waits for the store to say whether there ever were tokens.

As long as a call may take; it happens once, and a busy disk can take seconds to open a store.
"""

RETRY_SECONDS = 5.0
"""After this time the store is told again of tokens, if it could not write that down."""

_log = logging.getLogger("abilities")


class TokenMemory:
    """Knows whether tokens were ever made, as the store remembers it; asks and tells it once.

    Nothing is forgotten for as long as the process lives.
    """

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities
        self._known: bool | None = None
        self._asking: asyncio.Task[bool] | None = None
        self._telling: asyncio.Task[None] | None = None

    async def recall(self) -> bool:
        """Return whether there ever were tokens.

        Raises RefusedRequest if the store does not say.
        """
        if self._known is None:
            answer = await self._ask()
            # Tokens may have been seen in the meantime.
            self._known = self._known or answer

        return self._known

    def remember(self) -> None:
        """Take note of tokens, and let the store remember them soon."""
        self._known = True

        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def _ask(self) -> bool:
        """Ask the store; all requests that wait share one question."""
        asking = self._asking
        if asking is None or asking.done():
            asking = asyncio.create_task(self._abilities.has_token_mark())
            self._asking = asking

        await asyncio.wait([asking], timeout=RECALL_SECONDS)
        if not asking.done():
            raise RefusedRequest(503, "unavailable")

        try:
            return asking.result()
        except Refused as refusal:
            fault = Fault.from_refusal(refusal)
            raise RefusedRequest(get_status(fault.to_payload()), refusal.reason) from refusal

    async def _tell(self) -> None:
        """Tell the store, again and again until it has written it down."""
        has_failed = False

        while True:
            try:
                await self._abilities.set_token_mark()
                return
            except Exception as error:  # whatever it is, callers need a token all the same
                if not has_failed:
                    _log.warning(
                        "the store cannot remember that there are tokens yet: %s",
                        Fault.from_exception(error).message,
                    )
                has_failed = True

            await asyncio.sleep(RETRY_SECONDS)


FRESH_SECONDS = 0.5
"""How old a look at the file may be when a request arrives, so that most requests need none."""

LOOK_SECONDS = 5.0
"""How long a look may take; after that, requests are refused until it ends.

A busy disk takes a second or two for a small file; what waits this long is stuck.
"""


class _Look(NamedTuple):
    """A look at the file that has begun; ``finished`` tells those who wait for it."""

    began: float
    finished: Future[None]


class _Seen(NamedTuple):
    """What the last look saw that has ended."""

    began: float
    tokens: TokenSet


class TokenWatch:
    """Reads a tokens file on a thread, one look at a time, at most when a request arrives.

    ``load`` looks at the file; what it raises is raised to those who wait for the look. ``clock``
    returns seconds.
    """

    def __init__(
        self, load: Callable[[], TokenSet], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._clock = clock
        self._look: _Look | None = None
        self._seen: _Seen | None = None  # set on the thread

    async def read_recent(self) -> TokenSet:
        """Return what the file held at most `FRESH_SECONDS` ago. Raises RefusedRequest(503)."""
        return await self._read(self._clock() - FRESH_SECONDS)

    async def read_now(self) -> TokenSet:
        """Return what the file holds at this moment or later. Raises RefusedRequest(503)."""
        return await self._read(self._clock())

    async def _read(self, since: float) -> TokenSet:
        """Return what a look saw that began at ``since`` or later."""
        while True:
            seen = self._seen
            if seen is not None and seen.began >= since:
                return seen.tokens

            look = self._look
            if look is None or look.finished.done():
                look = self._begin_look()

            await self._wait(look)

    def _begin_look(self) -> _Look:
        look = _Look(self._clock(), Future())
        self._look = look

        # A daemon, so that a disk that never answers does not keep the process from ending.
        run = threading.Thread(target=self._run, args=(look,), name="abilities-tokens", daemon=True)
        run.start()
        return look

    def _run(self, look: _Look) -> None:
        try:
            self._seen = _Seen(look.began, self._load())
            look.finished.set_result(None)
        except Exception as error:
            look.finished.set_exception(error)

    async def _wait(self, look: _Look) -> None:
        """Wait for a look. Raises RefusedRequest(503) if it takes longer than `LOOK_SECONDS`."""
        seconds = look.began + LOOK_SECONDS - self._clock()
        if seconds > 0:
            await asyncio.wait([asyncio.wrap_future(look.finished)], timeout=seconds)

        # An older result would be an answer as well, but a token may have been revoked since.
        if not look.finished.done():
            raise RefusedRequest(503, "timeout")

        look.finished.result()


METRICS = "/metrics"
"""The only address that a token of scope "metrics" opens."""


SURFACE_HEADER = "x-abilities-surface"
"""The header by which the explorer's page says that a request is its own."""

_EXPLORER = "explorer"


class Caller(NamedTuple):
    """Who sent a request: its namespace, its token if it has one, and the surface that it uses."""

    namespace: str
    token: Token | None = None
    surface: str = "http"

    @property
    def name(self) -> str:
        """What the history and the log call who changed something: the token's label if any."""
        if self.token is not None and self.token.label:
            return self.token.plain_label

        return self.surface

    @property
    def metrics_namespace(self) -> str | None:
        """The only namespace whose metrics the caller may see; None if all, and the process's."""
        if self.token is None or self.token.scope == "metrics":
            return None

        return self.namespace

    @property
    def details(self) -> JsonObject:
        """What the log says of the caller: never more than is known, and nothing secret."""
        details: JsonObject = {}

        if self.namespace:
            details["namespace"] = self.namespace
        if self.token is not None:
            details["token"] = self.token.id
            details["label"] = self.token.plain_label

        return details


UNKNOWN_CALLER = Caller("")
"""Who sends a request, before that is known."""

current_caller: ContextVar[Caller] = ContextVar("current_caller", default=UNKNOWN_CALLER)
"""Who sent the request that is being answered; for the log and the metrics."""


def name_surface(path: str, headers: Headers) -> str:
    """Return what a request is sent to: "mcp", "explorer" or "http"."""
    if path == "/mcp":
        return "mcp"
    if headers.get(SURFACE_HEADER) == [_EXPLORER] or path.startswith("/api/explorer/"):
        return _EXPLORER

    return "http"


class Callers:
    """Finds who sent a request, and so the `Abilities` that it may use.

    Callers need a token if others than this machine can come (``is_public``), if the settings say
    so, or, unless they say otherwise, if there is a tokens file or ever was a token. Losing the
    tokens locks callers out, it does not let everyone in. If no token is needed, everyone is in the
    namespace of the settings.
    """

    def __init__(self, abilities: Abilities, file: TokenFile, *, is_public: bool) -> None:
        self._abilities = abilities
        self._file = file
        self._is_public = is_public
        self._watch = TokenWatch(self._load)
        self._memory = TokenMemory(abilities)
        self._views: dict[str, Abilities] = {}  # of callers without a token, by surface
        self._problem = ""  # the last one that was logged

    async def identify(self, headers: Headers) -> Caller:
        """Return who sent a request, by its headers.

        Raises RefusedRequest: 401 if the request needs a valid token; 503 and others if it cannot
        be told, because the tokens file or the store does not answer.
        """
        authorization = headers.get("authorization", [])
        tokens = await self._watch.read_recent()
        if tokens.by_id:
            self._memory.remember()

        # A token that was sent is checked in any case, so that nobody uses another's namespace.
        is_checked = bool(authorization and (tokens.by_id or tokens.problem))
        if not is_checked and not await self._is_token_needed(tokens):
            return Caller(self._abilities.settings.namespace)

        token = await self._find_token(tokens, authorization)
        if token is None:
            raise RefusedRequest(401, "unauthorized")

        return Caller(token.namespace, token)

    def open_abilities(self, caller: Caller, path: str) -> Abilities | None:
        """Return what a caller may use at an address; None for metrics alone.

        Raises RefusedRequest(403) for a token that does not open the address.
        """
        if caller.token is None:
            return self._get_view(caller.surface)

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
        )

    def _get_view(self, surface: str) -> Abilities:
        """Return what callers without a token use, the same object for all of a surface."""
        if surface not in self._views:
            self._views[surface] = self._abilities.for_caller(surface)

        return self._views[surface]

    def _load(self) -> TokenSet:
        """Look at the file; this is called on a thread."""
        tokens = self._file.load()

        try:
            self._abilities.settings.check_namespaces(tokens.namespaces)
        except ValueError as error:
            tokens = TokenSet({}, problem=str(error))

        # Once, and not for each request that is refused because of it.
        if tokens.problem and tokens.problem != self._problem:
            _log.error("every token is refused: %s", tokens.problem)

        self._problem = tokens.problem
        return tokens

    async def _is_token_needed(self, tokens: TokenSet) -> bool:
        """Whether callers without a token are refused. Raises RefusedRequest."""
        if self._is_public:
            return True

        is_needed = tokens.is_token_needed(self._abilities.settings.require_tokens)
        if is_needed is None:
            return await self._memory.recall()

        return is_needed

    async def _find_token(self, tokens: TokenSet, authorization: Sequence[str]) -> Token | None:
        """Return the token that a request carries; None if there is none, or not exactly one."""
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
