"""The page on which a person approves an OAuth client, by the token that it gets the rights of.

The page is plain HTML without scripts. A form of another site cannot be sent in the person's name:
the form repeats a secret of a cookie, which only this page has, bound to the request on the page.
"""

import hashlib
import hmac
import re
import secrets
from html import escape

from starlette.requests import Request
from starlette.responses import Response

from abilities.helpers.grants import Client, CodeRequest, list_scopes, name_host

MAX_TOKEN_CHARS = 200
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


def show_form(
    request: Request, client: Client, asked: CodeRequest, *, is_secure: bool, status: int = 200
) -> Response:
    """Ask for a token; a status other than 200 means that another one was not valid."""
    secret = secrets.token_urlsafe(32)
    body = _FORM.format(
        name=escape(client.name),
        host=escape(name_host(asked.redirect_uri)),
        scopes=", ".join(list_scopes(asked.scope)),
        fault="" if status == 200 else _FAULT,
        proof=_prove(secret, request),
        most=MAX_TOKEN_CHARS,
    )
    response = _show("Approve a client", body, status)
    response.set_cookie(
        _name_cookie(is_secure=is_secure),
        secret,
        max_age=_COOKIE_SECONDS,
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


def check_proof(request: Request, proof: str, *, is_secure: bool) -> bool:
    """Return whether a form comes from the page that this browser got for the same request."""
    secret = request.cookies.get(_name_cookie(is_secure=is_secure), "")
    if not _SECRET.fullmatch(secret):
        return False

    return hmac.compare_digest(_prove(secret, request).encode(), proof.encode())


def show_end(url: str, words: str) -> Response:
    """Send the browser on to the client, with the words for a person whose browser does not."""
    # A redirect would be a form's, and browsers let a policy on forms stop it.
    body = _END.format(words=escape(words), url=escape(url), host=escape(name_host(url)))
    return _show(
        words, body, head=f'\n  <meta http-equiv="refresh" content="0; url={escape(url)}">'
    )


def show_refusal(words: str, status: int) -> Response:
    """Say why a request cannot be approved."""
    return _show("Not approved", _REFUSAL.format(words=escape(words)), status)


def _show(title: str, body: str, status: int = 200, head: str = "") -> Response:
    text = _PAGE.format(title=escape(title), head=head, body=body)
    return Response(text, status, _HEADERS, media_type="text/html; charset=utf-8")


def _prove(secret: str, request: Request) -> str:
    query: bytes = request.scope["query_string"]
    return hmac.new(secret.encode(), query, hashlib.sha256).hexdigest()


def _name_cookie(*, is_secure: bool) -> str:
    # No other host and no page without TLS can set a cookie with this prefix.
    return f"__Host-{_COOKIE}" if is_secure else _COOKIE
