"""An OAuth client and the person who uses it, step by step, right or wrong."""

import base64
import hashlib
import html
import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx

VERIFIER = "v" * 64
CALLBACK = "https://client.example/callback"
FORM_PAGE = re.compile(r'name="proof" value="([0-9a-f]{64})"')
BACK = re.compile(r'<a href="([^"]+)">Go back')


def hash_verifier(verifier: str = VERIFIER) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Connected(NamedTuple):
    """A client that got tokens, and the code that it got them for."""

    id: str
    code: str
    access: str
    refresh: str
    scope: str


async def register(
    browser: httpx.AsyncClient, uri: str = CALLBACK, **fields: Any
) -> httpx.Response:
    metadata = {"redirect_uris": [uri], "client_name": "Tester", **fields}
    return await browser.post("/register", json=metadata)


async def open_page(browser: httpx.AsyncClient, client_id: str, **changes: Any) -> httpx.Response:
    """Follow a client's link as far as this server; None leaves a parameter out."""
    parameters = {
        "client_id": client_id,
        "response_type": "code",
        "redirect_uri": CALLBACK,
        "code_challenge": hash_verifier(),
        "code_challenge_method": "S256",
        "state": "s 1",
        **changes,
    }
    given = {name: value for name, value in parameters.items() if value is not None}
    page = await browser.get("/authorize", params=given)

    location = page.headers.get("location", "")
    if "/oauth/approve?" in location:
        return await browser.get(location)

    return page


async def send_form(
    browser: httpx.AsyncClient, page: httpx.Response, token: str, **changes: Any
) -> httpx.Response:
    """Send the form of a page; the browser brings its cookie."""
    (proof,) = FORM_PAGE.findall(page.text)
    options = {"headers": changes.pop("headers", {})}
    fields = {"proof": proof, "token": token, "decision": "approve", **changes}
    return await browser.post(str(page.url), data=fields, **options)


def read_answer(end: httpx.Response) -> dict[str, str]:
    """Return the fields that the last page sends to the client."""
    (link,) = BACK.findall(end.text)
    url = html.unescape(link)
    assert url.startswith(f"{CALLBACK}?"), url
    return dict(parse_qsl(urlsplit(url).query))


async def get_code(browser: httpx.AsyncClient, token: str, client_id: str, **changes: Any) -> str:
    page = await open_page(browser, client_id, **changes)
    return read_answer(await send_form(browser, page, token))["code"]


async def redeem(
    browser: httpx.AsyncClient, client_id: str, code: str, **changes: Any
) -> httpx.Response:
    fields = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
        **changes,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return await browser.post("/token", data=given)


async def refresh(
    browser: httpx.AsyncClient, client_id: str, token: str, **changes: Any
) -> httpx.Response:
    fields = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": token}
    return await browser.post("/token", data={**fields, **changes})


async def connect(browser: httpx.AsyncClient, token: str, **changes: Any) -> Connected:
    """Go the whole way from nothing to tokens."""
    client_id = (await register(browser)).json()["client_id"]
    code = await get_code(browser, token, client_id, **changes)
    answer = (await redeem(browser, client_id, code)).json()
    return Connected(
        client_id, code, answer["access_token"], answer["refresh_token"], answer["scope"]
    )
