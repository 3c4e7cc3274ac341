"""The explorer's routes: its static pages, its internal views, and trial calls of abilities.

The pages contain no user's data, so they need no token. A trial call returns the reply of an
ability in every format.

What callers of a server were given is kept in the memory of the process alone, and none of it is
logged.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import cast

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from abilities.adapters.http import get_abilities, read_arguments, to_response
from abilities.builtin.memories import memory_changes
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, as_object, utc_now
from abilities.explorer.views import EQUIVALENTS, MAX_BYTES, VIEWS
from abilities.helpers.reply.formats import render
from abilities.registry import Reply

MAX_KEPT = 1_000
"""Answers that are kept, the latest ones of all namespaces."""

MAX_LISTED = 20
"""Answers in a list, the latest ones."""

MAX_KEYS = 51
"""Memories of an answer that are kept: as many as a walk returns at most."""

_PARTS = ("results", "memories", "targetMemory", "associatedMemories")
"""The fields of answers with memories, or with records that have some."""


class Retrievals:
    """The latest answers of a server that had memories."""

    def __init__(self) -> None:
        self._since = utc_now()
        self._kept: deque[tuple[str, JsonObject]] = deque(maxlen=MAX_KEPT)

    def add(self, namespace: str, by: str, ability: str, payload: JsonObject) -> None:
        """Note what a caller was given, once per question."""
        found: dict[str, dict[str, None]] = {}
        for question, key in _find_memories(payload):
            found.setdefault(question, {})[key] = None

        made: JsonObject = {"by": by, "ability": ability, "at": utc_now()}
        for question, keys in found.items():
            self._kept.append(
                (namespace, {**made, "question": question, "keys": [*keys][:MAX_KEYS]})
            )

    def list_latest(self, namespace: str, key: object = None) -> JsonObject:
        """Return the latest retrievals of a namespace, or those of one memory, and their number.

        ``since`` is when the server began to keep them.
        """
        kept = [one for name, one in self._kept if name == namespace]
        if key is not None:
            kept = [one for one in kept if key in one["keys"]]

        return {
            "retrievals": kept[: -MAX_LISTED - 1 : -1],
            "total": len(kept),
            "since": self._since,
        }


def _find_memories(value: object, question: str = "") -> Iterator[tuple[str, str]]:
    """Yield the question and the key of each memory in an answer, of the own namespace alone."""
    if isinstance(value, list):
        for one in cast(list[object], value):
            yield from _find_memories(one, question)
        return

    record = as_object(value)
    if record is None:
        return

    # A full record has its content in ``data``, and sometimes its key beside that.
    fields = {**record, **(as_object(record.get("data")) or {})}
    key, asked = fields.get("key"), fields.get("input")
    if "memories" in fields and isinstance(asked, str):
        question = asked
    if "content" in fields and "from" not in fields and isinstance(key, str):
        yield question, key

    for name in _PARTS:
        yield from _find_memories(fields.get(name), question)


_STRICT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Swagger UI writes inline styles. They are allowed only on its page, which shows no text by users
# or agents.
_SWAGGER_POLICY = _STRICT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

_MEDIA_TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
}
"""By file name extension; files with any other extension are not served."""

_PAGE_PATHS = {"index.html": "/", "docs.html": "/docs"}
"""The files that are not served at ``/explorer/NAME``."""


def _load_pages(folder: Traversable, prefix: str) -> dict[str, Response]:
    """Return the files of a folder and its subfolders that may be served, by their paths.

    By their headers, browsers load from this server only, send no referrer, and allow no frame.
    """
    pages: dict[str, Response] = {}

    for entry in folder.iterdir():
        if entry.is_dir():
            pages |= _load_pages(entry, f"{prefix}{entry.name}/")
            continue

        extension = entry.name.rpartition(".")[2]
        if extension in _MEDIA_TYPES:
            path = _PAGE_PATHS.get(entry.name, prefix + entry.name)
            media_type = f"{_MEDIA_TYPES[extension]}; charset=utf-8"
            is_swagger = entry.name == "docs.html"
            headers = {
                "Content-Security-Policy": _SWAGGER_POLICY if is_swagger else _STRICT_POLICY,
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Opener-Policy": "same-origin",
            }
            pages[path] = Response(entry.read_bytes(), headers=headers, media_type=media_type)

    return pages


PAGES = _load_pages(files("abilities.explorer") / "static", "/explorer/")
"""Every page by its path."""


def add_explorer(app: FastAPI, retrievals: Retrievals) -> None:
    """Add the pages, ``POST /api/explorer/VIEW`` and ``POST /api/explorer/try/NAME`` to an app."""

    async def list_retrievals(request: Request) -> Response:
        # The questions of others are only for callers who may write here.
        context = get_abilities(request).context
        if context.read_only or memory_changes.name in context.disabled:
            raise Refused("scope")

        arguments = await read_arguments(request)
        return _respond(retrievals.list_latest(context.namespace, arguments.get("key")))

    async def list_namespaces(request: Request) -> Response:
        caller = request.scope["caller"]
        reads = [name for name in caller.reads if name != caller.namespace]
        return _respond({"own": caller.namespace, "reads": reads})

    for path in PAGES:
        app.add_api_route(path, send_page, include_in_schema=False)

    app.add_api_route(
        "/api/explorer/try/{name}", try_ability, methods=["POST"], include_in_schema=False
    )
    for name, answer in (
        ("retrievals", list_retrievals),
        ("namespaces", list_namespaces),
        ("{name}", read_view),
    ):
        path = f"/api/explorer/{name}"
        app.add_api_route(path, answer, methods=["POST"], include_in_schema=False)


async def send_page(request: Request) -> Response:
    """Send the page at the address of the request."""
    return PAGES[request.scope["path"]]


async def read_view(name: str, request: Request) -> Response:
    """Call one of the internal views, with a larger bound on its answer than for models."""
    context = replace(get_abilities(request).context, max_response_bytes=MAX_BYTES)
    names = EQUIVALENTS.get(name, ())
    is_disabled = bool(names) and set(names).issubset(context.disabled)
    if name not in VIEWS or is_disabled:
        raise Refused("unknown_address")

    arguments = await read_arguments(request)
    return to_response(await VIEWS.reply(name, arguments, context))


async def try_ability(name: str, request: Request) -> Response:
    """Call an ability once, and return its reply in every format.

    The response is ``{"failed": bool, "json": str, "text": str, "toon": str, "max_bytes": int}``,
    even if the call fails; ``max_bytes`` is the bound of a reply.
    """
    abilities = get_abilities(request)
    reply = await abilities.reply(name, await read_arguments(request))
    trial: JsonObject = {
        "failed": reply.failed,
        "json": render(reply.payload),
        "text": render(reply.payload, "text"),
        "toon": render(reply.payload, "toon"),
        "max_bytes": abilities.context.max_response_bytes,
    }
    return _respond(trial)


def _respond(answer: JsonObject) -> Response:
    return to_response(Reply(answer, render(answer), failed=False))
