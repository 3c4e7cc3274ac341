"""The served OpenAPI document, held against the server by schemathesis: what it says is what is done."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from abilities import Settings
from tests.support.tier import size

EXAMPLES = str(size("ABILITIES_API_EXAMPLES", quick=1, full=5))
"""How many requests are made up for each operation and phase; `make torture` makes more."""


@pytest.mark.thorough
def test_every_check_of_schemathesis_passes(served: str, roots: Settings, tmp_path: Path) -> None:
    (roots.workspace_dir / "a.txt").write_text("a")
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{served}/openapi.json",
        "--checks",
        "all",
    ]
    command += [
        "--max-examples",
        EXAMPLES,
        "--seed",
        "1",
        "--generation-database",
        "none",
        "--no-color",
    ]
    given = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.support.openapi_hooks",
        "HOME": str(tmp_path),
    }
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        command, env={**given, "PYTHONPATH": str(root)}, cwd=tmp_path, capture_output=True
    )
    told = done.stdout.decode()
    assert done.returncode == 0, told[-8_000:] + done.stderr.decode()
    operations = len(httpx.get(f"{served}/openapi.json").json()["paths"])
    tested = re.search(r"Tested: (\d+)", told)
    assert tested and int(tested[1]) >= operations >= 17
    generated = re.search(r"(\d+) generated", told)
    assert generated and int(generated[1]) > 100
