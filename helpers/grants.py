"""OAuth clients of a server, and the grants that they got from the holders of tokens.

A grant begins with an authorization code, whose random part is the root of the grant. Each refresh
token repeats the root before its own random part, so a replayed code or a replaced refresh token is
recognized however old it is, and ends the grant (RFC 9700, sections 4.5 and 4.14). Only hashes are
kept, in a file beside the tokens file: strangers may register clients, and whatever they do must
not put the tokens at risk.
"""

import hmac
import logging
import re
import secrets
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, TypeAdapter

from abilities.declarations.values import Model, escape_unseen, utc_now
from abilities.helpers.tokens import (
    CLIENTS_SUFFIX,
    Access,
    LockedFile,
    Scope,
    Token,
    TokenFile,
    hash_secret,
)

MAX_CLIENTS = 1_000
"""Clients that may be registered."""

MAX_GRANTS = 20
"""Grants per token; a further one replaces the oldest."""

MAX_URIS = 5
"""Redirect URIs per client."""

MAX_URI_CHARS = 500
"""Characters of a redirect URI. All clients together then fit into the file."""

MAX_HOST_CHARS = 56
"""Characters of a host name in a redirect URI."""

MAX_NAME_CHARS = 40
"""Characters of a client's name that are kept; with the host they make a label."""

UNUSED_SECONDS = 24 * 3600
"""Age at which a client without a grant is forgotten."""

APPROVAL_SECONDS = 600
"""Age at which a client without a grant gives way to a new one, if there are too many."""

CODE_SECONDS = 300
"""Lifetime of an authorization code."""

ACCESS_SECONDS = 3600
"""Lifetime of an access token."""

REFRESH_SECONDS = 30 * 24 * 3600
"""Lifetime of a refresh token. Each use replaces it with a new one."""

SCOPES: tuple[Scope, ...] = ("read", "write", "purge")
"""The scopes that a client can have; each contains those before it."""

Hash = Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]
"""The hash of a secret; empty before there is one."""

_CODE = re.compile(r"abc_([A-Za-z0-9_-]{43})")
_REFRESH = re.compile(r"abr_([A-Za-z0-9_-]{43})([A-Za-z0-9_-]{43})")


class Client(Model):
    """A registered client. Its name is its own claim."""

    id: str
    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)]
    redirect_uris: tuple[str, ...]
    created_at: int


class CodeRequest(Model):
    """The request that a code answers; the client that redeems the code must match it."""

    client: str
    scope: Annotated[Scope, Field(description="The most that the client asks for.")]
    challenge: Annotated[str, Field(description="The hash of its verifier (PKCE, S256).")]
    redirect_uri: str
    is_explicit: Annotated[bool, Field(description="Whether the request named the URI.")]


class Grant(Model):
    """The access that a token's holder granted to a client; times are in Unix seconds.

    ``expires_at`` is that of the code, and later that of the newest refresh token.
    """

    id: str
    token: Annotated[str, Field(description="The id of the token, with which the grant ends.")]
    request: CodeRequest
    created_at: str
    expires_at: int
    root: Hash
    refresh: Hash = ""
    access: Hash = ""
    access_scope: Scope = "read"
    access_expires_at: int = 0


class Register(Model):
    """The content of the file."""

    clients: tuple[Client, ...] = ()
    grants: tuple[Grant, ...] = ()


class Issued(NamedTuple):
    """New tokens of a client, as it receives them."""

    access: str
    refresh: str
    scope: Scope


_log = logging.getLogger("abilities")

_REGISTER = TypeAdapter(Register)


def limit_scope(*scopes: Scope) -> Scope:
    """Return the smallest of several scopes, each one of `SCOPES`."""
    return min(scopes, key=SCOPES.index)


def list_scopes(scope: Scope) -> list[str]:
    """Return a scope with those that it contains.

    >>> list_scopes("write")
    ['read', 'write']
    """
    return [*SCOPES[: SCOPES.index(scope) + 1]]


def choose_scope(names: Sequence[str]) -> Scope:
    """Return the largest of the named scopes.

    >>> choose_scope(["write", "read"])
    'write'
    """
    return SCOPES[max(index for index, scope in enumerate(SCOPES) if scope in names)]


def name_host(uri: str) -> str:
    """Return the host in a URI."""
    return urlsplit(uri).hostname or ""


def _split(text: str) -> tuple[str, str]:
    """Return the root in a code or a refresh token, and the hash of the refresh token's own part.

    The hash is empty for a code, as in a grant whose code was not redeemed yet.
    """
    root, own = text[len("abc_") :][:43], text[len("abc_") :][43:]
    return root, hash_secret(own) if own else ""


def _log_replay(grant: Grant | None) -> None:
    """Log that a grant ended because its code or a refresh token was used twice."""
    if grant is not None:
        details = {"token": grant.id, "client": grant.request.client}
        _log.warning("a replayed code or refresh token ended a grant", extra=details)


def clean_name(name: str) -> str:
    r"""Return the name that a client gives itself, on one line and without hidden characters.

    >>> clean_name("  Claude\n"), clean_name("a\u202eb"), clean_name("")
    ('Claude', 'a\\u202eb', 'unnamed')
    """
    plain = escape_unseen(" ".join(name.split()))
    return plain[:MAX_NAME_CHARS] or "unnamed"


class _Draft:
    """The live content of the file: clients by id, and grants by the hashes of their roots."""

    def __init__(self, register: Register, tokens: Mapping[str, Token]) -> None:
        now = time.time()
        self.clients = {client.id: client for client in register.clients}
        self.grants = {
            grant.root: grant
            for grant in register.grants
            if now < grant.expires_at
            and grant.request.client in self.clients
            and grant.token in tokens
            and tokens[grant.token].scope in SCOPES
        }
        for client in self.list_unused():
            if now >= client.created_at + UNUSED_SECONDS:
                del self.clients[client.id]

    def list_unused(self) -> list[Client]:
        """Return the clients without a grant, oldest first."""
        used = {grant.request.client for grant in self.grants.values()}
        return [client for client in self.clients.values() if client.id not in used]

    def to_register(self) -> Register:
        """Return the content as it is written."""
        return Register(clients=(*self.clients.values(),), grants=(*self.grants.values(),))


class GrantFile:
    """The clients and grants of a tokens file; methods block, and threads may share it.

    Expired entries, and grants whose token is gone, count as missing; the next change removes them.
    Every method raises ValueError if one of the two files cannot be used, and OSError.
    """

    def __init__(self, tokens_file: Path) -> None:
        self.path = tokens_file.with_name(tokens_file.name + CLIENTS_SUFFIX)
        self._file = LockedFile(self.path, _REGISTER, "file of OAuth clients")
        self._tokens = TokenFile(tokens_file)
        self._turn = threading.Lock()

    def find_client(self, client_id: str) -> Client | None:
        """Return a registered client; None if there is none."""
        return self._load()[0].clients.get(client_id)

    def register(self, client: Client) -> bool:
        """Add a client and return True; return False if there are too many."""
        with self._change() as draft:
            if len(draft.clients) >= MAX_CLIENTS:
                # A flood does not push out a client that its user is about to approve.
                unused = draft.list_unused()
                if not unused or time.time() < unused[0].created_at + APPROVAL_SECONDS:
                    _log.warning("too many OAuth clients are registered")
                    return False

                del draft.clients[unused[0].id]

            draft.clients[client.id] = client

        return True

    def approve(self, text: str, request: CodeRequest) -> str | None:
        """Grant a request on behalf of a token, and return the code.

        Returns None if the text is no token that may grant anything. An access token is none.
        """
        root = secrets.token_urlsafe(32)

        with self._change() as draft:
            token = self._tokens.find(text)
            if token is None or token.scope not in SCOPES or request.client not in draft.clients:
                return None

            own = [grant for grant in draft.grants.values() if grant.token == token.id]
            for grant in own[: max(0, len(own) - MAX_GRANTS + 1)]:
                del draft.grants[grant.root]

            taken = {*self._list_tokens(), *(grant.id for grant in draft.grants.values())}
            name = secrets.token_hex(4)
            while name in taken:
                name = secrets.token_hex(4)

            scope = limit_scope(token.scope, request.scope)
            grant = Grant(
                id=name,
                token=token.id,
                request=request.model_copy(update={"scope": scope}),
                created_at=utc_now(),
                expires_at=int(time.time()) + CODE_SECONDS,
                access_scope=scope,
                root=hash_secret(root),
            )
            draft.grants[grant.root] = grant
            details = {"token": token.id, "grant": grant.id, "client": request.client}
            _log.info("an OAuth client was approved", extra=details)

        return f"abc_{root}"

    def find_code(self, text: str) -> Grant | None:
        """Return the grant of a code; None if there is none.

        If the code was redeemed before, this ends its grant.
        """
        return self._find(text) if _CODE.fullmatch(text) else None

    def find_refresh(self, text: str) -> Grant | None:
        """Return the grant of a refresh token; None if there is none.

        If the refresh token was replaced before, this ends its grant.
        """
        return self._find(text) if _REFRESH.fullmatch(text) else None

    def find_access(self, text: str) -> Grant | None:
        """Return the grant of an access token; None if there is none."""
        sha256 = hash_secret(text)
        grants = self._load()[0].grants.values()
        return next((grant for grant in grants if grant.access == sha256), None)

    def issue(self, text: str, scope: Scope) -> Issued | None:
        """Replace a code or a refresh token by new tokens of at most this scope.

        Returns None if it was replaced before, and ends its grant.
        """
        root, refresh = _split(text)
        access = f"aba_{secrets.token_urlsafe(32)}"
        further = secrets.token_urlsafe(32)
        now = int(time.time())

        with self._change() as draft:
            grant = draft.grants.pop(hash_secret(root), None)
            if grant is None or not hmac.compare_digest(grant.refresh, refresh):
                _log_replay(grant)
                return None

            scope = limit_scope(scope, grant.request.scope)
            draft.grants[grant.root] = grant.model_copy(
                update={
                    "expires_at": now + REFRESH_SECONDS,
                    "refresh": hash_secret(further),
                    "access": hash_secret(access),
                    "access_scope": scope,
                    "access_expires_at": now + ACCESS_SECONDS,
                }
            )

        return Issued(access, f"abr_{root}{further}", scope)

    def prune(self) -> None:
        """Remove expired entries, or fail if the file cannot be changed."""
        with self._change():
            pass

    def revoke(self, name: str) -> Grant | None:
        """End the grant with this id, and return it; None if there is none."""
        with self._change() as draft:
            for grant in [*draft.grants.values()]:
                if grant.id == name:
                    return draft.grants.pop(grant.root)

        return None

    def list_accesses(self) -> dict[str, Access]:
        """Return the rights of access tokens, by their hashes."""
        return {
            grant.access: Access(token, grant.access_expires_at)
            for grant, token in self._derive_tokens()
            if grant.access
        }

    def list_grants(self) -> list[Token]:
        """Return the rights of each grant, as a token with the id of the grant."""
        return [token for _, token in self._derive_tokens()]

    def _derive_tokens(self) -> Iterator[tuple[Grant, Token]]:
        """Yield each grant with its rights: those of the token that granted it, or fewer."""
        draft, tokens = self._load()

        for grant in draft.grants.values():
            token = tokens[grant.token]
            client = draft.clients[grant.request.client]
            host = name_host(grant.request.redirect_uri)
            rights = {
                "id": grant.id,
                "scope": limit_scope(token.scope, grant.access_scope),
                "created_at": grant.created_at,
                # Anyone can register under any name, but only the host receives the codes.
                "label": f"{client.name} at {host}",
                "client": client.id,
            }
            yield grant, token.model_copy(update=rights)

    def _find(self, text: str) -> Grant | None:
        root, refresh = _split(text)
        grant = self._load()[0].grants.get(hash_secret(root))
        if grant is None or hmac.compare_digest(grant.refresh, refresh):
            return grant

        _log_replay(self.revoke(grant.id))
        return None

    def _load(self) -> tuple[_Draft, dict[str, Token]]:
        with self._turn:
            tokens = self._list_tokens()
            return _Draft(self._read(), tokens), tokens

    def _read(self) -> Register:
        try:
            return self._file.read()
        except FileNotFoundError:
            return Register()

    def _list_tokens(self) -> dict[str, Token]:
        return {token.id: token for token in self._tokens.tokens()}

    @contextmanager
    def _change(self) -> Generator[_Draft]:
        """Write the draft after the block, unless the block raises or changes nothing."""
        with self._turn, self._file.lock():
            before = self._read()
            draft = _Draft(before, self._list_tokens())
            yield draft
            after = draft.to_register()
            if after != before:
                self._file.write(after)
