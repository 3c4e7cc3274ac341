"""The house: which way arrows run, what is public, what is declared, and what is installed."""

import ast
import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import abilities
from abilities import Settings, declare
from abilities.adapters.langchain import load_tools
from abilities.application import BUILT_IN

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCHEMAS = ROOT / "declarations" / "schemas"

LEAVES = ("confine", "text", "budget", "paths", "lines", "window", "workers", "traversal")
"""Helpers that know of declarations nothing but the base."""


def modules() -> Iterator[tuple[str, Path]]:
    for folder, prefix in (
        ("abilities", "abilities"),
        ("helpers", "abilities.helpers"),
        ("declarations", "abilities.declarations"),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT / folder)
            if folder != "abilities" or inside.parts[0] not in ("helpers", "declarations"):
                yield ".".join([prefix, *inside.with_suffix("").parts]).removesuffix(".__init__"), path


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "abilities"}
    return {name for name in found if name.split(".")[0] in ("abilities", "helpers", "declarations")}


def allowed(module: str, imported: str) -> bool:
    """Whether one of our modules may know another."""
    if module.startswith("abilities.declarations"):
        return imported.startswith("abilities.declarations")
    if module.startswith("abilities.helpers"):
        leaf = module.rpartition(".")[2] in LEAVES
        return imported.startswith("abilities.helpers") or imported.startswith(
            "abilities.declarations.base" if leaf else "abilities.declarations"
        )
    if module.startswith(("abilities.server", "abilities.explorer")):
        return not imported.startswith(("abilities.cli", "abilities.commands"))
    if module.startswith("abilities.adapters"):
        return imported not in {f"abilities.{ability.name}" for ability in BUILT_IN}
    surfaces = tuple(f"abilities.{name}" for name in ("adapters", "cli", "commands", "demo", "explorer", "table"))
    commands = module in ("abilities.cli", "abilities.demo", "abilities.__main__") or module.startswith(surfaces[2])
    return commands or not imported.startswith(surfaces)


def test_arrows_run_one_way() -> None:
    seen = 0
    for module, path in modules():
        for imported in imports(path):
            assert allowed(module, imported), f"{module} must not know {imported}"
            seen += 1
    assert seen > 60


def test_memory_is_reached_through_its_helper_alone() -> None:
    knows = {module for module, path in modules() if "abilities.helpers.memory_helper" in imports(path)}
    assert knows == {
        "abilities.ability",
        "abilities.application",
        "abilities.explorer.views",
        "abilities.memory_read_bulk",
        "abilities.settings",
    }
    stores = {module for module, path in modules() if any("helpers.stores" in name for name in imports(path))}
    assert {m for m in stores if not m.startswith("abilities.helpers")} <= {
        "abilities.application",  # hands the store on
        "abilities.stores",  # chooses the store
        "abilities.commands.stores",  # looks after the store
        "abilities.memories",  # says what to query
    }


def test_the_public_names_are_exactly_these() -> None:
    names = ["Abilities", "Ability", "AbilityError", "AbilityRegistry", "Settings", "ability", "render"]
    assert abilities.__all__ == names == sorted(names)
    assert all(hasattr(abilities, name) for name in names)


def test_every_module_and_public_thing_is_documented() -> None:
    for module, path in modules():
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), f"{module} says nothing about itself"


def test_modules_and_functions_stay_small() -> None:
    lengths = []
    for _, path in modules():
        text = path.read_text()
        assert text.count("\n") <= 400, path
        functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        lengths += [(function.end_lineno or 0) - function.lineno + 1 for function in functions]
    lengths.sort()
    assert lengths[len(lengths) // 2] <= 12
    assert lengths[int(len(lengths) * 0.9)] <= 34


def test_every_package_folder_is_installed() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    folders = {m for m, path in modules() if path.name == "__init__.py"}
    assert listed == {*folders, "abilities.declarations.schemas"}
    assert (SCHEMAS / "file_read_bulk.json").exists()


def test_the_links_show_a_checkout_the_installed_tree() -> None:
    for name in ("helpers", "declarations"):
        assert (ROOT / "abilities" / name).readlink() == Path("..") / name


def test_importing_the_package_loads_no_surface() -> None:
    surfaces = ("langchain_core", "mcp", "fastapi", "rich", "click", "toon_format")
    code = f"import sys, abilities; print([m for m in {surfaces} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_declarations_on_disk_are_those_of_the_code() -> None:
    assert {path.name for path in SCHEMAS.iterdir()} == {f"{ability.name}.json" for ability in BUILT_IN}
    for ability in BUILT_IN:
        assert (SCHEMAS / f"{ability.name}.json").read_text() == declare.as_json(ability), (
            "abilities declarations --write"
        )


def test_a_tool_name_leads_to_its_ability_everywhere() -> None:
    names = [
        "file_read_bulk",
        "memory_read_bulk",
        "bulk_read_memory",
        "memory_get",
        "store_memory",
        "query_memories",
        "update_memory",
        "delete_memory",
        "get_memory_stats",
        "file_list",
    ]
    assert [ability.name for ability in BUILT_IN] == names
    assert [tool.name for tool in load_tools(Settings())] == names
    for ability in BUILT_IN:
        declared = json.loads((SCHEMAS / f"{ability.name}.json").read_text())
        assert declared["name"] == declared["mcp"]["name"] == declared["anthropic"]["name"] == ability.name
        assert declared["openai"]["function"]["name"] == ability.name


def test_reading_abilities_are_marked_read_only_and_idempotent() -> None:
    writing = {"store_memory", "update_memory", "delete_memory"}
    for ability in BUILT_IN:
        assert ability.read_only == (ability.name not in writing)
        if ability.name in writing:
            continue
        assert declare.annotations(ability) == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }


def test_published_schemas_are_plain_and_bounded() -> None:
    for ability in BUILT_IN:
        schema = declare.input_schema(ability)
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            assert {"anyOf", "oneOf", "$ref", "title"}.isdisjoint(field), name
            assert field["description"]
        if "bulk" not in ability.name or ability.name == "bulk_read_memory":
            continue
        items, limit = schema["properties"].values()
        assert (items["type"], items["minItems"], items["maxItems"]) == ("array", 1, 25)
        assert (limit["type"], limit["minimum"], limit["maximum"], limit["default"]) == ("integer", 1, 100_000, 20_000)


def test_schemas_hold_no_reference_no_null_and_no_validators_leftover() -> None:
    for ability in BUILT_IN:
        text = declare.as_json(ability)
        assert not [
            word for word in ('"null"', '"ge"', '"$ref"', '"$defs"', '"default": null', "x-exact") if word in text
        ]


def test_descriptions_fit_where_clients_cut_them_and_begin_differently() -> None:
    firsts = [ability.description.split(";")[0] for ability in BUILT_IN]
    assert len(set(firsts)) == len(BUILT_IN)
    assert all(len(ability.description) <= 2_000 for ability in BUILT_IN)


REQUIREMENTS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text())["requirement"]


def test_every_requirement_names_tests_that_exist() -> None:
    assert len({r["id"] for r in REQUIREMENTS}) == len(REQUIREMENTS) >= 45
    for requirement in REQUIREMENTS:
        assert requirement["text"] and requirement["tests"], requirement["id"]
        for test in requirement["tests"]:
            file, _, name = test.partition("::")
            names = {
                n.name
                for n in ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
                if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert name in names, f"{requirement['id']}: {test}"


def test_every_test_of_the_specifications_plan_is_named_by_a_requirement() -> None:
    tree = ast.parse((ROOT / "tests" / "test_tour.py").read_text())
    planned = {n.name for n in tree.body if isinstance(n, ast.AsyncFunctionDef)} - {"test_reading_changes_nothing"}
    named = {test.partition("::")[2] for r in REQUIREMENTS for test in r["tests"] if test.startswith("test_tour")}
    assert planned == named


def test_rows_b_and_s_of_the_acceptance_table_each_have_a_test() -> None:
    rows = {f"B{n}" for n in range(1, 11)} | {f"S{n}" for n in range(1, 15)} - {"S13"}
    text = "".join(path.read_text() for path in (ROOT / "tests").glob("*.py") if path.name != "test_house.py")
    for row in rows:
        assert f'"{row}' in text or f"test_{row.lower()}_" in text, row
    assert "test_a_cancelled_caller_does_not_stop_a_begun_write" in text  # S13


def test_rows_f_and_m_of_the_acceptance_table_each_have_a_test() -> None:
    rows = (
        {f"F{n}" for n in range(1, 38)}
        | {"F18a", "F18b", "F18c", "F31b", "F32b", "F32c"}
        | {f"M{n}" for n in range(1, 6)}
    )
    text = "".join(path.read_text() for path in (ROOT / "tests").glob("*.py") if path.name != "test_house.py")
    elsewhere = {"F21": "test_confinement.py", "F33": "test_properties.py", "F36": "test_workers.py"}
    for row in rows - elsewhere.keys():
        assert f'"{row}' in text or f"test_{row.lower()}_" in text, row
    assert all((ROOT / "tests" / file).exists() for file in elsewhere.values())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a clean copy of what git would carry."""
    source = tmp_path_factory.mktemp("source")
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    archive = subprocess.run(
        ["tar", "-cf", "-", "-T", "-"], cwd=ROOT, input=files.stdout, capture_output=True, check=True
    )
    subprocess.run(["tar", "-xf", "-"], cwd=source, input=archive.stdout, check=True)
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(target), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_installs_one_name_and_everything_it_needs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"abilities", "agent_abilities-0.1.0.dist-info"}
    sources = {str(Path(*module.split("."))) for module, _ in modules()}
    packed = {name.removesuffix(".py").removesuffix("/__init__") for name in names if name.endswith(".py")}
    assert packed == sources
    assert "abilities/py.typed" in names
    assert {f"abilities/declarations/schemas/{a.name}.json" for a in BUILT_IN} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    static = ROOT / "abilities" / "explorer" / "static"
    shown = {str(path.relative_to(ROOT)) for path in static.rglob("*") if path.is_file()}
    assert len(shown) > 20 and shown <= set(names)  # the page, its libraries and their licences


def test_an_installed_wheel_works_beside_a_users_own_helpers(wheel: Path, tmp_path: Path) -> None:
    installed, project = tmp_path / "installed", tmp_path / "project"
    project.mkdir()
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(installed), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    for name in ("helpers", "declarations"):
        (project / f"{name}.py").write_text(f"WHOSE = 'the user’s {name}'\n")
    (project / "note.txt").write_text("found")
    code = """
import asyncio, json, declarations, helpers
from abilities import Abilities, Settings, declare
from abilities.explorer.pages import PAGES
assert {"/", "/docs", "/explorer/vendor/htm-preact.js"} <= PAGES.keys()
async def main():
    async with Abilities.open(Settings()) as abilities:
        return await abilities.call("file_read_bulk", {"paths": ["note.txt"]})
answer = asyncio.run(main())
print(json.dumps([__import__("abilities").__file__, helpers.WHOSE, answer["results"][0]["data"]["content"],
                  len(list(declare.schema_directory().glob("*.json")))]))
"""
    environment = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=project, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == [str(installed / "abilities" / "__init__.py"), "the user’s helpers", "found", 10]
