"""Row H9 in a real browser: a page of another site tries to reach a server without tokens."""

import json

import httpx
from playwright.sync_api import Page, expect

from tests.browser.other_site import OPEN_FRAME, OPEN_LINK, SEND_FORM, Site
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
PLANTED = {'{"type": "core", "key": "planted", "content": "': '"}'}
"""Fields of a form that is JSON when it is sent as plain text."""


def list_calls(log: str) -> list[str]:
    """Return the abilities that were called, by the lines of a server's log."""
    lines = [json.loads(line) for line in log.splitlines()[1:]]
    return [line["ability"] for line in lines if line["message"] == "call"]


def test_another_page_reaches_no_ability_and_learns_nothing(
    server: Server, page: Page, site: Site
) -> None:
    page.goto(site.address)
    there, missing = (
        [
            page.evaluate(script, f"{server.address}/api/memories/{key}")
            for script in (TRY, OPEN_FRAME)
        ]
        for key in ("people%2FAda", "none")
    )

    assert there == missing
    tried, framed = there
    assert (tried["plain"], tried["image"], tried["script"]) == ("failed", "error", "error")
    assert framed == "closed"

    for path in ("/api/abilities/store_memory", "/api/memories"):
        page.goto(site.address)
        page.evaluate(SEND_FORM, [server.address + path, PLANTED, "text/plain"])
        expect(page.get_by_text("Pages of other sites may not call this server")).to_be_visible()

    assert list_calls(server.log.read_text()) == []
    assert httpx.get(f"{server.address}/api/memories/planted").status_code == 404
    assert httpx.get(f"{server.address}/api/memories/people%2FAda").status_code == 200


def test_a_link_on_another_page_opens_the_explorer(server: Server, page: Page, site: Site) -> None:
    page.goto(site.address)
    page.evaluate(OPEN_LINK, f"{server.address}/#/memories")

    expect(page.get_by_text("people/Ada").first).to_be_visible()
