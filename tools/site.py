"""Build the documentation's site in `.docs/site`: `make docs`.

A link that leads nowhere fails it, and so does a page that the navigation leaves out.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / ".docs" / "site"


def build() -> None:
    """Build the site. Raises CalledProcessError if a link leads nowhere."""
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(command, cwd=ROOT, check=True)


def list_left_out() -> list[str]:
    """Return the pages that are not in the navigation."""
    listed = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text()))
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    return sorted(written - listed)


def main() -> int:
    """Build the site and describe it; return 1 if the navigation leaves a page out."""
    build()
    left_out = list_left_out()
    for name in left_out:
        print(f"docs/{name} is not in zensical.toml", file=sys.stderr)

    files = [path for path in SITE.rglob("*") if path.is_file()]
    pages = [path for path in files if path.suffix == ".html"]
    size = sum(path.stat().st_size for path in files)
    print(f"{len(pages)} pages, {size / 1_000_000:.1f} MB: {SITE / 'index.html'}")
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
