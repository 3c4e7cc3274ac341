"""Try each page's own install lines in a fresh environment: `python -m tools.installs [PAGE ...]`.

A page passes if its `pip install` lines succeed beside a clone, and if everything that its Python
blocks import can be imported then. It takes about a minute per page.
"""

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "frameworks").glob("[a-z]*.md")))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def list_commands(page: Path) -> list[str]:
    """Return the install lines of a page, in order."""
    commands: list[str] = []
    for language, code in _BLOCK.findall(page.read_text()):
        if language == "console":
            commands += re.findall(r"^\$ (pip install .*)$", code, re.M)

    return commands


def list_imports(page: Path) -> list[str]:
    """Return the import statements of a page's Python blocks, each once."""
    statements: dict[str, None] = {}
    for language, code in _BLOCK.findall(page.read_text()):
        if language != "python":
            continue

        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                statements[ast.unparse(node)] = None

    return list(statements)


def try_page(page: Path, clone: Path) -> str:
    """Return what failed on a page, or nothing."""
    commands = list_commands(page)
    if not commands:
        return "it has no install line"

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"

        for command in commands:
            words = f"{python} -m {command} --quiet --disable-pip-version-check"
            installed = subprocess.run(
                words, shell=True, cwd=clone.parent, capture_output=True, text=True
            )
            if installed.returncode:
                return f"{command}\n{installed.stderr}"

        code = "\n".join(list_imports(page))
        imported = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)
        return imported.stderr if imported.returncode else ""


def copy_clone(folder: Path) -> Path:
    """Return a copy of what the repository tracks, as a clone has it."""
    clone = folder / "agent-abilities"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    return clone


def list_pages() -> list[Path]:
    """Return the pages that the arguments name, by default all."""
    pages = {page.stem: page for page in PAGES}
    names = [Path(argument).stem for argument in sys.argv[1:]]
    if unknown := set(names) - set(pages):
        sys.exit(f"There are no such pages: {', '.join(unknown)}.")

    return [pages[name] for name in names] or list(PAGES)


def main() -> int:
    """Try the pages, and show a line for each; return the exit status."""
    console = Console()
    failed = False

    with tempfile.TemporaryDirectory() as folder:
        clone = copy_clone(Path(folder))
        for page in list_pages():
            with console.status(f"{page.stem} ..."):
                problem = try_page(page, clone)

            failed = failed or bool(problem)
            console.print(f"{page.stem:20} {'FAILED' if problem else 'passed'}", highlight=False)
            if problem:
                console.print(problem, markup=False, highlight=False, soft_wrap=True)

    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
