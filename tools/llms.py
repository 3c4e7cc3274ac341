"""Write `llms.txt` from the pages of the documentation, in the form of llmstxt.org.

Each page gives its own line: its title and its sections.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

FIRST = ("tutorial", "reference", "read", "recall", "remember", "clients")
"""The pages that most readers need, in this order."""

OPTIONAL = ("performance", "why")
"""The pages that a reader with little room may skip."""

SUMMARY = """\
Files and memories are read in bulk: every item has its own outcome, the whole reply keeps a limit,
and `next_request` brings the rest. The same abilities answer over Python, LangChain, MCP, HTTP and
the command line."""


def write_llms() -> str:
    """Return the text of `llms.txt`. Raises ValueError if a page has no title or no sentence."""
    docs = ROOT / "docs"
    pages = sorted(path.relative_to(docs) for path in docs.rglob("*.md"))
    names = [page.with_suffix("").as_posix() for page in pages]
    others = [name for name in names if name not in FIRST + OPTIONAL]

    lines = [f"# {PROJECT['name']}", "", f"> {PROJECT['description']}", "", SUMMARY]
    lines += ["", "## Documentation", ""]
    lines += [_link(name) for name in (*FIRST, *others)]
    lines += ["", "## Optional", ""]
    lines += [_link(name) for name in OPTIONAL]
    lines += [f"- [Changelog]({_address('CHANGELOG.md')}): What changed in each release."]
    return "\n".join(lines) + "\n"


def _link(name: str) -> str:
    page = f"docs/{name}.md"
    title, sentence = describe_page((ROOT / page).read_text(encoding="utf-8"))
    return f"- [{title}]({_address(page)}): {sentence}"


def _address(path: str) -> str:
    return f"{PROJECT['urls']['Homepage']}/raw/main/{path}"


def describe_page(text: str) -> tuple[str, str]:
    """Return a page's title, and its sections or, if it has none, its first sentence.

    Links become plain text. Raises ValueError if the page has no title.
    """
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    title, _, rest = text.partition("\n")

    if not title.startswith("# "):
        raise ValueError(f"the page has no title: {title!r}")

    sections = re.findall(r"^## (.+)$", rest, flags=re.M)
    about = "; ".join(sections) or re.split(r"(?<=[.?!])\s", " ".join(rest.split()), maxsplit=1)[0]
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", about)
    return title.removeprefix("# "), plain.replace("**", "")
