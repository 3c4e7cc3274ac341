"""Try wrong calls, and count those that are mended in one round: `python -m benchmarks.refusals`.

The calls of this package are those of the tests. The official MCP servers get calls of their own
tools that are wrong in the same ways. One corrector mends all of them, from nothing but the call
and the answer; what the official servers answer in prose is translated into its terms first.
"""

import asyncio
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from abilities import Settings
from benchmarks.peers import Peer, start_filesystem_server, start_memory_server
from tests.support.corrector import Call, Unmendable, mend_arguments
from tests.support.trials import format_table, shorten_json, try_calls, write_samples


class PeerCall(NamedTuple):
    """A wrong call of an official server's tool."""

    habit: str
    tool: str
    arguments: dict[str, Any]


class PeerTrial(NamedTuple):
    """What became of it: "unnoticed" if the server took the call as if nothing were wrong."""

    call: PeerCall
    answer: str
    outcome: str


def list_filesystem_calls(folder: Path) -> list[PeerCall]:
    """Return wrong calls of the filesystem server's tools."""
    file = str(folder / "notes.md")
    other = str(folder / "todo.txt")
    edit = {"oldText": "notes", "newText": "notes"}

    return [
        PeerCall("a number in words", "read_text_file", {"path": file, "head": "ten"}),
        PeerCall("digits in groups", "read_text_file", {"path": file, "head": "5,000"}),
        PeerCall("a number with a unit", "read_text_file", {"path": file, "tail": "10 lines"}),
        PeerCall("true for a number", "read_text_file", {"path": file, "tail": True}),
        PeerCall("a negative number", "read_text_file", {"path": file, "head": -1}),
        PeerCall("another name", "read_text_file", {"file_path": file}),
        PeerCall("another name", "read_text_file", {"file": file, "head": 10}),
        PeerCall("another name", "read_multiple_files", {"files": [file, other]}),
        PeerCall("another name", "search_files", {"path": str(folder), "query": "*.md"}),
        PeerCall("another style", "directory_tree", {"path": str(folder), "exclude_patterns": []}),
        PeerCall("an invented argument", "read_text_file", {"path": file, "recursive": True}),
        PeerCall("another tool's name", "read_files", {"paths": [file]}),
        PeerCall("one path for a list", "read_multiple_files", {"paths": file}),
        PeerCall("a list in words", "read_multiple_files", {"paths": f"{file}, {other}"}),
        PeerCall("one edit for a list", "edit_file", {"path": file, "edits": edit, "dryRun": True}),
        PeerCall("yes for true", "edit_file", {"path": file, "edits": [edit], "dryRun": "yes"}),
        PeerCall(
            "a choice of other tools",
            "list_directory_with_sizes",
            {"path": str(folder), "sortBy": "date"},
        ),
        PeerCall(
            "a choice in upper case",
            "list_directory_with_sizes",
            {"path": str(folder), "sortBy": "SIZE"},
        ),
        PeerCall("two at once", "read_multiple_files", {"file_paths": file}),
        PeerCall("two at once", "read_text_file", {"file": file, "head": "ten"}),
        PeerCall("nothing to read", "read_multiple_files", {"paths": []}),
        PeerCall("no path", "read_text_file", {"head": 5}),
    ]


ADA = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}

MEMORY_CALLS = [
    PeerCall("another name", "search_nodes", {"q": "tea"}),
    PeerCall("another name", "search_nodes", {"search": "tea", "limit": 5}),
    PeerCall("another name", "open_nodes", {"entities": ["Ada"]}),
    PeerCall("another name", "create_entities", {"entities": [{**ADA, "type": "person"}]}),
    PeerCall(
        "another name",
        "create_entities",
        {"entities": [{"name": "Bob", "type": "person", "observations": ["likes chess"]}]},
    ),
    PeerCall(
        "another name",
        "create_relations",
        {"relations": [{"source": "Ada", "target": "Bob", "relationType": "knows"}]},
    ),
    PeerCall(
        "another name",
        "add_observations",
        {"observations": [{"name": "Ada", "contents": ["likes cake"]}]},
    ),
    PeerCall("an invented argument", "search_nodes", {"query": "tea", "max_results": 5}),
    PeerCall("another tool's name", "search_memory", {"query": "tea"}),
    PeerCall("one name for a list", "open_nodes", {"names": "Ada"}),
    PeerCall("a list in words", "open_nodes", {"names": "Ada, Bob"}),
    PeerCall("one entity for a list", "create_entities", {"entities": ADA}),
    PeerCall("names for entities", "create_entities", {"entities": ["Ada", "Bob"]}),
    PeerCall(
        "one observation for a list",
        "create_entities",
        {"entities": [{**ADA, "observations": "likes tea"}]},
    ),
    PeerCall("a number for a text", "open_nodes", {"names": [5]}),
    PeerCall("a list for a text", "search_nodes", {"query": ["tea"]}),
    PeerCall("no query", "search_nodes", {}),
    PeerCall("no kind", "create_entities", {"entities": [{"name": "Ada"}]}),
]


def try_peer(peer: Peer, calls: list[PeerCall]) -> list[PeerTrial]:
    """Return the trials of an official server's calls."""
    return [_try_peer_call(peer, call) for call in calls]


def _try_peer_call(peer: Peer, call: PeerCall) -> PeerTrial:
    answer = _send(peer, Call(call.tool, call.arguments))
    if answer is None:
        return PeerTrial(call, "", "unnoticed")

    try:
        mended = mend_arguments(call.arguments, list(read_mistakes(answer)))
    except (Unmendable, KeyError, TypeError):
        return PeerTrial(call, answer, "no")

    if _send(peer, Call(call.tool, mended)) is not None:
        return PeerTrial(call, answer, "no")

    return PeerTrial(call, answer, "yes")


def _send(peer: Peer, call: Call) -> str | None:
    """Call a tool and return the text of its refusal, or None if it answers."""
    result = peer.request("tools/call", {"name": call.name, "arguments": call.arguments})
    if not result.get("isError"):
        return None

    return "".join(part["text"] for part in result["content"])


_INVALID = re.compile(r"expected (\w+), received (\w+) at (\S+)")
_CHOICE = re.compile(r"expected one of (\S+) at (\S+)")
_TOO_SMALL = re.compile(r"expected array to have >=(\d+) items at (\S+)")


def read_mistakes(text: str) -> Iterator[dict[str, Any]]:
    """Yield the mistakes that an official server's answer names, in the corrector's terms."""
    for kind, received, field in _INVALID.findall(text):
        reason = "missing_argument" if received == "undefined" else "wrong_type"
        yield {"field": field, "reason": reason, "expected": {"type": kind}}

    for choices, field in _CHOICE.findall(text):
        values = re.findall(r'"([^"]*)"', choices)
        yield {"field": field, "reason": "not_one_of", "expected": {"one_of": values}}

    for least, field in _TOO_SMALL.findall(text):
        yield {"field": field, "reason": "too_few", "expected": {"min_items": int(least)}}


def format_peer_table(trials: list[PeerTrial]) -> str:
    """Return the trials of an official server as a Markdown table."""
    lines = ["| what is wrong | tool | arguments | mended |", "|---|---|---|---|"]

    for trial in trials:
        arguments = shorten_json(drop_folders(trial.call.arguments))
        row = (trial.call.habit, f"`{trial.call.tool}`", f"`{arguments}`", trial.outcome)
        lines.append(f"| {' | '.join(row)} |")

    return "\n".join(lines)


def drop_folders(value: Any) -> Any:
    """Return a value without the temporary folder in its paths."""
    if isinstance(value, dict):
        return {name: drop_folders(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [drop_folders(inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"/\S*/workspace/?", "", value) or "."

    return value


def count_peer(name: str, trials: list[PeerTrial]) -> str:
    """Return one sentence about an official server's trials."""
    outcomes = [trial.outcome for trial in trials]
    refused = len(outcomes) - outcomes.count("unnoticed")

    return (
        f"{name}: {outcomes.count('yes')} of {refused} refused calls mended; "
        f"{outcomes.count('unnoticed')} more were answered as if nothing were wrong."
    )


async def main() -> None:
    """Try all calls, and print the tables of `REFUSALS.md` and the counts."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        agent, workspace = base / "agent", base / "workspace"
        write_samples(agent, workspace)

        settings = Settings(
            agent_dir=agent, workspace_dir=workspace, store_url=f"sqlite:///{base}/memory.db"
        )
        trials = await try_calls(settings)
        with start_filesystem_server(workspace) as peer:
            of_filesystem = try_peer(peer, list_filesystem_calls(workspace))
        with start_memory_server(base / "memory.jsonl") as peer:
            peer.call("create_entities", {"entities": [ADA]})
            of_memory = try_peer(peer, MEMORY_CALLS)

    mended = sum(trial.is_accepted for trial in trials)
    print(f"{format_table(trials)}\n")
    print(f"abilities: {mended} of {len(trials)} refused calls mended.\n")

    for name, peer_trials in (("server-filesystem", of_filesystem), ("server-memory", of_memory)):
        print(f"{format_peer_table(peer_trials)}\n")
        print(f"{count_peer(name, peer_trials)}\n")


if __name__ == "__main__":
    asyncio.run(main())
