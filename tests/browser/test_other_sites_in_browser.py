"""Row H9 in a real browser: a page of another site tries to reach a server without tokens."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.serving import Server

_TRY = """
async (address) => {
  const waitFor = (element, source) => new Promise((resolve) => {
    element.onload = () => resolve('load');
    element.onerror = () => resolve('error');
    Object.assign(element, source);
    document.body.append(element);
  });
  const send = async (options) => {
    try {
      const answer = await fetch(address, options);
      return `${answer.type} ${answer.status}`;
    } catch {
      return 'failed';
    }
  };
  const body = '{"type": "core", "key": "planted", "content": "x"}';
  return {
    plain: await send({}),
    blind: await send({ mode: 'no-cors' }),
    post: await send({ mode: 'no-cors', method: 'POST', body }),
    image: await waitFor(document.createElement('img'), { src: address }),
    script: await waitFor(document.createElement('script'), { src: address }),
    style: await waitFor(document.createElement('link'), { rel: 'stylesheet', href: address }),
  };
}
"""
_FRAME = """
(address) => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.onload = () => {
    try {
      resolve(frame.contentDocument ? frame.contentDocument.body.innerHTML : 'closed');
    } catch {
      resolve('closed');
    }
  };
  frame.src = address;
  document.body.append(frame);
})
"""
_FORM = """
(address) => {
  const form = document.createElement('form');
  form.method = 'POST';
  form.enctype = 'text/plain';
  form.action = address;
  const field = document.createElement('input');
  field.name = '{"type": "core", "key": "planted", "content": "';
  field.value = '"}';
  form.append(field);
  document.body.append(form);
  form.submit();
}
"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = b"<!doctype html><title>Other</title><body></body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on stderr."""


@pytest.fixture(params=["localhost", "127.0.0.1"])
def other_site(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a page of another site, and of another port of the server's own."""
    server = HTTPServer(("127.0.0.1", 0), _EmptyPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{request.param}:{server.server_port}/"
    server.shutdown()
    server.server_close()


def list_calls(log: str) -> list[str]:
    """Return the abilities that were called, by the lines of a server's log."""
    lines = [json.loads(line) for line in log.splitlines()[1:]]
    return [line["ability"] for line in lines if line["message"] == "call"]


def test_another_page_reaches_no_ability_and_learns_nothing(
    server: Server, page: Page, other_site: str
) -> None:
    page.goto(other_site)
    learned = []

    for key in ("people%2FAda", "none"):
        learned.append(page.evaluate(_TRY, f"{server.address}/api/memories/{key}"))
        learned.append({"frame": page.evaluate(_FRAME, f"{server.address}/api/memories/{key}")})

    assert learned[:2] == learned[2:]
    assert learned[0]["plain"] == "failed"
    assert learned[0]["image"] == learned[0]["script"] == "error"
    assert learned[1] == {"frame": "closed"}

    for path in ("/api/abilities/store_memory", "/api/memories"):
        page.goto(other_site)
        page.evaluate(_FORM, server.address + path)
        expect(page.get_by_text("Pages of other sites may not call this server")).to_be_visible()

    assert list_calls(server.log.read_text()) == []
    assert httpx.get(f"{server.address}/api/memories/planted").status_code == 404
    assert httpx.get(f"{server.address}/api/memories/people%2FAda").status_code == 200


def test_a_link_on_another_page_opens_the_explorer(
    server: Server, page: Page, other_site: str
) -> None:
    page.goto(other_site)
    page.evaluate("(address) => { location.href = address; }", f"{server.address}/#/memories")

    expect(page.get_by_text("people/Ada").first).to_be_visible()
