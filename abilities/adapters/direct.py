"""The common requests of MCP, answered without the SDK and in the same bytes.

These are the handshake, a ping, the lists, and calls of tools. Whatever else a client sends, and
whatever is not plainly well-formed, is left to the SDK.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final, Literal

import orjson

from abilities.adapters.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Request,
    format_answer,
    format_error,
)
from abilities.adapters.prompts import describe_prompts, describe_server
from abilities.adapters.shapes import (
    CURRENT_VERSION,
    HANDSHAKE_VERSIONS,
    SERVER_KEY,
    Fields,
    is_current_params,
    is_handshake_params,
    is_initialize,
    names_version,
)
from abilities.adapters.tools import (
    SERVER_NAME,
    call_tool,
    describe_template,
    describe_tool,
    explain_unknown_tool,
    get_server_version,
    get_structured,
)
from abilities.application import Abilities
from abilities.declarations.values import JsonObject

Era = Literal["handshake", "current"]
"""The revisions that begin with ``initialize``, and the one whose requests stand alone."""

CALL: Final = "tools/call"
_INITIALIZE: Final = "initialize"
_DISCOVER: Final = "server/discover"

_LISTS: Final[dict[str, Fields]] = {
    "prompts/list": {"cursor": str},
    "tools/list": {"cursor": str},
    "resources/list": {"cursor": str},
    "resources/templates/list": {"cursor": str},
}
_CALL_FIELDS: Final[Fields] = {"name": str, "arguments": dict}

_METHODS: Final[dict[Era, dict[str, Fields]]] = {
    "handshake": {"ping": {}, CALL: _CALL_FIELDS, **_LISTS},
    "current": {_DISCOVER: {}, CALL: _CALL_FIELDS, **_LISTS},
}

# The SDK sends the fields that it knows of a schema before all others.
_FIRST_FIELDS: Final[dict[Era, dict[str, tuple[str, ...]]]] = {
    "handshake": {
        "inputSchema": ("$schema", "properties", "required", "type"),
        "outputSchema": ("$schema", "properties", "required", "type"),
    },
    "current": {"inputSchema": ("$schema", "type"), "outputSchema": ("$schema",)},
}

_CAPABILITIES: Final = {
    "completions": {},
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}

_log = logging.getLogger("abilities")


class DirectServer:
    """Answers one client. The first request decides the era, as it does in the SDK."""

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities
        self._identity: JsonObject = {"name": SERVER_NAME, "version": get_server_version()}
        self._era: Era | None = None
        self._opening: Request | None = None
        self._results: dict[str, orjson.Fragment] = {}
        self.is_open = False
        """Whether anything was received."""

    def open(self, request: Request | None) -> None:
        """Receive the first message: a request, or None for any other."""
        self.is_open = True
        if request is None:
            return

        if request.method == _INITIALIZE:
            if is_initialize(request.params):
                self._era = "handshake"
                self._opening = request
        elif names_version(request.params):
            self._era = "current"
            meta = (request.params or {})["_meta"]
            self._opening = Request(request.id, _DISCOVER, {"_meta": meta})

    @property
    def opening(self) -> Request | None:
        """The request that brings the SDK's server into the same era; None if all is left to it."""
        return self._opening

    @property
    def has_era(self) -> bool:
        """Whether requests of this client may be answered here."""
        return self._era is not None

    def takes(self, request: Request) -> bool:
        """Return whether a request is answered here; if not, it is the SDK's."""
        if self._era is None:
            return False

        if request.method == _INITIALIZE:
            return self._era == "handshake" and is_initialize(request.params)

        fields = _METHODS[self._era].get(request.method)
        if fields is None:
            return False

        if request.method == CALL and "name" not in (request.params or {}):
            return False

        is_right = is_handshake_params if self._era == "handshake" else is_current_params
        return is_right(request.params, fields)

    def answer(self, request: Request) -> bytes:
        """Return the answer to a request that is taken, and is no call."""
        if request.method == _INITIALIZE:
            return format_answer(request.id, "result", self._shake_hands(request.params or {}))

        result = self._results.get(request.method)
        if result is None:
            # A list may be long, and is always the same.
            result = orjson.Fragment(orjson.dumps(self._build_result(request.method)))
            self._results[request.method] = result

        return format_answer(request.id, "result", result)

    async def call(self, request: Request) -> bytes:
        """Call a tool, and return the answer."""
        try:
            return await self._call(request.id, request.params or {})
        except Exception:
            _log.exception("a call of a tool raised")
            return format_error(request.id, {"code": INTERNAL_ERROR})

    async def _call(self, request_id: int | str, params: JsonObject) -> bytes:
        name: str = params["name"]
        if name not in self._abilities.registry:
            unknown = explain_unknown_tool(self._abilities, name)
            error = {"code": INVALID_PARAMS, **unknown._asdict()}
            return format_error(request_id, error)

        reply = await call_tool(self._abilities, name, params.get("arguments"))

        result: JsonObject = {
            "content": [{"text": reply.text, "type": "text"}],
            "isError": reply.failed,
        }
        if self._era == "current":
            result["resultType"] = "complete"

        structured = get_structured(self._abilities, reply)
        if structured is not None:
            result["structuredContent"] = structured

        return format_answer(request_id, "result", self._sign(result))

    def _shake_hands(self, params: JsonObject) -> JsonObject:
        """Return the result of ``initialize``: the client's version if it is known."""
        version = params["protocolVersion"]
        if version not in HANDSHAKE_VERSIONS:
            version = HANDSHAKE_VERSIONS[-1]

        return {
            "capabilities": _CAPABILITIES,
            "instructions": describe_server(self._abilities),
            "protocolVersion": version,
            "serverInfo": self._identity,
        }

    def _build_result(self, method: str) -> JsonObject:
        """Return the result of a method that has always the same one."""
        if method == "ping":
            return {}

        if method == "tools/list":
            return self._build_list("tools", self._describe_tools())

        if method == "prompts/list":
            return self._build_list("prompts", describe_prompts(self._abilities))

        if method == "resources/list":
            # There may be millions of memories, which are found by queries.
            return self._build_list("resources", [])

        if method == "resources/templates/list":
            return self._build_list("resourceTemplates", self._describe_templates())

        assert method == _DISCOVER
        return self._sign(
            {
                "cacheScope": "private",
                "capabilities": _CAPABILITIES,
                "instructions": describe_server(self._abilities),
                "resultType": "complete",
                "supportedVersions": [CURRENT_VERSION],
                "ttlMs": 0,
            }
        )

    def _build_list(self, name: str, items: list[JsonObject]) -> JsonObject:
        if self._era == "handshake":
            return {name: items}

        result = {"cacheScope": "private", "resultType": "complete", name: items, "ttlMs": 0}
        # The SDK sends fields by the alphabet.
        return self._sign(dict(sorted(result.items())))

    def _describe_tools(self) -> list[JsonObject]:
        assert self._era is not None
        tools: list[JsonObject] = []

        for ability in self._abilities.offered:
            tool = describe_tool(ability, self._abilities.settings)
            for name, first in _FIRST_FIELDS[self._era].items():
                if name in tool:
                    tool[name] = _put_first(tool[name], first)
            tools.append(tool)

        return tools

    def _describe_templates(self) -> list[JsonObject]:
        registry = self._abilities.registry
        return [describe_template(ability) for ability in registry if ability.resource is not None]

    def _sign(self, result: JsonObject) -> JsonObject:
        """Return a result with the server's name, if its revision has it in each."""
        if self._era == "handshake":
            return result

        return {**result, "_meta": {SERVER_KEY: self._identity}}


def _put_first(schema: JsonObject, names: Iterable[str]) -> dict[str, Any]:
    """Return a schema with some of its fields before the others."""
    first = {name: schema[name] for name in names if name in schema}
    return {**first, **schema}
