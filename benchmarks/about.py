"""How often a file that is read comes with the right memory: a replay of a repository's history.

Each commit becomes a memory of its message, about the files that it changed. Before that, the files
that it is about to change are read, as an agent would that makes the change::

    python -m benchmarks.about REPOSITORY...
"""

import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from abilities import Abilities, Settings, parse_text
from abilities.declarations.limits import MAX_ABOUT, MAX_ABOUT_CHARS, MAX_CONTENT_CHARS, MAX_ITEMS

MOST_COMMITS = 300


def run_git(folder: Path | str, *arguments: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)
    return done.stdout.decode(errors="replace")


def list_commits(folder: Path) -> list[tuple[str, str, list[str]]]:
    """Return the last commits, the oldest first: hash, message and changed files."""
    form = "--format=%x02%H%x01%B%x01"
    log = run_git(folder, "log", "--no-merges", "--name-only", "--no-renames", "-z", form)

    commits: list[tuple[str, str, list[str]]] = []
    for entry in log.split("\x02")[1 : MOST_COMMITS + 1]:
        commit, message, files = entry.split("\x01")
        names = [name.strip() for name in files.split("\0") if name.strip()]
        commits.append((commit, message.replace("\0", " ").strip() or "-", names))

    return commits[::-1]


async def replay(folder: Path, store: Path) -> Counter[str]:
    """Return the numbers of reads, of those with a right and a wrong memory, and of bytes."""
    counts: Counter[str] = Counter()
    touched: dict[str, set[str]] = {}
    settings = Settings(
        workspace_dir=folder, agent_dir=store.parent, store_url=f"sqlite:///{store}", deny=()
    )

    async with Abilities.open(settings) as abilities:
        for commit, message, files in list_commits(folder):
            if touched:
                names = [name for name in files if (folder / name).is_file()]
                for first in range(0, len(names), MAX_ITEMS):
                    arguments = {"paths": names[first : first + MAX_ITEMS]}
                    plain = await abilities.reply(
                        "file_read_bulk", {**arguments, "memories": False}, for_model=True
                    )
                    reply = await abilities.reply("file_read_bulk", arguments, for_model=True)
                    counts["bytes"] += len(plain.text.encode())
                    counts["more"] += len(reply.text.encode()) - len(plain.text.encode())

                    for record in parse_text(reply.text)["results"]:
                        if record["success"]:
                            shown = [one["key"] for one in record.get("remembered", ())]
                            right = [record["input"] in touched[key] for key in shown]
                            counts["reads"] += 1
                            counts["right"] += any(right)
                            counts["wrong"] += not all(right)

            key = f"commit/{commit[:8]}"
            about = [name for name in files if len(name) <= MAX_ABOUT_CHARS][:MAX_ABOUT]
            memory = {"key": key, "type": "learning", "content": message[:MAX_CONTENT_CHARS]}
            await abilities.call("store_memory", {**memory, "about": about})
            touched[key] = set(files)
            run_git(folder, "checkout", "-qf", commit)

    return counts


async def main(repositories: list[str]) -> None:
    """Replay each repository, and print a line for it."""
    for repository in repositories:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder, "tree")
            run_git(".", "clone", "-q", repository, str(tree))
            counts = await replay(tree, Path(folder, "m.db"))

        reads = counts["reads"]
        shares = f"right {counts['right'] / reads:.1%}, wrong {counts['wrong'] / reads:.1%}"
        more = counts["more"] / counts["bytes"]
        print(f"{repository}: {reads} reads, {shares}, {more:.2%} more bytes")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
