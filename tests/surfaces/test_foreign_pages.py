"""Row H9: what pages of other sites can make a browser do at a server, which is nothing."""

from typing import Any

import httpx
import pytest

from abilities import Abilities, Settings
from abilities.declarations.refusals import Fault
from abilities.explorer.pages import PAGES
from abilities.helpers.tokens import TokenFile
from abilities.registry import AbilityRegistry
from tests.surfaces.test_tokens import InProcessServer, serve

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
)
VISIT = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


async def send(
    server: InProcessServer, method: str, path: str, site: str, **headers: str
) -> httpx.Response:
    content = b'{"type": "core", "content": "x"}' if method == "POST" else None
    return await server.client.request(
        method, path, headers={"Sec-Fetch-Site": site, **headers}, content=content
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "", "same-origin, none"])
async def test_h9_a_request_from_another_site_reaches_no_ability(
    roots: Settings, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reach(*_: Any, **__: Any) -> None:
        raise AssertionError("an ability was reached")

    monkeypatch.setattr(AbilityRegistry, "reply", reach)

    async with serve(roots) as server:
        for method, path in REQUESTS:
            refused = await send(server, method, path, site)
            assert (refused.status_code, refused.json()) == (403, FOREIGN), path


async def test_h9_it_is_refused_before_its_token_and_its_body(
    roots: Settings, tmp_path: Any
) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    token = TokenFile(settings.tokens_file).add("default", "read")[1]

    async with serve(settings) as server:
        for sent in (token, "abl_wrong"):
            bearer = {"Authorization": f"Bearer {sent}"}
            refused = await send(server, "GET", "/api/stats", "cross-site", **bearer)
            assert (refused.status_code, refused.json()) == (403, FOREIGN)


async def test_own_pages_typed_addresses_and_programs_are_let_in(roots: Settings) -> None:
    async with serve(roots) as server:
        for site in ("same-origin", "none"):
            assert (await send(server, "GET", "/api/stats", site)).status_code == 200

        assert (await server.ask("GET", "/api/stats", None)).status_code == 200


async def test_a_link_on_another_page_leads_to_the_explorer_and_to_nothing_else(
    roots: Settings,
) -> None:
    async with serve(roots) as server:
        for path in ("/", "/docs"):
            visited = await send(server, "GET", path, "cross-site", **VISIT)
            assert visited.status_code == 200

        for method, path in (("GET", "/api/stats"), ("POST", "/"), ("GET", "/healthz")):
            refused = await send(server, method, path, "cross-site", **VISIT)
            assert refused.status_code == 403

        framed = {**VISIT, "Sec-Fetch-Dest": "iframe"}
        assert (await send(server, "GET", "/", "cross-site", **framed)).status_code == 403


async def test_no_answer_may_be_loaded_framed_or_kept_by_other_pages(roots: Settings) -> None:
    async with serve(roots) as server:
        paths = [*PAGES, "/healthz", "/api/stats", "/api/memories/none", "/metrics", "/nothing"]
        answers = [await server.ask("GET", path, None) for path in paths]
        answers.append(await server.client.get("/", headers={"Host": "evil.example"}))

    for answer in answers:
        headers = answer.headers
        assert headers.get_list("cross-origin-resource-policy") == ["same-origin"]
        assert headers.get_list("x-frame-options") == ["DENY"]
        assert headers.get_list("x-content-type-options") == ["nosniff"]
        assert headers.get_list("cache-control") == ["no-store"]

        (policy,) = headers.get_list("content-security-policy")
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "access-control-allow-origin" not in headers


async def test_a_page_cannot_tell_a_memory_that_exists_from_one_that_does_not(
    roots: Settings,
) -> None:
    async with Abilities.open(roots) as abilities:
        await abilities.call("store_memory", {"type": "core", "key": "real", "content": "x"})

    async with serve(roots) as server:
        real, none = [
            await send(server, "GET", f"/api/memories/{key}", "cross-site", **{"X-Request-Id": "1"})
            for key in ("real", "none")
        ]

    assert (real.status_code, real.content, real.headers) == (
        none.status_code,
        none.content,
        none.headers,
    )
