"""The parameters of common MCP requests, checked more strictly than the SDK checks them.

What passes here passes the SDK too. What does not may still be right, and the SDK decides.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

from abilities.declarations.values import JsonObject, as_object

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The protocol revisions that begin with ``initialize``, the newest one last."""
CURRENT_VERSION: Final = "2026-07-28"
"""The revision whose requests each name their version and the client's capabilities."""

_RESERVED: Final = "io.modelcontextprotocol/"
VERSION_KEY: Final = _RESERVED + "protocolVersion"
CAPABILITIES_KEY: Final = _RESERVED + "clientCapabilities"
CLIENT_KEY: Final = _RESERVED + "clientInfo"
SERVER_KEY: Final = _RESERVED + "serverInfo"

_ENVELOPE: Final = frozenset({VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY})

Fields = Mapping[str, type]
"""The types of the fields that a method's params may have beside ``_meta``."""


def is_initialize(params: JsonObject | None) -> bool:
    """Return whether these are params of ``initialize``."""
    if params is None or not is_handshake_params(params, _INITIALIZE):
        return False

    return (
        "protocolVersion" in params
        and _is_client(params.get("clientInfo"))
        and _are_capabilities(params.get("capabilities"))
    )


def is_handshake_params(params: JsonObject | None, fields: Fields) -> bool:
    """Return whether params are of the revisions that begin with ``initialize``."""
    if params is None:
        return True

    return _has_only(params, fields) and _is_meta(params.get("_meta", {}), frozenset())


def is_current_params(params: JsonObject | None, fields: Fields) -> bool:
    """Return whether params are of the current revision, with all that each request must say."""
    if params is None or not _has_only(params, fields):
        return False

    meta = as_object(params.get("_meta"))
    if meta is None or not _is_meta(meta, _ENVELOPE):
        return False

    return (
        meta.get(VERSION_KEY) == CURRENT_VERSION
        and _are_capabilities(meta.get(CAPABILITIES_KEY))
        and (CLIENT_KEY not in meta or _is_client(meta[CLIENT_KEY]))
    )


def names_version(params: JsonObject | None) -> bool:
    """Return whether params name a protocol version, which only the current revision does."""
    meta = as_object((params or {}).get("_meta"))
    return meta is not None and VERSION_KEY in meta


def _has_only(params: JsonObject, fields: Fields) -> bool:
    """Return whether params have no other fields than these, and each of its type."""
    for name, value in params.items():
        if name != "_meta" and not isinstance(value, fields.get(name, ())):
            return False

    return True


def _is_meta(value: object, reserved: frozenset[str]) -> bool:
    """Return whether a value may be ``_meta``, with no reserved keys but these."""
    meta = as_object(value)
    if meta is None:
        return False

    for name in meta:
        is_known = name in reserved or not name.startswith(_RESERVED)
        if not is_known or name == "progress_token":  # the SDK's own name for progressToken
            return False

    token: object = meta.get("progressToken", "")
    return isinstance(token, str | int) and not isinstance(token, bool)


def _is_client(value: object) -> bool:
    """Return whether a value may be ``clientInfo``."""
    client = as_object(value)
    if client is None or not {"name", "version"} <= client.keys():
        return False

    for name in ("name", "version", "title", "description", "websiteUrl"):
        if not isinstance(client.get(name, ""), str):
            return False

    icons: object = client.get("icons", [])
    if not isinstance(icons, list):
        return False

    return all(map(_is_icon, cast(list[object], icons)))


def _is_icon(value: object) -> bool:
    icon = as_object(value)
    if icon is None or icon.keys() - {"src", "mimeType"}:
        return False

    return all(isinstance(icon.get(name), str) for name in ("src", *icon))


def _are_capabilities(value: object) -> bool:
    """Return whether a value may be the capabilities of a client; others than these are ignored."""
    capabilities = as_object(value)
    if capabilities is None:
        return False

    for name, is_right in _CAPABILITIES.items():
        if name in capabilities and not is_right(capabilities[name]):
            return False

    return True


def _is_roots(value: object) -> bool:
    roots = as_object(value)
    return roots is not None and isinstance(roots.get("listChanged", False), bool)


def _is_object_of_objects(value: object) -> bool:
    fields = as_object(value)
    return fields is not None and all(isinstance(field, dict) for field in fields.values())


def _is_tree(value: object) -> bool:
    """Return whether a value is an object of nothing but such objects."""
    fields = as_object(value)
    return fields is not None and all(map(_is_tree, fields.values()))


_INITIALIZE: Final[Fields] = {"protocolVersion": str, "clientInfo": dict, "capabilities": dict}

_CAPABILITIES: Final[Mapping[str, Callable[[object], bool]]] = {
    "experimental": _is_object_of_objects,
    "extensions": _is_object_of_objects,
    "sampling": _is_object_of_objects,
    "elicitation": _is_object_of_objects,
    "roots": _is_roots,
    "tasks": _is_tree,
}
