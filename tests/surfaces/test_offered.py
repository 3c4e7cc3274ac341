"""`tools` and `disabled`: what is not offered is as if it had never been; the profile `lean`."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError

from abilities import Abilities, AbilityError, Settings, parse_text
from abilities.adapters.langchain import load_tools
from abilities.adapters.mcp import create_server
from abilities.builtin.index import PROFILES
from abilities.declarations.refusals import Fault, Refused
from abilities.helpers.tokens import TokenFile
from tests.support.catalog import BUILT_IN
from tests.support.piped import HELLO, build_request, open_piped
from tests.support.serving import serving, serving_app
from tests.support.surfaces import SURFACES, environment, run, with_changes

NAMES = [ability.name for ability in BUILT_IN]
CHOICES = {
    "all": NAMES,
    **{profile: [name for name in NAMES if name in PROFILES[profile]] for profile in PROFILES},
    "files,recall": [name for name in NAMES if name in (*PROFILES["files"], "recall")],
    "memory_get": ["memory_get"],
}
"""The names that values of the setting stand for."""

WITHOUT_MCP = [name for name in SURFACES if "mcp" not in name]
"""The surfaces on which an ability that is not offered can be called."""

MEMORY_ID = "00000000-0000-4000-8000-000000000000"
ROUTES = {
    "bulk_read_memory": ("GET", "/api/memories/k/bulk"),
    "memory_get": ("GET", "/api/memories/k"),
    "query_memories": ("GET", "/api/memories"),
    "store_memory": ("POST", "/api/memories"),
    "update_memory": ("PATCH", f"/api/memories/by-id/{MEMORY_ID}"),
    "delete_memory": ("DELETE", f"/api/memories/by-id/{MEMORY_ID}"),
    "get_memory_stats": ("GET", "/api/stats"),
}


def name_of(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["name"] for tool in tools]


@pytest.mark.parametrize("tools", CHOICES)
async def test_every_surface_offers_what_was_chosen(tools: str, roots: Settings) -> None:
    settings = with_changes(roots, tools=tools)
    lists = {"langchain": [tool.name for tool in load_tools(settings)]}

    async with serving_app(settings) as server:
        lists["python"] = [ability.name for ability in server.abilities.offered]
        lists["http"] = name_of((await server.ask("GET", "/api/abilities")).json())
        paths = (await server.ask("GET", "/openapi.json")).json()["paths"]
        prefix = "/api/abilities/"
        lists["openapi"] = [path[len(prefix) :] for path in paths if path.startswith(prefix)]

    async with open_piped(settings) as piped:
        await piped.request(1, "tools/list")
        lists["mcp"] = name_of((await piped.read())["result"]["tools"])

    lists["command line"] = name_of(json.loads(run(settings, "list", "--json").stdout))
    assert lists == dict.fromkeys(lists, CHOICES[tools])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("index", range(len(WITHOUT_MCP)), ids="surface {}".format)
async def test_what_is_not_chosen_is_refused_like_the_disabled(index: int, roots: Settings) -> None:
    surface = WITHOUT_MCP[index]
    answers: list[object] = []

    for settings in (
        with_changes(roots, tools="memory_get,store_memory"),
        with_changes(roots, disabled=[*({*NAMES} - {"memory_get", "store_memory"})]),
    ):
        for name, arguments in (("memory_get", {"key": "k", "bulkRead": True}), ("file_list", {})):
            try:
                answers.append(await SURFACES[surface](settings, name, arguments))
            except (KeyError, AssertionError) as error:  # not loaded; 404; exit code 2
                answers.append(str(error).partition("\n")[0])

    assert answers[:2] == answers[2:]
    disabled = Fault.from_refusal(Refused("disabled", "bulkRead")).to_payload()
    assert answers[0] == {"error": disabled}


@pytest.mark.parametrize("surface", SURFACES)
async def test_without_the_bulk_ability_memory_get_reads_one_memory_and_no_more(
    surface: str, roots: Settings
) -> None:
    settings = with_changes(roots, disabled="bulk_read_memory")
    refused = {"error": Fault.from_refusal(Refused("disabled", "bulkRead")).to_payload()}

    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        return await SURFACES[surface](settings, name, arguments)

    await call("store_memory", type="core", key="k", content="x", links=[{"key": "other"}])

    assert (await call("memory_get", key="k"))["success"]
    assert (await call("memory_get", key="k", bulkRead=False, depth=2))["success"]
    assert await call("memory_get", key="k", bulkRead=True) == refused
    assert await call("memory_get", key="k", bulk_read=True) == refused


async def test_over_http_a_disabled_ability_is_an_unknown_one(roots: Settings) -> None:
    async with serving_app(with_changes(roots, disabled=[*ROUTES])) as server:
        addresses = (await server.ask("GET", "/openapi.json")).json()["paths"]
        for name, (method, address) in ROUTES.items():
            for verb in ("GET", "POST"):
                gone = await server.ask(verb, f"/api/abilities/{name}", json={})
                never = await server.ask(verb, f"/api/abilities/{name}x", json={})
                assert (gone.status_code, gone.json()) == (never.status_code, never.json())

            answer = await server.ask(method, address, json={})
            assert answer.status_code in (404, 405)
            assert answer.json()["error"]["reason"] == "unknown_address"
            template = address.replace("/k", "/{key}").replace(MEMORY_ID, "{id}")
            assert method.lower() not in addresses.get(template, {})
            assert f"/api/abilities/{name}" not in addresses


async def test_elsewhere_disabled_and_unknown_abilities_are_refused_alike(roots: Settings) -> None:
    settings = with_changes(roots, disabled="bulk_read_memory")
    refusals: list[list[str]] = []

    for name in ("bulk_read_memory", "never_there_at_all"):
        async with Abilities.open(settings) as abilities:
            with pytest.raises(AbilityError) as from_python:
                await abilities.call(name, {"key": "k"})
            async with Client(create_server(abilities)) as client:
                with pytest.raises(MCPError) as from_mcp:
                    await client.call_tool(name, {"key": "k"})

        with pytest.raises(KeyError) as from_langchain:
            load_tools(settings, only=[name])

        said = [str(from_python.value), str(from_mcp.value), str(from_langchain.value)]
        for command in ("describe", "call"):
            refused = await asyncio.to_thread(run, settings, command, name)
            assert refused.exit_code == 2
            said.append(refused.stderr)
        refusals.append([text.replace(name, "NAME") for text in said])

    assert refusals[0] == refusals[1]


def test_an_unknown_name_is_an_error_that_suggests(roots: Settings) -> None:
    for tools, words in {
        "recal": "did you mean 'recall'?",
        "lean,recal": "did you mean 'recall'?",
        "leen": "did you mean 'lean'?",
        "xyzzy": "choose from all, lean, files, memory, file_read_bulk",
    }.items():
        with pytest.raises(ValueError, match="neither a profile nor an ability") as refused:
            load_tools(with_changes(roots, tools=tools))
        assert words in str(refused.value)

    refused_call = run(with_changes(roots, tools="lean"), "call", "store_memory")
    assert "tools: store_memory is not offered, only lean." in refused_call.stderr


async def test_a_view_can_only_be_narrower(roots: Settings) -> None:
    async with Abilities.open(with_changes(roots, tools="memory")) as abilities:
        lean = abilities.for_caller("x", tools=("lean", "file_read_bulk"))
        again = lean.for_caller("y", tools=("all",)).for_namespace("other")
        nothing = lean.for_caller("z", tools=("no_longer_there",))

        for view in (lean, again):
            assert [ability.name for ability in view.registry] == ["recall", "remember"]
            with pytest.raises(AbilityError) as caught:
                await view.call("store_memory", {"type": "core", "content": "x"})
            assert caught.value.fault.reason == "unknown_ability"

        assert len(nothing.offered) == 0


async def test_each_token_has_its_own_list_on_http_and_mcp(
    private: Settings, tokens: TokenFile
) -> None:
    chosen = ["file_read_bulk", "memory_get", "file_list"]
    lists = {
        tokens.add("default", "write", tools=("lean",))[1]: CHOICES["lean"],
        tokens.add("default", "read", tools=("files", "memory_get"))[1]: chosen,
        tokens.add("default", "write")[1]: NAMES,
    }

    async with serving_app(private) as server:
        for token, expected in lists.items():
            listed = name_of((await server.ask("GET", "/api/abilities", token)).json())
            gone = await server.call("query_memories", token)
            address = await server.ask("GET", "/api/memories", token)
            async with server.mcp(token) as client:
                tools = [tool.name for tool in (await client.list_tools()).tools]
                templates = (await client.list_resource_templates()).resource_templates
                if expected != NAMES:
                    with pytest.raises(MCPError, match="Unknown tool"):
                        await client.call_tool("query_memories", {})

            assert listed == tools == expected
            assert len(templates) == ("memory_get" in expected)
            if expected == NAMES:
                assert (gone.status_code, address.status_code) == (200, 200)
                continue

            never = await server.call("query_memoriez", token)
            nowhere = await server.ask("GET", "/api/nowhere", token)
            assert gone.status_code == never.status_code == 404
            assert gone.json()["error"]["reason"] == "unknown_ability"
            assert (address.status_code, address.json()) == (404, nowhere.json())


def test_the_command_makes_tokens_with_tools(private: Settings, tokens: TokenFile) -> None:
    settings = with_changes(private, tools="all")
    add = ("token", "add", "--scope")

    added = run(settings, *add, "write", "--tools", "lean, memory_get", "--label", "Ada")
    assert added.exit_code == run(settings, *add, "read").exit_code == 0
    token = tokens.find(added.stdout.strip())
    assert token is not None and token.tools == ("lean", "memory_get")
    assert run(settings, "token", "list").stdout.splitlines()[1].endswith("Ada    lean,memory_get")
    listed = json.loads(run(settings, "token", "list", "--json").stdout)
    assert listed[0]["tools"] == ["lean", "memory_get"]
    assert run(settings, *add, "metrics", "--tools", "lean").exit_code == 2

    # Versions that know no tools can read the tokens that have none.
    entries = json.loads(tokens.path.read_text())
    assert ["tools" in entry for entry in entries] == [True, False]

    gone, _ = tokens.add("default", "read", tools=("memory_get", "gone"))
    mistake = "'gone' is neither a profile nor an ability"
    doctor = run(with_changes(settings, tools="lean"), "doctor").stdout
    assert f"{len(CHOICES['lean'])} are offered; tools: lean" in doctor
    assert f"tools of token {gone.id}: {mistake}" in doctor


def test_options_of_mcp_and_serve_win_over_the_settings(roots: Settings, tmp_path: Path) -> None:
    settings = with_changes(roots, tools="memory")
    with serving(settings, tmp_path, "--tools", "files") as served:
        over_http = name_of(httpx.get(f"{served.address}/api/abilities").json())

    lines = build_request(1, "initialize", HELLO) + b"\n" + build_request(2, "tools/list") + b"\n"
    command = [sys.executable, "-m", "abilities", "mcp", "--tools", "lean"]
    variables = {"HOME": str(tmp_path), **environment(settings)}
    done = subprocess.run(command, input=lines, env=variables, capture_output=True, check=True)
    over_stdio = name_of(json.loads(done.stdout.splitlines()[1])["result"]["tools"])

    assert (over_http, over_stdio) == (CHOICES["files"], CHOICES["lean"])


NAMED = re.compile(r"[a-z]+(?:_[a-z]+)+")
"""What could be the name of an ability of several words."""


@pytest.fixture
async def lean(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(with_changes(roots, tools="lean", detail=None)) as abilities:
        yield abilities


async def test_answers_say_what_is_archived_or_deleted_and_a_change_is_undone(
    lean: Abilities,
) -> None:
    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        """Return the record of the one item of a call, as a model reads it."""
        reply = await lean.reply(name, arguments, for_model=True)
        assert not reply.failed, reply.text
        record: dict[str, Any]
        (record,) = parse_text(reply.text)["results"]
        return record

    async def read(**item: Any) -> dict[str, Any]:
        return await call("read", items=[item])

    async def change(**operation: Any) -> dict[str, Any]:
        return await call("remember", operations=[operation])

    first = await change(op="store", type="core", key="tea", content="Green tea.")
    archived = await change(op="archive", key="tea")
    updated = await change(op="update", key="tea", summary="A drink.")
    present = await read(memory="tea")
    walked = await read(memory="tea", depth=1)
    found = await call("recall", queries=["tea"], archived=True)
    deleted = await change(op="delete", key="tea", permanent=True)

    assert archived["archived"] and updated["archived"] and present["archived"]
    assert walked["items"][0]["archived"] and found["memories"][0]["archived"]
    assert deleted["deleted"] and "archived" not in deleted

    for version in ({}, {"version": first["version"]}):
        restored = await change(op="restore", id=first["id"], **version)
        assert first["version"] < deleted["version"] < restored["version"]
        present = await read(memory="tea")
        assert present["content"] == "Green tea." and ("archived" in present) == (not version)


@pytest.mark.parametrize("structured", [False, True])
async def test_a_model_reads_of_offered_abilities_only(structured: bool, roots: Settings) -> None:
    for tools in (*PROFILES, *NAMES):
        settings = with_changes(roots, tools=(tools,), structured=structured)

        async with (
            Abilities.open(settings) as abilities,
            Client(create_server(abilities)) as client,
        ):
            listed = (await client.list_tools()).tools
            texts = [client.instructions or "", *(tool.model_dump_json() for tool in listed)]
            for prompt in (await client.list_prompts()).prompts:
                texts.append(prompt.model_dump_json())
                asked = {"recall": {"question": "q"}, "remember": {}}.get(prompt.name)
                if asked is not None:
                    filled = await client.get_prompt(prompt.name, asked)
                    texts.append(filled.model_dump_json())

        named = {name for text in texts for name in NAMED.findall(text)}
        assert named.intersection(NAMES) <= {tool.name for tool in listed}, tools
