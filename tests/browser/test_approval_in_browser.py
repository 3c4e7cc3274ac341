"""The page that approves an OAuth client, in a real browser, and attempts of other sites."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from abilities import Settings
from abilities.helpers.grants import GrantFile
from abilities.helpers.tokens import TokenFile
from tests.browser.other_site import OPEN_FRAME, OPEN_LINK, SEND_FORM, Site
from tests.browser.visitor import Visitor
from tests.support.oauth import FORM_PAGE, VERIFIER, hash_verifier
from tests.support.serving import serving


class Attempt(NamedTuple):
    """A client of the site at a server with OAuth, and a token of the person."""

    server: str
    client_id: str
    link: str
    token: str
    grants: GrantFile


@pytest.fixture
def attempt(settings: Settings, tmp_path: Path, site: Site) -> Iterator[Attempt]:
    changes = {"tokens_file": tmp_path / "tokens.json", "oauth": True}
    settings = settings.model_copy(update=changes)
    token = TokenFile(settings.tokens_file).add("default", "read")[1]
    callback = f"{site.address}/callback"

    with serving(settings, tmp_path) as server:
        metadata = {"redirect_uris": [callback], "client_name": "Site <b>"}
        answer = httpx.post(f"{server.address}/register", json=metadata)
        client_id = answer.json()["client_id"]
        query = {
            "client_id": client_id,
            "response_type": "code",
            "redirect_uri": callback,
            "code_challenge": hash_verifier(),
            "state": "s",
        }
        link = f"{server.address}/authorize?{urlencode(query)}"
        yield Attempt(server.address, client_id, link, token, GrantFile(settings.tokens_file))
        server.stop()


def follow_link(page: Page, site: Site, link: str) -> None:
    """Open a link as a person does who clicks on it at the site."""
    page.goto(site.address)
    page.evaluate(OPEN_LINK, link)
    expect(page.get_by_role("heading", name="Approve a client")).to_be_visible()


def test_a_person_approves_a_client_and_it_gets_its_code(
    page: Page, site: Site, attempt: Attempt
) -> None:
    visitor = Visitor(page, attempt.server)
    visitor.expected = ["403 (Forbidden)"]
    follow_link(page, site, attempt.link)
    visitor.violations.clear()  # the site is another host
    expect(page.get_by_text("Site <b>")).to_be_visible()
    visitor.expect_usable()

    visitor.field("Token").fill("abl_wrong")
    visitor.button("Approve").click()
    expect(page.get_by_role("alert")).to_have_text("This token is not valid here.")
    assert visitor.violations == []
    visitor.field("Token").fill(attempt.token)
    visitor.button("Approve").click()
    page.wait_for_url(f"{site.address}/callback?*")

    path, referer = site.requests[-1]
    query = parse_qs(urlsplit(path).query)
    assert (query["state"], query["iss"], referer) == (["s"], [attempt.server], None)
    fields = {
        "grant_type": "authorization_code",
        "client_id": attempt.client_id,
        "code": query["code"][0],
        "redirect_uri": f"{site.address}/callback",
        "code_verifier": VERIFIER,
    }
    assert httpx.post(f"{attempt.server}/token", data=fields).json()["scope"] == "read"


def test_a_person_denies_a_client(page: Page, site: Site, attempt: Attempt) -> None:
    follow_link(page, site, attempt.link)

    page.get_by_role("button", name="Deny").click()

    page.wait_for_url(f"{site.address}/callback?error=access_denied*")
    assert attempt.grants.list_grants() == []


def test_another_site_approves_nothing_in_a_persons_browser(
    page: Page, site: Site, attempt: Attempt
) -> None:
    """It even has a token, and the proof of a page of its own: a client for it to sign in to."""
    with httpx.Client(follow_redirects=True) as attacker:
        own = attacker.get(attempt.link)
    (proof,) = FORM_PAGE.findall(own.text)
    fields = {"proof": proof, "token": attempt.token, "decision": "approve"}

    follow_link(page, site, attempt.link)  # so the browser has a cookie
    address = page.url
    page.goto(site.address)
    page.evaluate(SEND_FORM, [address, fields, "application/x-www-form-urlencoded"])

    expect(page.get_by_text("Pages of other sites may not call this server")).to_be_visible()
    page.goto(site.address)
    assert page.evaluate(OPEN_FRAME, address) == "closed"
    assert attempt.grants.list_grants() == []
