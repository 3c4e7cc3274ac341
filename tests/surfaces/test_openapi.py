"""The served OpenAPI document: schemathesis checks that the server does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from abilities import Settings
from tests.support.sources import ROOT
from tests.support.tier import size

EXAMPLES = str(size("ABILITIES_API_EXAMPLES", quick=1, full=3))
"""How many requests are generated per operation and phase; `make torture` generates more."""


@pytest.mark.requirement("R1.8.2")
@pytest.mark.thorough
def test_every_check_of_schemathesis_passes(served: str, roots: Settings, tmp_path: Path) -> None:
    (roots.workspace_dir / "a.txt").write_text("a")
    options = f"--checks all --max-examples {EXAMPLES} --seed 1 --generation-database none"
    program = str(Path(sys.executable).with_name("schemathesis"))
    command = [program, "run", f"{served}/openapi.json", "--no-color", *options.split()]
    variables = {"SCHEMATHESIS_HOOKS": "tests.support.openapi_hooks", "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        command, env={**os.environ, **variables}, cwd=tmp_path, capture_output=True
    )
    report = done.stdout.decode()

    assert done.returncode == 0, report[-8_000:] + done.stderr.decode()
    operations = len(httpx.get(f"{served}/openapi.json").json()["paths"])
    tested = re.search(r"Tested: (\d+)", report)
    assert tested and int(tested[1]) >= operations >= 17
    generated = re.search(r"(\d+) generated", report)
    assert generated and int(generated[1]) > 100
