"""Row H9: what pages of other sites can make a browser do at a server, which is nothing."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from abilities import Settings
from abilities.declarations.refusals import Fault
from abilities.explorer.pages import PAGES
from abilities.helpers.tokens import TokenFile
from abilities.registry import AbilityRegistry
from tests.support.serving import ServedApp, serving_app
from tests.surfaces.test_tokens import with_oauth

FOREIGN = {"error": Fault.from_reason("foreign_origin").to_payload()}
REQUESTS = (
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/explorer/app.js"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/api/abilities"),
    ("GET", "/api/memories/key"),
    ("GET", "/api/memories/key/bulk"),
    ("POST", "/api/abilities/store_memory"),
    ("POST", "/mcp"),
    ("OPTIONS", "/api/memories/key"),
    ("GET", "/authorize"),
    ("POST", "/oauth/approve"),
    ("POST", "/token"),
    ("POST", "/register"),
    ("OPTIONS", "/register"),
)
VISIT = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


async def send(
    server: ServedApp, method: str, path: str, site: str, **headers: str
) -> httpx.Response:
    content = b'{"type": "core", "content": "x"}' if method == "POST" else None
    headers = {"Sec-Fetch-Site": site, **headers}
    return await server.ask(method, path, headers=headers, content=content)


@with_oauth
async def test_h9_a_request_from_another_site_reaches_no_ability(
    roots: Settings, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    async def reach(*_: Any, **__: Any) -> None:
        raise AssertionError("an ability was reached")

    monkeypatch.setattr(AbilityRegistry, "reply", reach)

    async with serving_app(roots, **changes) as server:
        for site in ("cross-site", "same-site", "Cross-Site", "", "same-origin, none"):
            for method, path in REQUESTS:
                refused = await send(server, method, path, site)
                assert (refused.status_code, refused.json()) == (403, FOREIGN), (site, path)


async def test_h9_it_is_refused_before_token_and_body(roots: Settings, tmp_path: Path) -> None:
    tokens_file = tmp_path / "tokens.json"
    token = TokenFile(tokens_file).add("default", "read")[1]

    async with serving_app(roots, tokens_file=tokens_file) as server:
        for sent in (token, "abl_wrong"):
            bearer = {"Authorization": f"Bearer {sent}"}
            refused = await send(server, "GET", "/api/stats", "cross-site", **bearer)
            assert (refused.status_code, refused.json()) == (403, FOREIGN)


async def test_own_pages_programs_and_links_to_the_explorer_are_let_in_and_no_other_visits(
    roots: Settings,
) -> None:
    framed = {**VISIT, "Sec-Fetch-Dest": "iframe"}

    async with serving_app(roots) as server:
        assert (await server.ask("GET", "/api/stats")).status_code == 200
        for method, path, site, headers, status in (
            ("GET", "/api/stats", "same-origin", {}, 200),
            ("GET", "/api/stats", "none", {}, 200),
            ("GET", "/", "cross-site", VISIT, 200),
            ("GET", "/docs", "cross-site", VISIT, 200),
            ("GET", "/api/stats", "cross-site", VISIT, 403),
            ("POST", "/", "cross-site", VISIT, 403),
            ("GET", "/healthz", "cross-site", VISIT, 403),
            ("GET", "/", "cross-site", framed, 403),
        ):
            answer = await send(server, method, path, site, **headers)
            assert answer.status_code == status, (method, path, site, headers)


async def test_no_answer_may_be_loaded_framed_or_kept_by_other_pages(roots: Settings) -> None:
    async with serving_app(roots) as server:
        paths = [*PAGES, "/healthz", "/api/stats", "/api/memories/none", "/metrics", "/nothing"]
        answers = [await server.ask("GET", path) for path in paths]
        answers.append(await server.ask("GET", "/", headers={"Host": "evil.example"}))

    for answer in answers:
        headers = answer.headers
        assert headers.get_list("cross-origin-resource-policy") == ["same-origin"]
        assert headers.get_list("x-frame-options") == ["DENY"]
        assert headers.get_list("x-content-type-options") == ["nosniff"]
        assert headers.get_list("cache-control") == ["no-store"]

        (policy,) = headers.get_list("content-security-policy")
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "access-control-allow-origin" not in headers


async def test_a_page_cannot_tell_whether_a_memory_exists(
    roots: Settings,
) -> None:
    async with serving_app(roots) as server:
        await server.call("store_memory", type="core", key="real", content="x")
        real, none = [
            await send(server, "GET", f"/api/memories/{key}", "cross-site", **{"X-Request-Id": "1"})
            for key in ("real", "none")
        ]

    assert (real.status_code, real.content, real.headers) == (
        none.status_code,
        none.content,
        none.headers,
    )
