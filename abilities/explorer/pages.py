"""The explorer's pages and everything they load: a fixed set of files, open to anyone.

They hold no user's data, so no token is needed for them.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

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
