"""The setting `tools`: each caller is offered its own list, and the rest is as if never there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from abilities import Abilities, AbilityError, Settings
from abilities.adapters.langchain import load_tools
from abilities.builtin.index import PROFILES
from abilities.cli.main import main
from abilities.declarations.refusals import Fault
from abilities.helpers.tokens import TokenFile
from abilities.server.app import create_app
from tests.support.catalog import BUILT_IN
from tests.support.piped import open_piped
from tests.support.serving import serving
from tests.support.surfaces import SURFACES, environment, run_lifespan

NAMES = [ability.name for ability in BUILT_IN]
CHOICES = {
    "all": NAMES,
    **{profile: [name for name in NAMES if name in PROFILES[profile]] for profile in PROFILES},
    "files,recall": [name for name in NAMES if name in (*PROFILES["files"], "recall")],
    "memory_get": ["memory_get"],
}
"""The names that values of the setting stand for."""


def choose(settings: Settings, tools: str, **more: Any) -> Settings:
    return Settings(**{**settings.model_dump(exclude_unset=True), "tools": tools, **more})


def name_of(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["name"] for tool in tools]


@pytest.mark.parametrize("tools", CHOICES)
async def test_every_surface_offers_what_was_chosen(tools: str, roots: Settings) -> None:
    settings = choose(roots, tools)
    lists = {"langchain": [tool.name for tool in load_tools(settings)]}

    async with Abilities.open(settings) as abilities:
        lists["python"] = [ability.name for ability in abilities.offered]
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            lists["http"] = name_of((await client.get("/api/abilities")).json())
            paths = (await client.get("/openapi.json")).json()["paths"]
            prefix = "/api/abilities/"
            lists["openapi"] = [path[len(prefix) :] for path in paths if path.startswith(prefix)]

    async with open_piped(settings) as piped:
        await piped.request(1, "tools/list")
        lists["mcp"] = name_of((await piped.read())["result"]["tools"])

    listed = CliRunner().invoke(main, ["list", "--json"], env=environment(settings))
    lists["command line"] = name_of(json.loads(listed.stdout))

    assert lists == dict.fromkeys(lists, CHOICES[tools])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "call", [pytest.param(SURFACES[name], id=name) for name in SURFACES if "mcp" not in name]
)
async def test_what_is_not_chosen_is_refused_as_what_is_disabled(
    call: Any, roots: Settings
) -> None:
    answers: list[object] = []

    for settings in (
        choose(roots, "memory_get,store_memory"),
        roots.model_copy(
            update={"disabled": tuple({*NAMES} - {"memory_get", "store_memory"})},
        ),
    ):
        try:
            answers.append(await call(settings, "memory_get", {"key": "k", "bulkRead": True}))
            answers.append(await call(settings, "file_list", {}))
        except (KeyError, AssertionError) as error:  # not loaded; 404; exit code 2
            answers.append(str(error).partition("\n")[0])

    assert answers[:2] == answers[2:]
    disabled = Fault.from_reason("disabled", field="bulkRead").to_payload()
    assert answers[0] == {"error": disabled}


@pytest.mark.parametrize("command", ["call", "describe"])
def test_the_command_line_names_the_setting_that_leaves_an_ability_out(
    command: str, roots: Settings
) -> None:
    lean = choose(roots, "lean")

    refused = CliRunner().invoke(main, [command, "store_memory"], env=environment(lean))

    assert refused.exit_code == 2
    assert "tools: store_memory is not offered, only lean." in refused.stderr
    assert "It is set by ABILITIES_TOOLS." in refused.stderr


@pytest.mark.parametrize("tools", ["recal", "lean,recal", "leen"])
def test_an_unknown_name_is_an_error_that_suggests(
    tools: str, roots: Settings, tmp_path: Path
) -> None:
    settings = choose(roots, tools)
    meant = "lean" if tools == "leen" else "recall"
    said = f"is neither a profile nor an ability; did you mean '{meant}'?"

    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        load_tools(settings)

    for command in (["list"], ["mcp"], ["call", "recall"], ["serve", "--port", "0"]):
        result = CliRunner().invoke(main, command, env=environment(settings))
        assert result.exit_code == 2
        assert said in result.stderr

    command = ["token", "add", "--scope", "read", "--tools", tools]
    result = CliRunner().invoke(main, command, env=environment(choose(roots, "all")))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


def test_a_name_without_a_likeness_is_answered_with_the_choices(roots: Settings) -> None:
    with pytest.raises(ValueError, match="choose from all, lean, files, memory, file_read_bulk"):
        load_tools(choose(roots, "xyzzy"))

    with pytest.raises(ValidationError, match="must name a profile or an ability"):
        choose(roots, " , ")


def test_what_a_profile_names_need_not_be_registered() -> None:
    assert "read" in PROFILES["lean"]
    assert "purge" not in str(PROFILES["lean"])
    assert {"delete_memory", "update_memory"}.isdisjoint(PROFILES["lean"])


async def test_a_view_can_only_be_narrower(roots: Settings) -> None:
    async with Abilities.open(choose(roots, "memory")) as abilities:
        lean = abilities.for_caller("x", tools=("lean", "file_read_bulk"))
        again = lean.for_caller("y", tools=("all",)).for_namespace("other")
        nothing = lean.for_caller("z", tools=("no_longer_there",))

        for view in (lean, again):
            assert [ability.name for ability in view.registry] == ["recall", "remember"]
            with pytest.raises(AbilityError) as caught:
                await view.call("store_memory", {"type": "core", "content": "x"})
            assert caught.value.fault.reason == "unknown_ability"

        assert len(nothing.offered) == 0


async def test_each_token_has_its_own_list_on_http_and_mcp(roots: Settings, tmp_path: Path) -> None:
    settings = choose(roots, "all", tokens_file=tmp_path / "tokens.json")
    file = TokenFile(settings.tokens_file)
    tokens = {
        "lean": file.add("default", "write", tools=("lean",)),
        "files": file.add("default", "read", tools=("files", "memory_get")),
        "all": file.add("default", "write"),
    }
    expected = {
        "lean": ["file_list", "read", "recall", "remember"],
        "files": ["file_read_bulk", "memory_get", "file_list"],
        "all": NAMES,
    }

    async with (
        Abilities.open(settings) as abilities,
        run_lifespan(create_app(abilities)) as app,
    ):
        for name, (_, token) in tokens.items():
            headers = {"Authorization": f"Bearer {token}"}
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers
            ) as client:
                listed = name_of((await client.get("/api/abilities")).json())
                gone = await client.post("/api/abilities/query_memories", json={})
                never = await client.post("/api/abilities/query_memoriez", json={})
                address = await client.get("/api/memories")
                nowhere = await client.get("/api/nowhere")

            sender = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), headers=headers)
            async with (
                sender,
                Client(
                    streamable_http_client("http://localhost/mcp", http_client=sender)
                ) as mcp_client,
            ):
                tools = [tool.name for tool in (await mcp_client.list_tools()).tools]
                templates = (await mcp_client.list_resource_templates()).resource_templates
                if name != "all":
                    with pytest.raises(MCPError, match="Unknown tool"):
                        await mcp_client.call_tool("query_memories", {})

            assert listed == tools == expected[name]
            assert len(templates) == ("memory_get" in expected[name])
            if name == "all":
                assert (gone.status_code, address.status_code) == (200, 200)
                continue

            assert gone.status_code == never.status_code == 404
            assert gone.json()["error"]["reason"] == "unknown_ability"
            assert (address.status_code, address.json()) == (404, nowhere.json())


def test_the_command_makes_tokens_with_tools(roots: Settings, tmp_path: Path) -> None:
    settings = choose(roots, "all", tokens_file=tmp_path / "tokens.json")

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["token", *arguments], env=environment(settings))

    added = run("add", "--scope", "write", "--tools", "lean, memory_get", "--label", "Ada")
    plain = run("add", "--scope", "read")

    assert (added.exit_code, plain.exit_code) == (0, 0)
    assert "with the tools lean, memory_get" in added.stderr
    token = TokenFile(settings.tokens_file).find(added.stdout.strip())
    assert token is not None
    assert token.tools == ("lean", "memory_get")
    assert run("list").stdout.splitlines()[1].endswith("Ada    lean,memory_get")
    assert json.loads(run("list", "--json").stdout)[0]["tools"] == ["lean", "memory_get"]
    assert run("add", "--scope", "metrics", "--tools", "lean").exit_code == 2

    # Versions that know no tools can read the tokens that have none.
    assert ["tools" in entry for entry in json.loads(settings.tokens_file.read_text())] == [
        True,
        False,
    ]


async def test_the_options_of_mcp_and_serve_win_over_the_settings(
    roots: Settings, tmp_path: Path
) -> None:
    settings = choose(roots, "memory")
    command = [sys.executable, "-m", "abilities", "mcp", "--tools", "lean"]
    variables = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **environment(settings)}
    server = StdioServerParameters(command=command[0], args=command[1:], env=variables)

    async with Client(stdio_client(server)) as client:
        over_stdio = [tool.name for tool in (await client.list_tools()).tools]

    with serving(settings, tmp_path, "--tools", "files") as served:
        over_http = name_of(httpx.get(f"{served.address}/api/abilities").json())

    assert over_stdio == CHOICES["lean"]
    assert over_http == CHOICES["files"]


def test_doctor_names_the_profile_and_what_is_no_name(roots: Settings, tmp_path: Path) -> None:
    roots = choose(roots, "all", tokens_file=tmp_path / "tokens.json")

    def diagnose(tools: str) -> str:
        settings = choose(roots, tools)
        return CliRunner().invoke(main, ["doctor"], env=environment(settings)).stdout

    assert f"{len(CHOICES['lean'])} are offered; tools: lean" in diagnose("lean")
    assert f"{len(NAMES)} are offered" in diagnose("all")
    assert "did you mean 'recall'?" in diagnose("recal")
    assert "tools:" not in diagnose("all")

    token, _ = TokenFile(roots.tokens_file).add("default", "read", tools=("memory_get", "gone"))
    mistake = "'gone' is neither a profile nor an ability"
    assert f"tools of token {token.id}: {mistake}" in diagnose("all")


def test_the_environment_and_the_file_choose(tmp_path: Path) -> None:
    file = tmp_path / "abilities.toml"
    file.write_text('tools = ["lean", "memory_get"]\n')
    variables = {"ABILITIES_CONFIG": str(file), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    variables["ABILITIES_STORE_URL"] = f"sqlite:///{tmp_path}/memory.db"

    def list_names(**more: str) -> list[str]:
        process = subprocess.run(
            [sys.executable, "-m", "abilities", "list", "--json"],
            env={**variables, **more},
            capture_output=True,
            check=True,
        )
        return name_of(json.loads(process.stdout))

    assert list_names() == [name for name in NAMES if name in (*PROFILES["lean"], "memory_get")]
    assert list_names(ABILITIES_TOOLS="recall, remember") == ["recall", "remember"]
