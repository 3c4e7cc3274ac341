"""Callers: which application a request may use, by its token; the one check for HTTP and MCP."""

import logging
from collections.abc import Sequence
from contextvars import ContextVar
from typing import NamedTuple

from abilities.application import Abilities
from abilities.declarations.values import JsonObject
from abilities.helpers.tokens import Token, TokenFile, TokenSet
from abilities.server.headers import Headers
from abilities.server.refusals import RefusedRequest
from abilities.server.token_memory import TokenMemory
from abilities.server.token_watch import TokenWatch

METRICS = "/metrics"
"""The only address that a token of scope "metrics" opens."""

_log = logging.getLogger("abilities")


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
