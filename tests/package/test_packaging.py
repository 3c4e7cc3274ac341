"""What is installed: the wheel, its packages, and the links of a checkout."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.package.test_publishing import list_licenses
from tests.support.catalog import BUILT_IN
from tests.support.sources import ROOT, list_modules, list_sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
SCHEMAS = ROOT / "declarations" / "schemas"


LINKS = {"abilities/declarations", "abilities/helpers"}
"""What a checkout has beyond a source distribution: the second way to the same modules."""


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that is built from it."""
    source = tmp_path_factory.mktemp("source")
    for name in list_sources():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)

    target = tmp_path_factory.mktemp("distributions")
    build = [sys.executable, "-W", "error", "-m", "build", "--outdir", str(target), str(source)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(build, check=True, capture_output=True, text=True, env=environment)
    printed = done.stdout + done.stderr
    assert not [line for line in printed.splitlines() if "warning" in line.lower()]
    return target


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    """The wheel."""
    (built,) = distributions.glob("*.whl")
    return built


@pytest.mark.thorough
def test_the_source_distribution_holds_all_that_its_own_tests_need(distributions: Path) -> None:
    (archive,) = distributions.glob("*.tar.gz")

    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}

    missing = {name for name in list_sources() if ".egg-info/" not in name} - packed
    assert missing == (LINKS if (ROOT / ".git").exists() else set())


@pytest.mark.thorough
def test_the_source_distribution_tests_itself(distributions: Path, tmp_path: Path) -> None:
    (archive,) = distributions.glob("*.tar.gz")  # the wheel beside it was built from it
    with tarfile.open(archive) as opened:
        # Python 3.11 has the filters from 3.11.4 on.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(tmp_path)

    (source,) = tmp_path.iterdir()
    for name in LINKS:  # an archive has none, and what installs it for development needs none
        (source / name).symlink_to(Path("..") / Path(name).name)

    code = """
import sys
import pytest
import abilities.helpers.walk
assert abilities.helpers.walk.__file__.startswith(sys.argv[1])
sys.exit(pytest.main(sys.argv[2:]))
"""
    tests = ["tests/package/test_declarations.py", "tests/package/test_registry.py"]
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "--no-header"]
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), *options, *tests],
        cwd=source,
        env={**os.environ, "ABILITIES_TESTS": "quick"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]


@pytest.mark.thorough
def test_the_wheel_installs_one_name_and_everything_it_needs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top_names = {name.split("/")[0] for name in names}
    assert top_names == {"abilities", f"agent_abilities-{VERSION}.dist-info"}

    sources = {str(Path(*module.split("."))) for module, _ in list_modules()}
    packed = {
        name.removesuffix(".py").removesuffix("/__init__") for name in names if name.endswith(".py")
    }
    assert packed == sources
    assert "abilities/py.typed" in names
    assert {f"abilities/declarations/schemas/{a.name}.json" for a in BUILT_IN} <= set(names)
    licenses = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    vendored = {path.relative_to(ROOT).as_posix() for path in list_licenses()}
    assert licenses == {"LICENSE"} | vendored
    static = ROOT / "abilities" / "explorer" / "static"
    shown = {str(path.relative_to(ROOT)) for path in static.rglob("*") if path.is_file()}
    assert len(shown) > 20 and shown <= set(names)  # the page, its libraries and their licences


@pytest.mark.thorough
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
from importlib.resources import files
from abilities import Abilities, Settings
from abilities.explorer.pages import PAGES
assert {"/", "/docs", "/explorer/vendor/htm-preact.js"} <= PAGES.keys()
async def main():
    async with Abilities.open(Settings()) as abilities:
        return await abilities.call("file_read_bulk", {"paths": ["note.txt"]})
answer = asyncio.run(main())
content = answer["results"][0]["data"]["content"]
declared = list((files("abilities.declarations") / "schemas").glob("*.json"))
print(json.dumps([__import__("abilities").__file__, helpers.WHOSE, content, len(declared)]))
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
        17,
    ]


def test_every_package_folder_is_installed() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    folders = {m for m, path in list_modules() if path.name == "__init__.py"}
    data = {
        "abilities.declarations.schemas",
        "abilities.explorer.static",
        "abilities.explorer.static.vendor",
    }
    assert listed == folders | data
    assert (SCHEMAS / "file_read_bulk.json").exists()


def test_the_links_show_a_checkout_the_installed_tree() -> None:
    links = {name for name in LINKS if (ROOT / name).is_symlink()}

    assert links == (LINKS if (ROOT / ".git").exists() else set())
    assert all((ROOT / name).readlink() == Path("..") / Path(name).name for name in links)
