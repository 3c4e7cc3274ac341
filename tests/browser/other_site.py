"""Sites of someone else on this machine, and what their pages try in a person's browser."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

OPEN_FRAME = """
(address) => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.onload = () => resolve(frame.contentDocument?.body.innerHTML ?? 'closed');
  frame.src = address;
  document.body.append(frame);
})
"""
"""Returns what a page sees of an address in a frame."""

SEND_FORM = """
([address, fields, enctype]) => {
  const form = document.createElement('form');
  Object.assign(form, { method: 'POST', enctype, action: address });
  for (const [name, value] of Object.entries(fields)) {
    form.append(Object.assign(document.createElement('input'), { name, value }));
  }
  document.body.append(form);
  form.submit();
}
"""

OPEN_LINK = "(address) => { location.href = address; }"


class Site(NamedTuple):
    """A site, which notes the path and the referrer of each request."""

    address: str
    requests: list[tuple[str, str | None]]


@contextmanager
def serving_pages(create_handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve at a free port, which is yielded."""
    with ThreadingHTTPServer(("127.0.0.1", 0), create_handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def serving_site(host: str) -> Iterator[Site]:
    """Serve a site whose every address is an empty page."""
    requests: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers.get("Referer")))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>Client</title>")

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the output of the tests short."""

    with serving_pages(Handler) as port:
        yield Site(f"http://{host}:{port}", requests)
