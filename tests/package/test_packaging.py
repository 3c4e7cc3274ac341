"""What is installed: the wheel, its packages, and the links of a checkout."""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from abilities.builtin.catalog import BUILT_IN
from tests.support.sources import ROOT, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCHEMAS = ROOT / "declarations" / "schemas"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a clean copy of what git would carry."""
    source = tmp_path_factory.mktemp("source")
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    archive = subprocess.run(
        ["tar", "-cf", "-", "-T", "-"],
        cwd=ROOT,
        input=files.stdout,
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "-xf", "-"], cwd=source, input=archive.stdout, check=True)
    target = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(target),
        str(source),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_installs_one_name_and_everything_it_needs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"abilities", "agent_abilities-0.1.0.dist-info"}
    sources = {str(Path(*module.split("."))) for module, _ in modules()}
    packed = {
        name.removesuffix(".py").removesuffix("/__init__") for name in names if name.endswith(".py")
    }
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
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(installed),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    for name in ("helpers", "declarations"):
        (project / f"{name}.py").write_text(f"WHOSE = 'the user’s {name}'\n")
    (project / "note.txt").write_text("found")
    code = """
import asyncio, json, declarations, helpers
from abilities import Abilities, Settings, schemas
from abilities.explorer.pages import PAGES
assert {"/", "/docs", "/explorer/vendor/htm-preact.js"} <= PAGES.keys()
async def main():
    async with Abilities.open(Settings()) as abilities:
        return await abilities.call("file_read_bulk", {"paths": ["note.txt"]})
answer = asyncio.run(main())
print(json.dumps([__import__("abilities").__file__, helpers.WHOSE, answer["results"][0]["data"]["content"],
                  len(list(schemas.find_schema_directory().glob("*.json")))]))
"""
    environment = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == [
        str(installed / "abilities" / "__init__.py"),
        "the user’s helpers",
        "found",
        10,
    ]


def test_every_package_folder_is_installed() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    folders = {m for m, path in modules() if path.name == "__init__.py"}
    data = {
        "abilities.declarations.schemas",
        "abilities.explorer.static",
        "abilities.explorer.static.vendor",
    }
    assert listed == folders | data
    assert (SCHEMAS / "file_read_bulk.json").exists()


def test_the_links_show_a_checkout_the_installed_tree() -> None:
    for name in ("helpers", "declarations"):
        assert (ROOT / "abilities" / name).readlink() == Path("..") / name
