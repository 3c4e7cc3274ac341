"""What the demonstration reads beside the files of the workspace: an agent's files and memories."""

from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

ITEMS: list[object] = [
    "persona.md",
    "notes.txt",
    "app.log",
    "app.log#L10-L19",
    "deploy.md",
    "photo.png",
    "escape.txt",  # a link that leads out of the directory
    "no-such-file.md",
    "../outside.txt",
    ".env",  # on the deny list
    {"note": "long_term"},
    {"note": "yesterday"},
    {"memory": "greeting"},
]
"""Items for `read`, with one for each way in which an item may end."""

QUESTION = "When do the compiler's tests start?"
"""What the sample memories answer, though no memory has all of its words."""


class SampleMemory(NamedTuple):
    """A memory to store; ``links`` are weights by key."""

    key: str
    content: str
    links: dict[str, float]


MEMORIES = [
    SampleMemory("greeting", "Greet Ada by her first name.", {"ada": 0.9, "tone": 0.5}),
    SampleMemory("ada", "Ada works on the compiler.", {"compiler": 0.8}),
    SampleMemory("compiler", "The compiler is tested every night.", {"nightly": 0.7}),
    SampleMemory("tone", "Answers are short and friendly.", {"ada": 0.2}),
    SampleMemory("nightly", "Nightly tests start at two.", {}),
]


def create_sample_agent(agent: Path) -> None:
    """Create an agent directory with good, huge, secret and hostile files."""
    today = date.today()
    yesterday = today - timedelta(days=1)
    log = [f"2026-01-01T00:00:00Z request {n} served in {n % 97} ms\n" for n in range(1_500)]

    files = {
        "MEMORY.md": "# Memory\n\n- Prefers short answers.\n- Works on agent-abilities.\n",
        f"memory/{today}.md": "- 09:00 started the demonstration\n",
        f"memory/{yesterday}.md": "- 17:00 wrote the last test\n",
        "persona.md": "You are a careful reader.\n",
        "app.log": "".join(log),  # too long for one reply
        "notes.txt": "Grüße, 世界 👩‍👩‍👧‍👦\n",
        "deploy.md": f"Token: ghp_{'aB3dE5fG7hJ9' * 3}.\n",
        "photo.png": "\x89PNG\r\n\x1a\n\0\0\0\rIHDR",  # binary
    }

    for name, text in files.items():
        path = agent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    (agent / "escape.txt").symlink_to("/etc/passwd")
