"""The explorer's pages and what they load: a closed set of files, open to anyone, with nobody's data in them."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

_STRICT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_LIBRARY = _STRICT.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""Swagger UI, at /docs, writes styles of its own; it has no content that others wrote to show."""
_KINDS = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
}
_AT = {"index.html": "/", "docs.html": "/docs"}
_PREFIX = "/explorer/"


class StaticPage(NamedTuple):
    """A file as it is sent."""

    body: bytes
    kind: str
    policy: str

    @property
    def headers(self) -> dict[str, str]:
        """What a browser is told beside the content: load from here alone, tell nobody, stay in no frame."""
        return {
            "Content-Security-Policy": self.policy,
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }


def _found(folder: Traversable, prefix: str) -> dict[str, StaticPage]:
    pages: dict[str, StaticPage] = {}
    for entry in folder.iterdir():
        kind = _KINDS.get(entry.name.rpartition(".")[2])
        if entry.is_dir():
            pages |= _found(entry, f"{prefix}{entry.name}/")
        elif kind is not None:
            policy = _LIBRARY if entry.name == "docs.html" else _STRICT
            at = _AT.get(entry.name, prefix + entry.name)
            pages[at] = StaticPage(entry.read_bytes(), f"{kind}; charset=utf-8", policy)
    return pages


PAGES = _found(files("abilities.explorer") / "static", _PREFIX)
"""By address."""
