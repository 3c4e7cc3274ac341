"""The explorer's pages and everything they load: a fixed set of files, open to anyone.

They hold no user's data, so no token is needed for them.

The explorer's routes: its pages, its internal views, and calls answered in every format.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from abilities.adapters.http import get_abilities, parse_body, to_response
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject
from abilities.explorer.views import ALIKE, MAX_BYTES, VIEWS
from abilities.helpers.reply.formats import render
from abilities.registry import Reply, build_failed_reply

_STRICT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Swagger UI writes inline styles. They are allowed on its page only, which shows no text that
# users or agents wrote.
_SWAGGER_POLICY = _STRICT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

_MEDIA_TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
}
"""By file name extension; files with any other extension are not served."""

_PREFIX = "/explorer/"

_PAGE_PATHS = {"index.html": "/", "docs.html": "/docs"}
"""The files that are not served beneath the prefix."""


class StaticPage(NamedTuple):
    """A file as it is sent: its bytes, its media type, and its Content-Security-Policy."""

    body: bytes
    media_type: str
    policy: str

    @property
    def headers(self) -> dict[str, str]:
        """What browsers must obey: load from this server only, send no referrer, allow no frame."""
        return {
            "Content-Security-Policy": self.policy,
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
        }


def _load_pages(folder: Traversable, prefix: str) -> dict[str, StaticPage]:
    """Return the servable files of a folder and of its subfolders, by their paths."""
    pages: dict[str, StaticPage] = {}

    for entry in folder.iterdir():
        if entry.is_dir():
            pages |= _load_pages(entry, f"{prefix}{entry.name}/")
            continue

        extension = entry.name.rpartition(".")[2]
        if extension in _MEDIA_TYPES:
            path = _PAGE_PATHS.get(entry.name, prefix + entry.name)
            pages[path] = _load_page(entry, _MEDIA_TYPES[extension])

    return pages


def _load_page(file: Traversable, media_type: str) -> StaticPage:
    policy = _SWAGGER_POLICY if file.name == "docs.html" else _STRICT_POLICY
    return StaticPage(file.read_bytes(), f"{media_type}; charset=utf-8", policy)


PAGES = _load_pages(files("abilities.explorer") / "static", _PREFIX)
"""Every page by its path."""


def add_explorer(app: FastAPI) -> None:
    """Add the pages, ``POST /api/explorer/VIEW`` and ``POST /api/explorer/try/NAME`` to an app."""
    for path, page in PAGES.items():
        app.add_api_route(path, _create_endpoint(page), include_in_schema=False)

    app.add_api_route(
        "/api/explorer/try/{name}", _try_ability, methods=["POST"], include_in_schema=False
    )
    app.add_api_route("/api/explorer/{name}", _read_view, methods=["POST"], include_in_schema=False)


def _create_endpoint(page: StaticPage) -> Callable[[], Awaitable[Response]]:
    async def send_page() -> Response:
        return Response(page.body, headers=page.headers, media_type=page.media_type)

    return send_page


async def _read_view(name: str, request: Request) -> Response:
    """Run one of the internal views, with a larger bound on its answer than models get."""
    withheld = get_abilities(request).context.disabled
    names = ALIKE.get(name, ())
    is_withheld = bool(names) and all(one in withheld for one in names)
    if name not in VIEWS or is_withheld:
        return to_response(build_failed_reply(Fault.from_reason("unknown_address")))

    try:
        arguments = await _parse_arguments(request)
    except ValueError:
        return _refuse_request()

    context = replace(get_abilities(request).context, max_response_bytes=MAX_BYTES)
    return to_response(await VIEWS.reply(name, arguments, context))


async def _try_ability(name: str, request: Request) -> Response:
    """Call an ability once, and return its reply as it would be sent in each format.

    The response is ``{"failed": bool, "json": str, "text": str, "toon": str, "max_bytes": int}``,
    also if the call fails; ``max_bytes`` is the bound of a reply.
    """
    try:
        arguments = await _parse_arguments(request)
    except ValueError:
        return _refuse_request()

    abilities = get_abilities(request)
    reply = await abilities.reply(name, arguments)
    trial: JsonObject = {
        "failed": reply.failed,
        "json": render(reply.payload),
        "text": render(reply.payload, "text"),
        "toon": render(reply.payload, "toon"),
        "max_bytes": abilities.context.max_response_bytes,
    }
    return to_response(Reply(trial, render(trial), failed=False))


async def _parse_arguments(request: Request) -> JsonObject:
    """Return the arguments in a request's body. Raises ValueError."""
    return parse_body(request.headers.get("content-type"), await request.body())


def _refuse_request() -> Response:
    return to_response(build_failed_reply(Fault.from_reason("malformed_request")))
