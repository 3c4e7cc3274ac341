"""What a release consists of: metadata, licenses, workflows, the wheel, the image."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.support.catalog import BUILT_IN
from tests.support.programs import run_code
from tests.support.sources import ROOT, list_modules, list_sources
from tools import image

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
STATIC = ROOT / "abilities" / "explorer" / "static"
VENDORED = sorted([*STATIC.glob("vendor/*.LICENSE.txt"), *STATIC.glob("vendor/*.NOTICE.txt")])
"""The texts of licenses and notices of the explorer's libraries."""

LICENSES = {
    r"MIT License|MIT license|license MIT|license:? +MIT|MIT licensed": "MIT",
    r"Apache License\s+Version 2\.0|Apache license 2\.0": "Apache-2.0",
    r"BSD-3-Clause": "BSD-3-Clause",
    r"Permission to use, copy, modify, and/or distribute this software for any": "ISC",
}
"""How a text shows each license; a vendored text that shows none fails the test."""

LINKS = {"abilities/declarations", "abilities/helpers"}
"""What a checkout has beyond a source distribution: the second way to the same modules."""


def test_the_license_expression_covers_everything_in_the_wheel() -> None:
    texts = [path for path in VENDORED if ".LICENSE." in path.name]
    assert len(texts) >= 4

    found = [
        {name for shown, name in LICENSES.items() if re.search(shown, path.read_text())}
        for path in (ROOT / "LICENSE", *texts)
    ]

    assert all(found)
    assert set(PROJECT["license"].split(" AND ")) == set().union(*found)
    listed = {path for pattern in PROJECT["license-files"] for path in ROOT.glob(pattern)}
    assert listed == {ROOT / "LICENSE", *VENDORED}


def test_the_metadata_name_the_versions_of_python_that_are_tested() -> None:
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    tested = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())

    assert versions == tested["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert all(url.startswith(PROJECT["urls"]["Homepage"]) for url in PROJECT["urls"].values())


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_its_actions_and_calls_targets_that_exist(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    content = yaml.safe_load(workflow.read_text())
    steps = [step for job in content["jobs"].values() for step in job["steps"]]

    actions = [step["uses"] for step in steps if "uses" in step]
    commands = [step["run"] for step in steps if "run" in step]
    called = [shlex.split(command)[1] for command in commands if command.startswith("make ")]

    assert actions and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name) for name in actions)
    assert called and set(called) <= targets
    # Whoever can write a workflow's file decides what its token may do; it begins with reading.
    assert content["permissions"] == {"contents": "read"}


def test_a_release_publishes_what_was_tested_and_attested() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    commands = [step.get("run", "").split(" PYTHON")[0] for step in jobs["build"]["steps"]]
    uses = [step.get("uses", "").split("@")[0] for step in jobs["publish"]["steps"]]

    assert [c for c in commands if c] == ["make test-all", "make dist", "make dist-test"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    attested = uses.index("actions/attest-build-provenance")
    assert attested < uses.index("pypa/gh-action-pypi-publish")


def test_the_image_is_built_from_files_that_exist_and_runs_as_nobody_special() -> None:
    recipe = image.RECIPE.read_text()
    instructions = [line.split() for line in recipe.splitlines() if re.match("[A-Z]", line)]
    allowed = re.findall(r"^!(.+)", (ROOT / ".dockerignore").read_text(), re.M)
    (extras,) = re.findall(r"/source\[([a-z,]+)\]", recipe)

    assert allowed and all((ROOT / name).exists() for name in allowed)
    assert ["COPY", ".", "/source"] in instructions and ["USER", "10001"] in instructions
    assert re.search(r"^ARG BASE=python:3\.\d+\.\d+-slim-\w+$", recipe, re.M), "an exact version"
    assert {"HEALTHCHECK", "VOLUME", "ENTRYPOINT", "CMD", "STOPSIGNAL"} <= {
        i[0] for i in instructions
    }
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


@pytest.mark.thorough
@pytest.mark.skipif(image.find_engine() is None, reason="no engine for images answers here")
def test_the_image_is_built_and_answers() -> None:
    engine = image.find_engine()
    assert engine is not None

    subprocess.run(image.build_command(engine), check=True, capture_output=True, timeout=900)
    run = [engine, "run", "--rm", "--read-only", "--tmpfs", "/tmp", image.TAG]
    done = subprocess.run([*run, "call", "file_list", "{}"], check=True, capture_output=True)

    assert b'"files"' in done.stdout


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
def test_the_source_distribution_holds_and_passes_its_own_tests(
    distributions: Path, tmp_path: Path
) -> None:
    (archive,) = distributions.glob("*.tar.gz")  # the wheel beside it was built from it
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
        # Python 3.11 has the filters from 3.11.4 on.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(tmp_path)

    missing = {name for name in list_sources() if ".egg-info/" not in name} - packed
    assert missing == (LINKS if (ROOT / ".git").exists() else set())

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
    tests = ["tests/package/test_declarations.py", "tests/package/test_settings.py"]
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "--no-header"]
    variables = {**os.environ, "ABILITIES_TESTS": "quick"}
    run_code(code, source, *options, *tests, cwd=source, env=variables)


@pytest.mark.thorough
def test_the_wheel_installs_one_name_and_everything_it_needs(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"agent_abilities-{PROJECT['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {"abilities", info}

    sources = {str(Path(*module.split("."))) for module, _ in list_modules()}
    packed = {
        name.removesuffix(".py").removesuffix("/__init__") for name in names if name.endswith(".py")
    }
    assert packed == sources
    assert "abilities/py.typed" in names
    assert {f"abilities/declarations/schemas/{a.name}.json" for a in BUILT_IN} <= names
    licenses = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licenses == {"LICENSE"} | {path.relative_to(ROOT).as_posix() for path in VENDORED}
    shown = {str(path.relative_to(ROOT)) for path in STATIC.rglob("*") if path.is_file()}
    assert len(shown) > 20 and shown <= names  # the page, its libraries and their licences


@pytest.mark.thorough
def test_an_installed_wheel_works_beside_a_users_own_helpers(wheel: Path, tmp_path: Path) -> None:
    installed, project = tmp_path / "installed", tmp_path / "project"
    project.mkdir()
    install = f"-m pip install -q --no-deps --target {installed} {wheel}"
    subprocess.run([sys.executable, *install.split()], check=True, capture_output=True)
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

    done = run_code(code, cwd=project, env=environment)

    package = str(installed / "abilities" / "__init__.py")
    assert json.loads(done.stdout) == [package, "the user’s helpers", "found", len(BUILT_IN)]


def test_every_package_folder_is_installed() -> None:
    folders = {name for name, path in list_modules() if path.name == "__init__.py"}
    data = {"declarations.schemas", "explorer.static", "explorer.static.vendor"}

    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == folders | {
        f"abilities.{name}" for name in data
    }


def test_the_links_show_a_checkout_the_installed_tree() -> None:
    links = {name for name in LINKS if (ROOT / name).is_symlink()}

    assert links == (LINKS if (ROOT / ".git").exists() else set())
    assert all((ROOT / name).readlink() == Path("..") / Path(name).name for name in links)
