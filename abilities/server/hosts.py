"""Which hosts and origins a request may name: the protection against DNS rebinding."""

import re
from collections.abc import Iterable

from abilities.server.headers import Headers
from abilities.server.refusals import RefusedRequest

_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:/@?#\[\]\s]+)(?::[0-9]{1,5})?")


class HostCheck:
    """Lets requests pass whose Host and Origin headers name an allowed host, on any port.

    A web page of another site can make a browser connect to this machine. It can neither forge
    the Origin header nor send a Host header that is not its own name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)

    def check(self, headers: Headers) -> None:
        """Raise RefusedRequest, 421 for a foreign host and 403 for a foreign origin."""
        hosts = headers.get("host", [])

        if len(hosts) != 1 or parse_host(hosts[0]) not in self._names:
            raise RefusedRequest(421, "foreign_host")

        for origin in headers.get("origin", []):
            scheme, _, netloc = origin.partition("://")

            if scheme.lower() not in ("http", "https") or parse_host(netloc) not in self._names:
                raise RefusedRequest(403, "foreign_origin")


def parse_host(netloc: str) -> str | None:
    """Return the name in a Host or Origin header, in lower case and without its port.

    Returns None if the header is malformed.

    >>> parse_host("LOCALHOST:8642"), parse_host("[::1]"), parse_host("user@localhost")
    ('localhost', '[::1]', None)
    """
    match = _NETLOC.fullmatch(netloc)
    return match[1].lower() if match else None
