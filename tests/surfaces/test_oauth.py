"""OAuth: clients get tokens with the approval of a token's holder, and attackers get none."""

import asyncio
import html
import json
import logging
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from abilities import Settings
from abilities.cli.main import main
from abilities.explorer.pages import PAGES
from abilities.helpers import grants
from abilities.helpers.grants import GrantFile
from abilities.helpers.tokens import TokenFile
from abilities.server import callers
from tests.support.oauth import (
    BACK,
    CALLBACK,
    VERIFIER,
    connect,
    get_code,
    hash_verifier,
    open_page,
    read_answer,
    redeem,
    refresh,
    register,
    send_form,
)
from tests.support.serving import ServedApp, serving, serving_app
from tests.support.surfaces import environment, with_changes
from tests.surfaces.test_tokens import OAUTH, SCOPE, list_routes


@pytest.fixture
async def server(apart: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServedApp]:
    monkeypatch.setattr(callers, "FRESH_SECONDS", 0.02)
    async with serving_app(apart, **OAUTH) as server:
        yield server


class Storage:
    """The memory of the SDK's client."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_the_sdks_client_connects_from_nothing_with_one_approval(
    private: Settings, tokens: TokenFile, tmp_path: Path
) -> None:
    settings = with_changes(private, oauth=True)
    kept, token = tokens.add("default", "write", "Ada")
    answers: list[str] = []
    approvals = 0

    async def approve(url: str) -> None:
        nonlocal approvals
        approvals += 1
        async with httpx.AsyncClient(follow_redirects=True) as browser:
            end = await send_form(browser, await browser.get(url), token)
        answers.append(html.unescape(BACK.findall(end.text)[0]))

    async def take_answer() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(answers[-1]).query)
        return AuthorizationCodeResult(**{name: values[0] for name, values in query.items()})

    storage = Storage()
    with serving(settings, tmp_path) as server:
        address = f"{server.address}/mcp"
        metadata = OAuthClientMetadata.model_validate(
            {"redirect_uris": ["http://127.0.0.1:9/cb"], "client_name": "SDK"}
        )
        for key in ("first", "second"):  # the second time with the tokens of the first
            auth = OAuthClientProvider(address, metadata, storage, approve, take_answer)
            async with (
                httpx2.AsyncClient(auth=auth) as sender,
                Client(streamable_http_client(address, http_client=sender)) as client,
            ):
                memory = {"type": "core", "key": key, "content": "x"}
                assert not (await client.call_tool("store_memory", memory)).is_error

        log = server.stop()

    assert approvals == 1
    assert storage.tokens is not None and storage.tokens.scope == "read write"
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    (approval,) = [line for line in lines if line["message"] == "an OAuth client was approved"]
    calls = [line for line in lines if line.get("ability") == "store_memory"]
    assert {line["caller"] for line in calls} == {"SDK at 127.0.0.1"}
    assert {(line["token"], line["client"]) for line in calls} == {
        (approval["grant"], approval["client"])
    }
    assert approval["token"] == kept.id

    # Nothing secret is on the disk or in the log.
    code = parse_qs(urlsplit(answers[0]).query)["code"][0]
    secrets = [code, storage.tokens.access_token, str(storage.tokens.refresh_token), token]
    parts = [part for secret in secrets for part in (secret[-43:], secret[4:47])]
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        assert not any(part.encode() in content for part in parts), path
    clients_file = GrantFile(settings.tokens_file).path
    assert stat.S_IMODE(os.stat(clients_file).st_mode) == 0o600


async def test_clients_find_out_where_to_go(server: ServedApp) -> None:
    refused = await server.ask("POST", "/mcp")
    assert refused.status_code == 401
    link = "http://localhost/.well-known/oauth-protected-resource/mcp"
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{link}"'

    resource = (await server.client.get(link)).json()
    assert resource["resource"] == "http://localhost/mcp"
    assert resource["authorization_servers"] == ["http://localhost"]

    metadata = (await server.ask("GET", "/.well-known/oauth-authorization-server")).json()
    assert metadata["issuer"] == "http://localhost"
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["token_endpoint_auth_methods_supported"] == ["none"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    for name, path in (
        ("authorization_endpoint", "/authorize"),
        ("token_endpoint", "/token"),
        ("registration_endpoint", "/register"),
        ("revocation_endpoint", "/revoke"),
    ):
        assert metadata[name] == f"http://localhost{path}"


@pytest.mark.parametrize(
    ("own", "asked", "granted"),
    [
        ("read", None, "read"),
        ("read", "read write purge", "read"),
        ("write", None, "read write"),
        ("purge", "read write purge", "read write purge"),
        ("purge", "read", "read"),
    ],
)
async def test_a_client_has_the_scope_of_the_token_and_never_more(
    server: ServedApp, tokens: TokenFile, own: Any, asked: str | None, granted: str
) -> None:
    _, token = tokens.add("ada", own, tools=("recall", "store_memory"))

    client = await connect(server.client, token, scope=asked)

    assert client.scope == granted
    async with server.mcp(client.access) as session:
        names = [tool.name for tool in (await session.list_tools()).tools]
    assert names == (["recall"] if granted == "read" else ["store_memory", "recall"])


async def test_a_client_sees_the_namespace_of_the_token_alone(
    server: ServedApp, tokens: TokenFile
) -> None:
    for name in ("ada", "bob"):
        _, token = tokens.add(name, "write")
        client = await connect(server.client, token)
        async with server.mcp(client.access) as session:
            memory = {"type": "core", "key": "same", "content": f"of {name}"}
            stored = await session.call_tool("store_memory", memory)
            assert '"created":true' in str(stored.content)


async def test_an_access_token_opens_no_other_address_and_approves_nothing(
    server: ServedApp, tokens: TokenFile
) -> None:
    _, token = tokens.add("ada", "purge")
    client = await connect(server.client, token)
    document = (await server.ask("GET", "/openapi.json", token)).json()

    for method, path in list_routes(document):
        if path not in {"/mcp", "/healthz", "/readyz", *PAGES}:
            refused = await server.ask(method, path, client.access)
            assert (refused.status_code, refused.json()) == (403, SCOPE), path

    page = await open_page(server.client, client.id)
    refused = await send_form(server.client, page, client.access)
    assert refused.status_code == 403 and "not valid" in refused.text


async def test_a_client_may_ask_for_less_when_it_refreshes(
    server: ServedApp, tokens: TokenFile
) -> None:
    client = await connect(server.client, tokens.add("ada", "write")[1])

    narrow = (await refresh(server.client, client.id, client.refresh, scope="read")).json()
    wide = (await refresh(server.client, client.id, narrow["refresh_token"])).json()

    assert (narrow["scope"], wide["scope"]) == ("read", "read write")
    await expect_access(server, client.access, is_open=False)
    await expect_access(server, narrow["access_token"], is_open=False)
    await expect_access(server, wide["access_token"], is_open=True)
    more = await refresh(server.client, client.id, wide["refresh_token"], scope="purge")
    assert more.json()["error"] == "invalid_scope"


async def expect_access(server: ServedApp, access: str, *, is_open: bool) -> None:
    """Check whether an access token opens MCP, once the server has looked at the file again."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    await server.wait_for(403 if is_open else 401, access)
    accept = {"Accept": "application/json"}
    answer = await server.ask("POST", "/mcp", access, json=call, headers=accept)
    assert (answer.status_code == 401) is not is_open


async def test_access_ends_with_the_token_the_grant_and_the_clients_own_word(
    server: ServedApp, tokens: TokenFile, apart: Settings
) -> None:
    kept, token = tokens.add("ada", "read")
    grant_file = GrantFile(apart.tokens_file)

    for name in ("grant", "access", "refresh", "token"):
        client = await connect(server.client, token)
        await expect_access(server, client.access, is_open=True)

        if name == "token":
            tokens.revoke(kept.id)
        elif name == "grant":
            grant_file.revoke(grant_file.list_grants()[-1].id)
        else:
            sent = client.access if name == "access" else client.refresh
            fields = {"token": sent, "token_type_hint": f"{name}_token", "client_id": client.id}
            assert (await server.client.post("/revoke", data=fields)).status_code == 200

        await expect_access(server, client.access, is_open=False)
        refused = await refresh(server.client, client.id, client.refresh)
        assert refused.json()["error"] == "invalid_grant", name


async def test_one_client_can_neither_end_nor_use_the_access_of_another(
    server: ServedApp, token: str
) -> None:
    client, other = [await connect(server.client, token) for _ in range(2)]

    fields = {"token": client.access, "client_id": other.id}
    assert (await server.client.post("/revoke", data=fields)).status_code == 200
    assert (await refresh(server.client, other.id, client.refresh)).status_code == 400

    await expect_access(server, client.access, is_open=True)
    assert (await refresh(server.client, client.id, client.refresh)).status_code == 200


@pytest.mark.parametrize("what", ["ACCESS_SECONDS", "REFRESH_SECONDS", "CODE_SECONDS"])
async def test_codes_and_tokens_expire(
    server: ServedApp, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    _, token = tokens.add("ada", "read")
    monkeypatch.setattr(grants, what, 0)

    client_id = (await register(server.client)).json()["client_id"]
    page = await open_page(server.client, client_id)
    code = read_answer(await send_form(server.client, page, token))["code"]
    answer = await redeem(server.client, client_id, code)

    if what == "CODE_SECONDS":
        assert answer.json()["error"] == "invalid_grant"
        return

    issued = answer.json()
    await expect_access(server, issued["access_token"], is_open=False)
    again = await refresh(server.client, client_id, issued["refresh_token"])
    assert (again.status_code == 200) is (what == "ACCESS_SECONDS")


async def test_the_commands_list_clients_and_revoke_them(
    server: ServedApp, tokens: TokenFile, apart: Settings
) -> None:
    kept, token = tokens.add("ada", "write", "laptop")
    client = await connect(server.client, token, scope="read")

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["token", *arguments], env=environment(apart))

    own, granted = json.loads(run("list", "--json").stdout)
    assert (own["id"], own["client"]) == (kept.id, "")
    assert (granted["client"], granted["label"]) == (client.id, "Tester at client.example")
    assert (granted["namespace"], granted["scope"]) == ("ada", "read")
    assert "Tester at client.example" in run("list").stdout.splitlines()[2]

    assert run("revoke", granted["id"]).exit_code == 0
    assert run("revoke", granted["id"]).exit_code == 1
    await expect_access(server, client.access, is_open=False)
    assert (await server.ask("GET", "/api/stats", token)).status_code == 200


async def test_a_token_has_few_grants_and_the_oldest_goes_first(
    server: ServedApp, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MAX_GRANTS", 2)
    _, other = tokens.add("ada", "read")
    _, token = tokens.add("ada", "read")

    kept = await connect(server.client, other)
    first, second, third = [await connect(server.client, token) for _ in range(3)]

    await expect_access(server, first.access, is_open=False)
    for client in (kept, second, third):
        await expect_access(server, client.access, is_open=True)


async def test_a_damaged_file_of_clients_locks_out_clients_alone(
    server: ServedApp, tokens: TokenFile, apart: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    _, token = tokens.add("ada", "read")
    client = await connect(server.client, token)

    GrantFile(apart.tokens_file).path.write_text('{"clients": "CANARY"}')

    await expect_access(server, client.access, is_open=False)
    assert (await server.ask("GET", "/api/stats", token)).status_code == 200
    assert (await register(server.client)).status_code == 503
    assert "cannot be used" in caplog.text and "CANARY" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"allowed_hosts": "example.org"}, "needs TLS"),
        ({"public_url": "http://example.org"}, "https"),
        ({"public_url": "https://example.org/path"}, "without a path"),
        ({"require_tokens": "false"}, "needs tokens"),
        ({"authorization_servers": "https://login.example"}, "remove authorization_servers"),
    ],
)
def test_an_unsafe_server_does_not_start(
    apart: Settings, tokens: TokenFile, changes: dict[str, str], words: str
) -> None:
    tokens.add("ada", "read")
    variables = {f"ABILITIES_{name.upper()}": value for name, value in changes.items()}

    refused = CliRunner().invoke(
        main,
        ["serve", "--port", "0"],
        env={**environment(apart), "ABILITIES_OAUTH": "true", **variables},
    )

    assert refused.exit_code == 2 and words in refused.stderr, refused.stderr


async def test_a_public_address_is_a_host_and_needs_tokens(apart: Settings) -> None:
    async with serving_app(apart, public_url="https://memory.example") as server:
        refused = await server.ask("GET", "/api/stats", headers={"Host": "memory.example"})
        foreign = await server.ask("GET", "/api/stats", headers={"Host": "other.example"})

    assert (refused.status_code, foreign.status_code) == (401, 421)


async def test_without_the_setting_there_is_no_oauth(apart: Settings, tokens: TokenFile) -> None:
    _, token = tokens.add("ada", "write")
    async with serving_app(apart, **OAUTH) as server:
        client = await connect(server.client, token)

    async with serving_app(apart) as server:
        for path in ("/authorize", "/oauth/approve", "/.well-known/oauth-authorization-server"):
            assert (await server.ask("GET", path, token)).status_code == 404, path
        assert (await server.ask("POST", "/mcp", client.access)).status_code == 401


VISIT = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

WRONG_URIS = """
    http://client.example/ http://127.0.0.1.evil.example/ http://localhost.evil.example/
    http://evil.example@127.0.0.1/ https://user@client.example/ https://client.example/#part
    https://client.example/# javascript:alert(1) data:text/html,x cursor://callback file:///etc
    ftp://client.example/ https://a;script-src'*'.example/ http://0.0.0.0/ http://[::2]/
"""
OTHER_URIS = """
    https://evil.example/callback https://client.example/callback/ https://client.example/Callback
    https://client.example/callback?x=1 https://client.example/callback/../evil
    https://client.example:8443/callback http://client.example/callback
    https://client.example.evil.example/callback https://client.example@evil.example/callback
    https://client.example/callback%2f https://client.example/callback#x
"""


@pytest.fixture
def browser(server: ServedApp) -> httpx.AsyncClient:
    return server.client


@pytest.fixture
def token(tokens: TokenFile) -> str:
    return tokens.add("ada", "write")[1]


async def make_client(browser: httpx.AsyncClient) -> str:
    client_id: str = (await register(browser)).json()["client_id"]
    return client_id


@pytest.mark.parametrize("uri", [*WRONG_URIS.split(), "https://client.example/" + "a" * 600])
async def test_no_client_may_receive_codes_at_an_unsafe_uri(
    browser: httpx.AsyncClient, apart: Settings, uri: str
) -> None:
    for uris in ([uri], [CALLBACK, uri]):
        refused = await register(browser, redirect_uris=uris)

        # The SDK's own words, if it is no URI at all.
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")

    assert not GrantFile(apart.tokens_file).path.exists()


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:33418/cb", "http://localhost/cb", "http://[::1]:1/", CALLBACK]
)
async def test_a_client_at_a_safe_uri_gets_no_secret_and_learns_it(
    browser: httpx.AsyncClient, uri: str
) -> None:
    answer = await register(browser, uri, token_endpoint_auth_method="client_secret_post")

    registered = answer.json()
    assert answer.status_code == 201
    assert registered["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in registered


@pytest.mark.parametrize("uri", OTHER_URIS.split())
async def test_only_the_registered_uri_is_sent_anything(
    browser: httpx.AsyncClient, token: str, uri: str
) -> None:
    client_id = await make_client(browser)
    page = await open_page(browser, client_id)

    # Neither the first address nor that of the page, which someone may have made up.
    for answer in (
        await open_page(browser, client_id, redirect_uri=uri),
        await browser.get("/oauth/approve", params={**read_query(page), "redirect_uri": uri}),
    ):
        assert answer.status_code == 400
        assert "location" not in answer.headers and "<form" not in answer.text

    code = await get_code(browser, token, client_id)
    refused = await redeem(browser, client_id, code, redirect_uri=uri)
    assert refused.status_code == 400
    assert (await redeem(browser, client_id, code)).status_code == 200


def read_query(page: httpx.Response) -> dict[str, str]:
    return dict(parse_qsl(page.request.url.query.decode()))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ],
)
async def test_a_weak_or_foreign_request_goes_back_with_the_name_of_the_server(
    browser: httpx.AsyncClient, changes: dict[str, Any], error: str
) -> None:
    client_id = await make_client(browser)
    page = await open_page(browser, client_id)

    answer = await open_page(browser, client_id, **changes)
    query = {**read_query(page), **changes}
    made_up = await browser.get(
        "/oauth/approve", params={name: value for name, value in query.items() if value is not None}
    )

    sent = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    assert answer.headers["location"].startswith(f"{CALLBACK}?")
    assert (sent["error"], sent["state"], sent["iss"]) == (error, "s 1", "http://localhost")
    assert made_up.status_code == 400 and "<form" not in made_up.text


async def test_every_answer_names_the_server_against_mix_up(
    browser: httpx.AsyncClient, token: str
) -> None:
    client_id = await make_client(browser)
    approved = await send_form(browser, await open_page(browser, client_id), token)
    denied = await send_form(browser, await open_page(browser, client_id), "", decision="deny")

    for end in (approved, denied):
        answer = read_answer(end)
        assert (answer["state"], answer["iss"]) == ("s 1", "http://localhost")
    assert read_answer(denied)["error"] == "access_denied"
    assert "code" not in read_answer(denied)


@pytest.mark.parametrize("verifier", [None, "", hash_verifier(), VERIFIER[:-1] + "w"])
async def test_a_stolen_code_is_worthless_without_its_verifier(
    browser: httpx.AsyncClient, token: str, verifier: str | None
) -> None:
    client_id = await make_client(browser)
    code = await get_code(browser, token, client_id)
    other_id = await make_client(browser)

    assert (await redeem(browser, client_id, code, code_verifier=verifier)).status_code == 400
    assert (await redeem(browser, other_id, code)).status_code == 400
    # It is no refresh token either, which would need no verifier.
    for text in (code, code.replace("abc_", "abr_")):
        assert (await refresh(browser, client_id, text)).status_code == 400

    assert (await redeem(browser, client_id, code)).status_code == 200


async def test_a_replayed_code_ends_what_it_began(
    server: ServedApp, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "abilities")
    client, kept = [await connect(server.client, token) for _ in range(2)]

    refused = await redeem(server.client, client.id, client.code)

    assert refused.json()["error"] == "invalid_grant"
    await expect_access(server, client.access, is_open=False)
    assert (await refresh(server.client, client.id, client.refresh)).status_code == 400
    assert "a replayed code or refresh token ended a grant" in caplog.messages
    await expect_access(server, kept.access, is_open=True)


async def test_of_two_that_redeem_a_code_at_once_neither_keeps_access(
    server: ServedApp, token: str
) -> None:
    client_id = await make_client(server.client)
    code = await get_code(server.client, token, client_id)

    answers = await asyncio.gather(*(redeem(server.client, client_id, code) for _ in range(8)))

    won = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(won) <= 1
    for issued in won:
        await expect_access(server, issued["access_token"], is_open=False)


@pytest.mark.parametrize("thief_is_first", [True, False])
async def test_a_stolen_refresh_token_is_found_out_when_the_other_one_is_used(
    server: ServedApp, token: str, thief_is_first: bool
) -> None:
    client = await connect(server.client, token)
    stolen = client.refresh
    issued = (await refresh(server.client, client.id, stolen)).json()
    for _ in range(2):
        issued = (await refresh(server.client, client.id, issued["refresh_token"])).json()
    await expect_access(server, issued["access_token"], is_open=True)

    newest = issued["refresh_token"]
    gained = await refresh(server.client, client.id, newest if thief_is_first else stolen)
    refused = await refresh(server.client, client.id, newest)

    assert refused.json()["error"] == "invalid_grant"
    for answer in (issued, gained.json()):
        if "access_token" in answer:
            await expect_access(server, answer["access_token"], is_open=False)


async def test_a_flood_of_registrations_is_refused_and_pushes_nobody_out(
    server: ServedApp, token: str, apart: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MAX_CLIENTS", 5)
    client = await connect(server.client, token)
    pending = await make_client(server.client)

    answers = await asyncio.gather(*(register(server.client) for _ in range(20)))

    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(201), statuses.count(400)) == (3, 17)
    await expect_access(server, client.access, is_open=True)
    assert (await open_page(server.client, pending)).status_code == 200
    assert (await server.ask("GET", "/api/stats", token)).status_code == 200

    # After ten minutes, clients without an approval give way; after a day, they are forgotten.
    monkeypatch.setattr(grants, "APPROVAL_SECONDS", 0)
    assert (await register(server.client)).status_code == 201
    assert (await open_page(server.client, pending)).status_code == 400
    monkeypatch.setattr(grants, "UNUSED_SECONDS", 0)
    GrantFile(apart.tokens_file).prune()
    content = json.loads(GrantFile(apart.tokens_file).path.read_text())
    assert [entry["id"] for entry in content["clients"]] == [client.id]
    await expect_access(server, client.access, is_open=True)


def test_the_largest_clients_fit_into_the_file(apart: Settings) -> None:
    uris = tuple(f"https://{n}.example/".ljust(grants.MAX_URI_CHARS, "a") for n in range(5))
    file = GrantFile(apart.tokens_file)
    register_all = [
        grants.Client(
            id=str(n), name="\u540d" * 40, redirect_uris=uris, created_at=int(time.time())
        )
        for n in range(grants.MAX_CLIENTS - 1)
    ]
    with file._change() as draft:
        draft.clients.update({client.id: client for client in register_all})

    assert file.register(register_all[0].model_copy(update={"id": "last"}))


async def test_a_form_of_another_page_approves_nothing(
    browser: httpx.AsyncClient, token: str, apart: Settings
) -> None:
    client_id, other_id = await make_client(browser), await make_client(browser)
    page, other = await open_page(browser, client_id), await open_page(browser, other_id)
    cookies = dict(browser.cookies)

    # The newest page is that of the other client, to which the cookie belongs.
    assert (await send_form(browser, page, token)).status_code == 403
    assert (await send_form(browser, other, token, proof="0" * 64)).status_code == 403
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {**VISIT},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        assert (await send_form(browser, other, token, headers=headers)).status_code == 403, headers
    browser.cookies.clear()
    assert (await send_form(browser, other, token)).status_code == 403
    browser.cookies.update({"abilities-approval": ""})
    assert (await send_form(browser, other, token)).status_code == 403
    assert GrantFile(apart.tokens_file).list_grants() == []

    browser.cookies.clear()
    browser.cookies.update(cookies)
    assert (await send_form(browser, other, token)).status_code == 200


async def test_the_page_can_be_visited_but_neither_framed_nor_sent_scripts(
    browser: httpx.AsyncClient,
) -> None:
    name = "<script>alert(1)</script>\u202e\n" + "x" * 100
    client_id = (await register(browser, client_name=name)).json()["client_id"]
    page = await open_page(browser, client_id, state='"><script>')

    assert "<script" not in page.text and "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "client.example" in page.text and "\u202e" not in page.text
    policy = page.headers["content-security-policy"]
    for rule in ("default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    assert page.headers["x-frame-options"] == "DENY"
    (cookie,) = page.headers.get_list("set-cookie")
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie

    address = str(page.url)
    assert (await browser.get(address, headers=VISIT)).status_code == 200
    for changes in ({"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Mode": "no-cors"}):
        assert (await browser.get(address, headers={**VISIT, **changes})).status_code == 403


async def test_over_tls_the_cookie_belongs_to_this_host_alone(apart: Settings, token: str) -> None:
    url = "https://memory.example"
    async with serving_app(apart, oauth=True, public_url=url) as server:
        server.client.base_url = httpx.URL(url)
        page = await open_page(server.client, await make_client(server.client))
        answer = read_answer(await send_form(server.client, page, token))

    assert page.headers["set-cookie"].startswith("__Host-abilities-approval=")
    assert "; Secure" in page.headers["set-cookie"]
    assert answer["iss"] == url


@pytest.mark.parametrize(
    "pasted", ["", "abl_wrong", "x" * 100_000, "\u00e4", "abl_00000000_" + "x" * 43]
)
async def test_a_wrong_paste_is_refused_logged_and_writes_nothing(
    browser: httpx.AsyncClient,
    tokens: TokenFile,
    token: str,
    caplog: pytest.LogCaptureFixture,
    pasted: str,
) -> None:
    caplog.set_level(logging.INFO, "abilities")
    page = await open_page(browser, await make_client(browser))
    path = GrantFile(tokens.path).path
    before = path.stat().st_ino

    refused = await send_form(browser, page, pasted)
    metrics = tokens.add("ada", "metrics")[1]
    useless = await send_form(browser, refused, metrics)

    for answer in (refused, useless):
        assert answer.status_code == 403 and "not valid here" in answer.text
    assert "refused" in caplog.messages
    assert path.stat().st_ino == before
    assert read_answer(await send_form(browser, useless, token))["code"]
