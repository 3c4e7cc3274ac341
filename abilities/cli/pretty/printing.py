"""Printing answers for people: which printer each ability has."""

import json
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text

from abilities.cli.pretty.batches import print_batch
from abilities.cli.pretty.changes import print_changes, print_timeline
from abilities.cli.pretty.faults import print_fault
from abilities.cli.pretty.listings import print_files, print_found, print_listed
from abilities.cli.pretty.memory import print_memory
from abilities.cli.pretty.operations import print_operations
from abilities.cli.pretty.page import AnsweredCall, Page
from abilities.cli.pretty.questions import print_questions
from abilities.cli.pretty.stats import print_stats
from abilities.cli.pretty.walks import print_walk
from abilities.cli.pretty.writes import (
    print_deleted,
    print_restored,
    print_stored,
    print_updated,
)
from abilities.cli.text import escape_lines

PRINTERS: Mapping[str, Callable[[AnsweredCall, Page], None]] = {
    "bulk_read_memory": print_walk,
    "delete_memory": print_deleted,
    "file_list": print_files,
    "file_read_bulk": print_batch,
    "get_memory_stats": print_stats,
    "memory_changes": print_changes,
    "memory_get": print_memory,
    "memory_history": print_timeline,
    "memory_list": print_listed,
    "memory_read_bulk": print_batch,
    "memory_restore": print_restored,
    "query_memories": print_found,
    "read": print_batch,
    "recall": print_questions,
    "remember": print_operations,
    "store_memory": print_stored,
    "update_memory": print_updated,
}
"""Printers by the names of abilities; plugins cannot take these names."""


def print_answer(answer: AnsweredCall, console: Console, command: Sequence[str] = ()) -> None:
    """Print an answer for people: a table, a tree or sentences, or JSON for a plugin's ability.

    ``command`` are the words of a command that calls an ability, up to its name.
    """
    page = Page(console, command)

    if "error" in answer.payload:
        print_fault(answer, page)
    elif answer.name in PRINTERS:
        PRINTERS[answer.name](answer, page)
    else:
        document = json.dumps(answer.payload, indent=2, ensure_ascii=False)
        console.print(JSONHighlighter()(Text(escape_lines(document))), soft_wrap=True)
