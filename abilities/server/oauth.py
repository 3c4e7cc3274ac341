"""The OAuth server of ``/mcp``: the SDK's endpoints, and the grants that are behind them.

A client registers itself, sends its user to a page, and gets tokens of its own. All clients are
public ones: a secret that anyone can get by registering proves nothing, and PKCE binds each code to
the client that asked for it (OAuth 2.1, section 4.1).

On the page a person approves a client, by the token that it gets the rights of. It is plain HTML
without scripts. A form of another site cannot be sent in the person's name: the form repeats a
secret of a cookie, which only this page has, bound to the request on the page.
"""

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from html import escape
from typing import ParamSpec, TypeVar
from urllib.parse import parse_qsl, urlsplit

from mcp.server.auth import provider as sdk
from mcp.server.auth.handlers.authorize import AuthorizationHandler, AuthorizationRequest
from mcp.server.auth.handlers.metadata import MetadataHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.revoke import RevocationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.routes import build_metadata
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import (
    InvalidRedirectUriError,
    InvalidScopeError,
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyHttpUrl, AnyUrl, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from abilities.helpers import grants
from abilities.server.callers import MCP
from abilities.server.connections import RefusedRequest
from abilities.server.guard import replay_body
from abilities.server.telemetry import request_id
from abilities.settings import LOOPBACK

METADATA = "/.well-known/oauth-authorization-server"
"""The address of the server's metadata (RFC 8414)."""

AUTHORIZE, APPROVE = "/authorize", "/oauth/approve"
"""The addresses that a client sends its user to, and that the user goes on to."""

TOKEN, REGISTER, REVOKE = "/token", "/register", "/revoke"
ENDPOINTS = (TOKEN, REGISTER, REVOKE)
"""The addresses that clients themselves use."""

FILE_SECONDS = 10.0
"""Timeout for reading or changing the file of clients; a busy disk can take seconds."""

_CHALLENGE = re.compile("[A-Za-z0-9_-]{43}")
_HOST = re.compile(r"[a-z0-9.-]+|::1")

_URI_RULE = (
    f"A client has 1 to {grants.MAX_URIS} redirect URIs of at most {grants.MAX_URI_CHARS} "
    f"characters, each with https and a host of at most {grants.MAX_HOST_CHARS} characters, or "
    "with http and localhost, 127.0.0.1 or [::1]; without a user name and a fragment."
)

_MAX_TOKEN_CHARS = 200
"""Characters of a pasted token that are looked at."""

_COOKIE = "abilities-approval"
_COOKIE_SECONDS = 600
_SECRET = re.compile("[A-Za-z0-9_-]{43}")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    # With "no-referrer", browsers would send the form without its origin. A page that opened this
    # one in a window waits for its answer there, so there is no Cross-Origin-Opener-Policy.
    "Referrer-Policy": "same-origin",
}

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">{head}
  <title>{title} · agent-abilities</title>
  <link rel="icon" href="/explorer/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/explorer/style.css">
</head>
<body>
  <main class="alone">
    <h1>{title}</h1>
{body}
  </main>
</body>
</html>
"""

_FORM = """\
    <p>
      A client that calls itself <strong>{name}</strong> asks for access to this server. Anyone can
      use that name. Its answer goes to <strong>{host}</strong>: go on only if you have just
      connected that client yourself.
    </p>
    <p>
      The client can do what the token that you paste allows, but at most: {scopes}. It does not
      see the token, and its access ends when the token is revoked.
    </p>{fault}
    <form method="post">
      <input type="hidden" name="proof" value="{proof}">
      <div class="field">
        <label>Token
          <input name="token" type="password" autocomplete="off" autofocus maxlength="{most}">
        </label>
        <span class="hint">Create one with: abilities token add --scope read</span>
      </div>
      <p>
        <button class="primary" name="decision" value="approve">Approve</button>
        <button name="decision" value="deny">Deny</button>
      </p>
    </form>"""

_FAULT = """
    <div class="fault" role="alert"><strong>This token is not valid here.</strong></div>"""

_END = """\
    <p><a href="{url}">Go back to {host}</a></p>"""

_REFUSAL = """\
    <p>{words} Start again in the client.</p>"""

_log = logging.getLogger("abilities")

Endpoint = Callable[[Request], Awaitable[Response]]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def create_routes(file: grants.GrantFile, origin: str) -> list[Route]:
    """Create the routes of an OAuth server whose address is ``origin``, for allowed requests."""
    provider = Provider(file, origin)
    pages = _Pages(provider, origin)
    registration = ClientRegistrationOptions(enabled=True)
    revocation = RevocationOptions(enabled=True)

    described = build_metadata(AnyHttpUrl(origin), None, registration, revocation)
    metadata = OAuthMetadata.model_validate(
        {
            **described.model_dump(mode="json"),
            "issuer": origin,
            "scopes_supported": grants.SCOPES,
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }
    )
    authenticator = ClientAuthenticator(provider)
    endpoints: list[tuple[str, Endpoint, str]] = [
        (METADATA, MetadataHandler(metadata).handle, "GET"),
        (AUTHORIZE, pages.authorize, "GET"),
        (APPROVE, pages.approve, "GET POST"),
        (TOKEN, TokenHandler(provider, authenticator).handle, "POST"),
        (REGISTER, RegistrationHandler(provider, registration).handle, "POST"),
        (REVOKE, _create_revocation(RevocationHandler(provider, authenticator)), "POST"),
    ]
    return [
        Route(path, _log_answers(respond), methods=methods.split())
        for path, respond, methods in endpoints
    ]


def _log_answers(respond: Endpoint) -> Endpoint:
    """Return an endpoint that writes a line to the log for each of its responses."""

    async def respond_and_log(request: Request) -> Response:
        response = await respond(request)
        details = {"path": request.url.path, "status": response.status_code}
        _log.info("oauth", extra={**details, "request_id": request_id.get()})
        return response

    return respond_and_log


class _Pages:
    """The pages that a person sees between a client and its code."""

    def __init__(self, provider: "Provider", origin: str) -> None:
        self._provider = provider
        self._origin = origin
        self._is_secure = origin.startswith("https:")
        # No other host and no page without TLS can set a cookie with this prefix.
        self._cookie = f"__Host-{_COOKIE}" if self._is_secure else _COOKIE
        self._handler = AuthorizationHandler(provider)

    async def authorize(self, request: Request) -> Response:
        """Send a person on to the page that asks, or back to a client whose request is wrong."""
        response = await self._handler.handle(request)
        location = response.headers.get("location")
        if location == APPROVE:
            response.headers["location"] = f"{self._origin}{APPROVE}?{request.url.query}"
        elif location is not None:
            # The SDK leaves out which server says so (RFC 9207).
            response.headers["location"] = sdk.construct_redirect_uri(location, iss=self._origin)

        return response

    async def approve(self, request: Request) -> Response:
        """Show the page that asks, or answer its form."""
        try:
            query = AuthorizationRequest.model_validate(request.query_params)
            client, asked = await self._provider.read_request(query)
        except (ValidationError, InvalidRedirectUriError, InvalidScopeError, sdk.AuthorizeError):
            return _show_refusal("This is not the address of a valid request.", 400)

        if request.method != "POST":
            return self._show_form(request, client, asked)

        form = dict(parse_qsl((await request.body()).decode("latin-1")))
        # The form comes from the page that this browser got for the same request.
        secret, proof = request.cookies.get(self._cookie, ""), form.get("proof", "").encode()
        is_known = _SECRET.fullmatch(secret) is not None
        if not is_known or not hmac.compare_digest(_prove(secret, request).encode(), proof):
            return _show_refusal("This page is out of date, or another site sent the form.", 403)

        answer = {"state": query.state, "iss": self._origin}
        if form.get("decision") != "approve":
            url = sdk.construct_redirect_uri(asked.redirect_uri, error="access_denied", **answer)
            return _show_end(url, "Denied")

        code = await self._provider.approve(form.get("token", "").strip()[:_MAX_TOKEN_CHARS], asked)
        if code is None:
            details = {"reason": "unauthorized", "status": 403, "client": client.id}
            _log.info("refused", extra={**details, "request_id": request_id.get()})
            return self._show_form(request, client, asked, status=403)

        return _show_end(
            sdk.construct_redirect_uri(asked.redirect_uri, code=code, **answer), "Approved"
        )

    def _show_form(
        self, request: Request, client: grants.Client, asked: grants.CodeRequest, status: int = 200
    ) -> Response:
        """Ask for a token; a status other than 200 means that another one was not valid."""
        secret = secrets.token_urlsafe(32)
        body = _FORM.format(
            name=escape(client.name),
            host=escape(grants.name_host(asked.redirect_uri)),
            scopes=", ".join(grants.list_scopes(asked.scope)),
            fault="" if status == 200 else _FAULT,
            proof=_prove(secret, request),
            most=_MAX_TOKEN_CHARS,
        )
        response = _show("Approve a client", body, status)
        response.set_cookie(
            self._cookie,
            secret,
            max_age=_COOKIE_SECONDS,
            secure=self._is_secure,
            httponly=True,
            samesite="strict",
        )
        return response


def _show_end(url: str, words: str) -> Response:
    """Send the browser on to the client, with the words for a person whose browser does not."""
    # A redirect would be a form's, and browsers let a policy on forms stop it.
    body = _END.format(words=escape(words), url=escape(url), host=escape(grants.name_host(url)))
    return _show(
        words, body, head=f'\n  <meta http-equiv="refresh" content="0; url={escape(url)}">'
    )


def _show_refusal(words: str, status: int) -> Response:
    """Say why a request cannot be approved."""
    return _show("Not approved", _REFUSAL.format(words=escape(words)), status)


def _show(title: str, body: str, status: int = 200, head: str = "") -> Response:
    text = _PAGE.format(title=escape(title), head=head, body=body)
    return Response(text, status, _HEADERS, media_type="text/html; charset=utf-8")


def _prove(secret: str, request: Request) -> str:
    query: bytes = request.scope["query_string"]
    return hmac.new(secret.encode(), query, hashlib.sha256).hexdigest()


class Provider(
    sdk.OAuthAuthorizationServerProvider[sdk.AuthorizationCode, sdk.RefreshToken, sdk.AccessToken]
):
    """Clients, codes and tokens for the endpoints of the SDK (its protocol)."""

    def __init__(self, file: grants.GrantFile, origin: str) -> None:
        self._file = file
        self._resource = f"{origin}{MCP}"
        self._own_names = (origin, self._resource)
        self._turn = asyncio.Lock()

    @override
    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        client = await self._run(self._file.find_client, client_id)
        return None if client is None else _describe(client)

    @override
    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        # Parsed again, because the client's model keeps an empty path, and that of a request for a
        # code does not.
        uris = tuple(str(AnyUrl(str(uri))) for uri in client_info.redirect_uris or ())
        if not 1 <= len(uris) <= grants.MAX_URIS or not all(map(is_safe_uri, uris)):
            raise sdk.RegistrationError("invalid_redirect_uri", _URI_RULE)

        client = grants.Client(
            id=client_info.client_id,
            name=grants.clean_name(client_info.client_name or ""),
            redirect_uris=uris,
            created_at=int(time.time()),
        )
        if not await self._run(self._file.register, client):
            sentence = "Too many clients are registered; try again in ten minutes."
            raise sdk.RegistrationError("invalid_client_metadata", sentence)

        # The SDK sends this object to the client, which learns about its changes.
        client_info.token_endpoint_auth_method = "none"  # noqa: S105 - a method
        client_info.client_secret = None
        client_info.client_secret_expires_at = None
        client_info.scope = " ".join(grants.SCOPES)

    @override
    async def authorize(
        self, client: OAuthClientInformationFull, params: sdk.AuthorizationParams
    ) -> str:
        self._check(params.resource, params.code_challenge)
        return APPROVE  # with the query of the request, which `_Pages` has

    async def read_request(
        self, query: AuthorizationRequest
    ) -> tuple[grants.Client, grants.CodeRequest]:
        """Return the client that asks for a code, and its request.

        The address of the page that asks holds the whole request, so it is checked again there.
        Raises AuthorizeError, InvalidRedirectUriError, InvalidScopeError.
        """
        client = await self._run(self._file.find_client, query.client_id)
        if client is None:
            raise sdk.AuthorizeError("unauthorized_client")

        info = _describe(client)
        self._check(query.resource, query.code_challenge)
        scopes = info.validate_scope(query.scope)
        return client, grants.CodeRequest(
            client=client.id,
            scope=grants.choose_scope(scopes or grants.SCOPES),
            challenge=query.code_challenge,
            redirect_uri=str(info.validate_redirect_uri(query.redirect_uri)),
            is_explicit=query.redirect_uri is not None,
        )

    def _check(self, resource: str | None, challenge: str) -> None:
        """Raise AuthorizeError for another server's resource (RFC 8707), or without PKCE."""
        if resource is not None and resource.rstrip("/") not in self._own_names:
            raise sdk.AuthorizeError("invalid_target", f"The resource is {self._resource}.")
        if not _CHALLENGE.fullmatch(challenge):
            raise sdk.AuthorizeError("invalid_request", "code_challenge must be a hash (S256).")

    async def approve(self, token: str, asked: grants.CodeRequest) -> str | None:
        """Return a code for a request that the holder of a token approves; None for no token."""
        return await self._run(self._file.approve, token, asked)

    @override
    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> sdk.AuthorizationCode | None:
        grant = await self._run(self._file.find_code, authorization_code)
        if grant is None:
            return None

        return sdk.AuthorizationCode(
            code=authorization_code,
            scopes=grants.list_scopes(grant.request.scope),
            expires_at=grant.expires_at,
            client_id=grant.request.client,
            code_challenge=grant.request.challenge,
            redirect_uri=AnyUrl(grant.request.redirect_uri),
            redirect_uri_provided_explicitly=grant.request.is_explicit,
            resource=self._resource,
        )

    @override
    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: sdk.AuthorizationCode
    ) -> OAuthToken:
        return await self._issue(authorization_code.code, authorization_code.scopes)

    @override
    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> sdk.RefreshToken | None:
        grant = await self._run(self._file.find_refresh, refresh_token)
        if grant is None:
            return None

        return sdk.RefreshToken(
            token=refresh_token,
            client_id=grant.request.client,
            scopes=grants.list_scopes(grant.request.scope),
            expires_at=grant.expires_at,
            resource=self._resource,
        )

    @override
    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: sdk.RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return await self._issue(refresh_token.token, scopes)

    async def _issue(self, text: str, scopes: list[str]) -> OAuthToken:
        """Replace a code or refresh token. Raises TokenError if that was done before."""
        issued = await self._run(self._file.issue, text, grants.choose_scope(scopes))
        if issued is None:
            raise sdk.TokenError("invalid_grant", "It was used before.")

        return OAuthToken(
            access_token=issued.access,
            expires_in=grants.ACCESS_SECONDS,
            scope=" ".join(grants.list_scopes(issued.scope)),
            refresh_token=issued.refresh,
        )

    @override
    async def load_access_token(self, token: str) -> sdk.AccessToken | None:
        grant = await self._run(self._file.find_access, token)
        if grant is None:
            return None

        return sdk.AccessToken(
            token=token,
            client_id=grant.request.client,
            scopes=grants.list_scopes(grant.access_scope),
            expires_at=grant.access_expires_at,
            resource=self._resource,
        )

    @override
    async def revoke_token(self, token: sdk.AccessToken | sdk.RefreshToken) -> None:
        is_access = isinstance(token, sdk.AccessToken)
        find = self._file.find_access if is_access else self._file.find_refresh
        grant = await self._run(find, token.token)
        if grant is not None:
            await self._run(self._file.revoke, grant.id)

    async def _run(
        self,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        """Read or change the file on a thread, one request after the other.

        Raises RefusedRequest(503) if that takes too long or fails.
        """
        try:
            async with asyncio.timeout(FILE_SECONDS), self._turn:
                return await asyncio.to_thread(function, *args, **named)
        except TimeoutError:
            raise RefusedRequest(503, "timeout") from None
        except (OSError, ValueError) as error:
            # Its message may have the content of the file.
            _log.error("the file of OAuth clients cannot be used: %s", type(error).__name__)
            raise RefusedRequest(503, "storage_error") from None


def _describe(client: grants.Client) -> OAuthClientInformationFull:
    """Return a client as the SDK knows it."""
    return OAuthClientInformationFull(
        client_id=client.id,
        client_name=client.name,
        redirect_uris=[AnyUrl(uri) for uri in client.redirect_uris],
        token_endpoint_auth_method="none",  # noqa: S106 - a method
        scope=" ".join(grants.SCOPES),
    )


def is_safe_uri(uri: str) -> bool:
    """Return whether codes may be sent to a URI, as pydantic writes it (RFC 8252, section 7).

    Schemes of installed programs are refused: any program can claim one.
    """
    parts = urlsplit(uri)
    host = parts.hostname or ""
    is_local = parts.scheme == "http" and host in LOOPBACK
    is_plain = "#" not in uri and "@" not in parts.netloc and _HOST.fullmatch(host) is not None
    is_short = len(uri) <= grants.MAX_URI_CHARS and len(host) <= grants.MAX_HOST_CHARS
    return is_short and is_plain and (is_local or parts.scheme == "https")


def _create_revocation(handler: RevocationHandler) -> Endpoint:
    """Return the endpoint of RFC 7009 for clients without secrets."""

    async def revoke(request: Request) -> Response:
        # The SDK's model requires the field, but a public client has no secret to send.
        body = await request.body() + b"&client_secret="
        return await handler.handle(Request(request.scope, replay_body(body, request.receive)))

    return revoke
