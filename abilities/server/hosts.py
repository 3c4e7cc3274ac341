"""Which pages may make a browser send requests here, and what it may do with the answers.

This protects a server without tokens from the pages of other sites, DNS rebinding included.
"""

import re
from collections.abc import Container, Iterable

from starlette.types import Scope

from abilities.server.headers import Headers
from abilities.server.refusals import RefusedRequest

_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:/@?#\[\]\s]+)(?::[0-9]{1,5})?")


ISOLATION = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}
"""What browsers must obey: let no other page load, embed or keep an answer."""

_OWN_SITES = ("same-origin", "none")
"""Who lets a browser send a request (https://www.w3.org/TR/fetch-metadata/): our own pages, or a
person who typed the address. "same-site" is not enough: every port of localhost is one site."""


class HostCheck:
    """Lets requests pass whose Host and Origin headers name an allowed host, on any port.

    A web page of another site can make a browser connect to this machine. It can neither forge
    the Origin header nor send a Host header that is not its own name. It also sends requests
    without an Origin, for images, scripts and forms for example; of those, browsers tell in
    Sec-Fetch-Site where they come from. ``pages`` may be reached by a link from anywhere.
    """

    def __init__(self, names: Iterable[str], pages: Container[str] = ()) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._pages = pages

    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise RefusedRequest, 421 for a foreign host and 403 for a foreign origin or site."""
        hosts = headers.get("host", [])

        if len(hosts) != 1 or parse_host(hosts[0]) not in self._names:
            raise RefusedRequest(421, "foreign_host")

        for origin in headers.get("origin", []):
            scheme, _, netloc = origin.partition("://")

            if scheme.lower() not in ("http", "https") or parse_host(netloc) not in self._names:
                raise RefusedRequest(403, "foreign_origin")

        for site in headers.get("sec-fetch-site", []):
            if site not in _OWN_SITES and not self._is_visit(scope, headers):
                raise RefusedRequest(403, "foreign_origin")

    def _is_visit(self, scope: Scope, headers: Headers) -> bool:
        """Whether a browser goes to one of our pages, in a tab of its own."""
        return (
            scope["method"] == "GET"
            and scope["path"] in self._pages
            and headers.get("sec-fetch-mode") == ["navigate"]
            and headers.get("sec-fetch-dest") == ["document"]
        )


def parse_host(netloc: str) -> str | None:
    """Return the name in a Host or Origin header, in lower case and without its port.

    Returns None if the header is malformed.

    >>> parse_host("LOCALHOST:8642"), parse_host("[::1]"), parse_host("user@localhost")
    ('localhost', '[::1]', None)
    """
    match = _NETLOC.fullmatch(netloc)
    return match[1].lower() if match else None
