"""What a release consists of beside the code: metadata, licenses, links, workflows, the image."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.sources import ROOT
from tools import image
from tools.release import list_problems

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HOMEPAGE: str = PROJECT["urls"]["Homepage"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VENDOR = ROOT / "abilities" / "explorer" / "static" / "vendor"

LICENSES = {
    r"MIT License|MIT license|license MIT|license:? +MIT|MIT licensed": "MIT",
    r"Apache License\s+Version 2\.0|Apache license 2\.0": "Apache-2.0",
    r"BSD-3-Clause": "BSD-3-Clause",
    r"Permission to use, copy, modify, and/or distribute this software for any": "ISC",
}
"""How a text shows each license; a vendored text that shows none fails the test."""


def list_licenses() -> list[Path]:
    """Return the vendored texts of licenses and notices."""
    return sorted([*VENDOR.glob("*.LICENSE.txt"), *VENDOR.glob("*.NOTICE.txt")])


def find_licenses(text: str) -> set[str]:
    """Return the SPDX names of the licenses that a text shows."""
    return {name for shown, name in LICENSES.items() if re.search(shown, text)}


def test_the_license_expression_covers_everything_in_the_wheel() -> None:
    texts = [path.read_text() for path in list_licenses() if ".LICENSE." in path.name]
    assert len(texts) >= 4

    found = [find_licenses(text) for text in [(ROOT / "LICENSE").read_text(), *texts]]

    assert all(found)
    assert set(PROJECT["license"].split(" AND ")) == set().union(*found)


def test_the_metadata_lists_the_files_of_all_licenses() -> None:
    matched = {path for pattern in PROJECT["license-files"] for path in ROOT.glob(pattern)}

    assert matched == {ROOT / "LICENSE", *list_licenses()}


def test_the_metadata_say_who_where_and_for_which_versions() -> None:
    assert set(PROJECT["urls"]) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith(HOMEPAGE) for url in PROJECT["urls"].values())
    assert PROJECT["authors"] == [{"name": "The agent-abilities authors"}]
    assert PROJECT["keywords"] == sorted(set(PROJECT["keywords"]))

    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    tested = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    assert versions == tested["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert PROJECT["requires-python"] == f">={versions[0]}"


def list_bad_links(text: str) -> list[str]:
    """Return the links and pictures of a page that do not work on a package index.

    There only absolute addresses work. Those of this repository name a file that exists, by
    ``/blob/main/`` or ``/tree/main/``, or by ``/raw/main/`` for pictures.
    """
    bad: list[str] = []

    in_text = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", text)
    below = [("", target) for target in re.findall(r"^\[[^\]]+\]: (\S+)$", text, flags=re.M)]

    for mark, target in in_text + below:
        address, _, _ = target.partition("#")
        kinds = "raw" if mark else "blob|tree"
        named = re.fullmatch(rf"{re.escape(HOMEPAGE)}/(?:{kinds})/main/(\S+)", address)
        is_own_page = not mark and target.startswith("#")
        is_foreign = address.startswith("https://") and f"{HOMEPAGE}/" not in address
        sites = f"{re.escape(HOMEPAGE)}(/(issues|releases|security).*)?"
        is_on_site = re.fullmatch(sites, address)
        is_file = named is not None and (ROOT / named[1]).exists()

        if not (is_own_page or is_foreign or is_on_site or is_file):
            bad.append(target)

    return bad


def test_a_link_that_fails_on_a_package_index_is_found() -> None:
    good = f"""
[a]({HOMEPAGE}/blob/main/docs/read.md#items) [b]({HOMEPAGE}/tree/main/docs) [c](#limits)
[d](https://llmstxt.org) ![e]({HOMEPAGE}/raw/main/docs/benchmarks.svg) [f]({HOMEPAGE}/issues)
"""
    bad = [
        "docs/read.md",
        f"{HOMEPAGE}/blob/main/docs/none.md",
        f"{HOMEPAGE}/raw/main/docs/read.md",
        "http://example.org",
    ]

    assert list_bad_links(good) == []
    assert list_bad_links("".join(f"[x]({link})" for link in bad)) == bad
    assert list_bad_links(f"![x]({HOMEPAGE}/blob/main/docs/benchmarks.svg)") != []
    assert list_bad_links("See [read].\n\n[read]: docs/read.md\n") == ["docs/read.md"]


def test_the_links_of_the_readme_work_on_a_package_index() -> None:
    assert list_bad_links((ROOT / "README.md").read_text()) == []


def test_the_page_about_security_says_where_to_report() -> None:
    text = (ROOT / "SECURITY.md").read_text()

    assert f"{HOMEPAGE}/security/advisories/new" in text
    assert "SECURITY.md" in (ROOT / "docs" / "security.md").read_text()


def list_steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_its_actions_and_calls_targets_that_exist(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    steps = list_steps(workflow)

    actions = [step["uses"] for step in steps if "uses" in step]
    commands = [step["run"] for step in steps if "run" in step]
    called = [shlex.split(command)[1] for command in commands if command.startswith("make ")]

    assert actions and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name) for name in actions)
    assert called and set(called) <= targets
    # Whoever can write a workflow's file decides what its token may do; it begins with reading.
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}


def test_a_release_publishes_what_was_tested_and_attested() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    commands = [step.get("run", "").split(" PYTHON")[0] for step in jobs["build"]["steps"]]
    uses = [step.get("uses", "").split("@")[0] for step in jobs["publish"]["steps"]]

    assert [c for c in commands if c] == ["make test-all", "make dist", "make dist-test"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    attested = uses.index("actions/attest-build-provenance")
    assert attested < uses.index("pypa/gh-action-pypi-publish")


def test_a_tag_names_the_version_and_the_latest_release_of_the_changelog() -> None:
    changelog = "## [Unreleased]\n\n## [0.2.0] - 2026-11-23\n\n## [0.1.0] - 2026-01-02\n"

    assert list_problems("v0.2.0", "0.2.0", changelog) == []
    assert len(list_problems("v0.2.0", "0.1.0", changelog)) == 2
    assert len(list_problems("0.2.0", "0.2.0", changelog)) == 1
    assert len(list_problems("v0.3.0", "0.3.0", changelog)) == 1


def list_instructions() -> list[list[str]]:
    """Return the instructions of the image's recipe, continued lines joined."""
    text = image.RECIPE.read_text().replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_is_built_from_files_that_exist_and_runs_as_nobody_special() -> None:
    instructions = list_instructions()
    allowed = [
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    names = [words[0] for words in instructions]
    (base,) = [words[1] for words in instructions if words[0] == "ARG"]

    assert allowed and all((ROOT / name).exists() for name in allowed)
    assert ["COPY", ".", "/source"] in instructions
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-\w+", base), "an exact version"
    assert ["USER", "10001"] in instructions
    assert {"HEALTHCHECK", "VOLUME", "ENTRYPOINT", "CMD", "STOPSIGNAL"} <= set(names)
    (extras,) = re.findall(r"/source\[([a-z,]+)\]", image.RECIPE.read_text())
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


@pytest.mark.thorough
@pytest.mark.skipif(image.find_engine() is None, reason="no engine for images answers here")
def test_the_image_is_built_and_answers() -> None:
    engine = image.find_engine()
    assert engine is not None

    subprocess.run(image.build_command(engine), check=True, capture_output=True, timeout=900)
    run = [engine, "run", "--rm", "--read-only", "--tmpfs", "/tmp", image.TAG]
    done = subprocess.run([*run, "call", "file_list", "{}"], check=True, capture_output=True)

    assert b'"results"' in done.stdout or b'"files"' in done.stdout
