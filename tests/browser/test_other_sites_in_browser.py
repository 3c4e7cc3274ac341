"""Row H9 in a real browser: a page of another site tries to reach a server without tokens."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.serving import Server

TRY = """
async (address) => {
  const waitFor = (name, source) => new Promise((resolve) => {
    const element = document.createElement(name);
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
    image: await waitFor('img', { src: address }),
    script: await waitFor('script', { src: address }),
    style: await waitFor('link', { rel: 'stylesheet', href: address }),
  };
}
"""
FRAME = """
(address) => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.onload = () => resolve(frame.contentDocument?.body.innerHTML ?? 'closed');
  frame.src = address;
  document.body.append(frame);
})
"""
FORM = """
(address) => {
  const form = document.createElement('form');
  Object.assign(form, { method: 'POST', enctype: 'text/plain', action: address });
  const field = document.createElement('input');
  field.name = '{"type": "core", "key": "planted", "content": "';
  field.value = '"}';
  form.append(field);
  document.body.append(form);
  form.submit();
}
"""


@pytest.fixture(params=["localhost", "127.0.0.1"])
def other_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a page of another site, and of another port of the server's own."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>Other</title><body></body>")
    (folder / "favicon.ico").touch()

    pages = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{request.param}:{server.server_port}/"
        server.shutdown()


def list_calls(log: str) -> list[str]:
    """Return the abilities that were called, by the lines of a server's log."""
    lines = [json.loads(line) for line in log.splitlines()[1:]]
    return [line["ability"] for line in lines if line["message"] == "call"]


def test_another_page_reaches_no_ability_and_learns_nothing(
    server: Server, page: Page, other_site: str
) -> None:
    page.goto(other_site)
    there, missing = (
        [page.evaluate(script, f"{server.address}/api/memories/{key}") for script in (TRY, FRAME)]
        for key in ("people%2FAda", "none")
    )

    assert there == missing
    tried, framed = there
    assert (tried["plain"], tried["image"], tried["script"]) == ("failed", "error", "error")
    assert framed == "closed"

    for path in ("/api/abilities/store_memory", "/api/memories"):
        page.goto(other_site)
        page.evaluate(FORM, server.address + path)
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
