"""How each contender does the twelve tasks: the calls of each round, from what is known by then.

A way is a generator of rounds. It gets the replies of a round, and ends when the task is done.
"""

import re
from collections.abc import Callable, Generator
from datetime import date
from typing import Any, NamedTuple

import orjson

from abilities import parse_text
from abilities.declarations.values import JsonObject
from benchmarks.task_world import FINDINGS, LIMITED, STAGING_NOW


class Known(NamedTuple):
    """What is known at the beginning: the folders that servers were given, and the day."""

    workspace: str
    agent: str
    yesterday: date


class Call(NamedTuple):
    """A call of a tool of one of the servers."""

    server: str
    tool: str
    arguments: JsonObject


Way = Generator[list[Call], list[str], None]
Ways = dict[str, Callable[[Known], Way]]


def read(*items: Any, **options: Any) -> Call:
    """Return a call of our `read`."""
    return Call("abilities", "read", {"items": list(items), **options})


def recall(question: str, **options: Any) -> Call:
    """Return a call of our `recall`."""
    return Call("abilities", "recall", {"queries": [question], **options})


def remember(*operations: JsonObject) -> Call:
    """Return a call of our `remember`."""
    return Call("abilities", "remember", {"operations": list(operations)})


def files(tool: str, **arguments: Any) -> Call:
    """Return a call of the official filesystem server."""
    return Call("filesystem", tool, arguments)


def graph(tool: str, **arguments: Any) -> Call:
    """Return a call of the official memory server."""
    return Call("memory", tool, arguments)


def notes(tool: str, **arguments: Any) -> Call:
    """Return a call of basic-memory."""
    return Call("basic-memory", tool, arguments)


def one_round(*calls: Call) -> Callable[[Known], Way]:
    """Return the way that makes some calls, knowing nothing."""

    def go(_: Known) -> Way:
        yield list(calls)

    return go


def list_paths(reply: str) -> list[str]:
    """Return the paths of an answer of `search_files`."""
    return reply.splitlines()


def find_all(patterns: dict[str, str]) -> list[Call]:
    """Return the calls that find files by names: a folder by each pattern."""
    return [files("search_files", path=path, pattern=pattern) for pattern, path in patterns.items()]


def read_found(replies: list[str]) -> list[Call]:
    """Return the call that reads all files that were found."""
    paths = [path for reply in replies for path in list_paths(reply)]
    return [files("read_multiple_files", paths=paths)]


def find_and_read(*patterns: str) -> Callable[[Known], Way]:
    """Return the way that finds files of the project by names, and reads them."""

    def go(known: Known) -> Way:
        replies = yield find_all(dict.fromkeys(patterns, known.workspace))
        yield read_found(replies)

    return go


# Ours: what `read`, `recall` and `remember` are described to do.


def mention_ours(known: Known) -> Way:
    """Search files, and read a day's notes."""
    yield [read({"search": LIMITED}, {"note": str(known.yesterday)})]


def begin_day_ours(_: Known) -> Way:
    """Read the lasting notes, those of the last days, and the memories that are tasks."""
    days = read({"note": "long_term"}, {"note": "last 7 days"})
    yield [days, recall("open tasks", type="task")]


def decide_ours(_: Known) -> Way:
    """Ask what was decided, then read the files that it names."""
    (reply,) = yield [recall("What was decided about how the queue is drained?")]
    yield [read(*re.findall(r"src/[\w/]+\.py", reply))]


def correct_ours(_: Known) -> Way:
    """Ask for the memory, then change it."""
    (reply,) = yield [recall("On which port does staging listen?")]
    yield [remember({"op": "update", "key": read_first_key(reply), "content": STAGING_NOW})]


def undo_ours(_: Known) -> Way:
    """Ask for the memory, then undo its last change."""
    (reply,) = yield [recall("When do releases go out?")]
    yield [remember({"op": "restore", "key": read_first_key(reply)})]


def record_ours(_: Known) -> Way:
    """Store all findings with their links in one call."""
    yield [
        remember(
            *(
                {
                    "op": "store",
                    "type": fact.type,
                    "key": fact.key,
                    "content": fact.content,
                    "links": [{"key": key} for key in fact.links],
                }
                for fact in FINDINGS
            )
        )
    ]


def read_first_key(reply: str) -> str:
    """Return the key of the first memory of an answer of `recall`."""
    key: str = parse_text(reply)["results"][0]["memories"][0]["key"]
    return key


OURS: Ways = {
    "find_and_fix": one_round(read({"glob": "**/*delay*"})),
    "mentions": mention_ours,
    "recall_before_change": one_round(recall("How are invoices rounded?")),
    "learn_project": one_round(
        read({"glob": "**/*.md"}, {"glob": "**/tern/*.py"}, {"glob": "tests/*.py"})
    ),
    "classes": one_round(
        read({"search": "^class ", "regex": True, "in": "**/lib/**/*.py", "context": 0})
    ),
    "error_in_log": one_round(read({"search": "ERROR", "in": "**/*.log", "context": 3})),
    "decision_and_code": decide_ours,
    "begin_day": begin_day_ours,
    "follow_links": one_round(read({"memory": "storage/overview", "depth": 2})),
    "correct": correct_ours,
    "undo": undo_ours,
    "record_findings": record_ours,
}

# The official servers: file names are searched, not contents; memories by one word or phrase.


def mention_official(known: Known) -> Way:
    """Find all sources and pages and a day's notes, and read them whole."""
    patterns = {"**/*.py": known.workspace, "**/*.md": known.workspace}
    day = {f"**/{known.yesterday}*": known.agent}
    replies = yield find_all({**patterns, **day})
    yield read_found(replies)


def read_log(known: Known) -> Way:
    """Find the log, and read its end: as many lines as hold the error, which nobody knows."""
    (reply,) = yield find_all({"**/*.log": known.workspace})
    yield [files("read_text_file", path=list_paths(reply)[0], tail=200)]


def begin_day_official(known: Known) -> Way:
    """Find the notes and the tasks, then read the notes."""
    replies = yield [*find_all({"**/*.md": known.agent}), graph("search_nodes", query="task")]
    yield read_found(replies[:1])


def recall_official(_: Known) -> Way:
    """Search by a word, then open what the memories found link to."""
    (reply,) = yield [graph("search_nodes", query="rounded")]
    yield [graph("open_nodes", names=list_linked(reply))]


def decide_official(known: Known) -> Way:
    """Search by a word, then read the files that the memory names."""
    (reply,) = yield [graph("search_nodes", query="queue")]
    paths = [f"{known.workspace}/{path}" for path in re.findall(r"src/[\w/]+\.py", reply)]
    yield [files("read_multiple_files", paths=paths)]


def follow_official(_: Known) -> Way:
    """Open one level after the other."""
    names = ["storage/overview"]
    while names:
        (reply,) = yield [graph("open_nodes", names=names)]
        names = list_linked(reply)


def correct_official(_: Known) -> Way:
    """Search by a word, then replace the observation."""
    (reply,) = yield [graph("search_nodes", query="staging")]
    (entity,) = orjson.loads(reply)["entities"]
    deleted = {"entityName": entity["name"], "observations": entity["observations"]}
    added = {"entityName": entity["name"], "contents": [STAGING_NOW]}
    yield [
        graph("delete_observations", deletions=[deleted]),
        graph("add_observations", observations=[added]),
    ]


def record_official(_: Known) -> Way:
    """Create the entities and their relations."""
    entities = [
        {"name": fact.key, "entityType": fact.type, "observations": [fact.content]}
        for fact in FINDINGS
    ]
    relations = [
        {"from": fact.key, "to": key, "relationType": "leads_to"}
        for fact in FINDINGS
        for key in fact.links
    ]
    yield [
        graph("create_entities", entities=entities),
        graph("create_relations", relations=relations),
    ]


def list_linked(reply: str) -> list[str]:
    """Return the names that an answer of the memory server links to and does not contain."""
    answer = orjson.loads(reply)
    names = {entity["name"] for entity in answer["entities"]}
    return sorted({relation["to"] for relation in answer["relations"]} - names)


WITH_FILES: Ways = {
    "find_and_fix": find_and_read("**/*delay*"),
    "mentions": mention_official,
    "learn_project": find_and_read("**/*.md", "**/tern/*.py", "tests/*.py"),
    "classes": find_and_read("**/lib/**/*.py"),
    "error_in_log": read_log,
}
"""What both others do with the official filesystem server."""

OFFICIAL: Ways = {
    **WITH_FILES,
    "recall_before_change": recall_official,
    "decision_and_code": decide_official,
    "begin_day": begin_day_official,
    "follow_links": follow_official,
    "correct": correct_official,
    "record_findings": record_official,
}
"""Nothing can be undone: what an observation said before is gone."""

# basic-memory beside the filesystem server. Only JSON has contents of what was found.


def search_notes(**arguments: Any) -> Call:
    """Return a call of basic-memory's search."""
    return notes("search_notes", output_format="json", **arguments)


def recall_basic(_: Known) -> Way:
    """Search by a word, then read the notes that those found link to."""
    (reply,) = yield [search_notes(query="rounded")]
    yield [notes("read_note", identifier=name) for name in re.findall(r"\[\[(.+?)\]\]", reply)]


def decide_basic(known: Known) -> Way:
    """Search by a word, then read the files that the note names."""
    (reply,) = yield [search_notes(query="queue")]
    paths = [f"{known.workspace}/{path}" for path in re.findall(r"src/[\w/]+\.py", reply)]
    yield [files("read_multiple_files", paths=list(dict.fromkeys(paths)))]


def begin_day_basic(known: Known) -> Way:
    """Find the notes of days and the tasks, then read the former."""
    replies = yield [*find_all({"**/*.md": known.agent}), search_notes(note_types=["task"])]
    yield read_found(replies[:1])


def follow_basic(_: Known) -> Way:
    """Read one level of notes after the other: a context names those further on, no contents."""
    names = ["storage/overview"]
    while names:
        replies = yield [notes("read_note", identifier=name) for name in names]
        names = re.findall(r"\[\[(.+?)\]\]", "".join(replies))


def correct_basic(_: Known) -> Way:
    """Search by a word, then edit the note."""
    (reply,) = yield [search_notes(query="staging")]
    (found,) = orjson.loads(reply)["results"]
    change = {"operation": "find_replace", "find_text": "8443", "content": "9443"}
    yield [notes("edit_note", identifier=found["permalink"], **change)]


def record_basic(_: Known) -> Way:
    """Write one note per finding."""
    yield [
        notes(
            "write_note",
            title=fact.key.rpartition("/")[2],
            directory=fact.key.rpartition("/")[0],
            content="\n".join([fact.content, "", *(f"- leads_to [[{key}]]" for key in fact.links)]),
        )
        for fact in FINDINGS
    ]


BASIC: Ways = {
    **WITH_FILES,
    "recall_before_change": recall_basic,
    "decision_and_code": decide_basic,
    "begin_day": begin_day_basic,
    "follow_links": follow_basic,
    "correct": correct_basic,
    "record_findings": record_basic,
}
"""Nothing can be undone: a note has no past."""
