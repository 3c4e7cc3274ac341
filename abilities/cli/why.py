"""The command that explains the place of a memory in an answer of `recall`: why."""

import asyncio
import json
from typing import TYPE_CHECKING, Any, get_args

import click

from abilities.cli.completion import complete_any_key
from abilities.cli.errors import explain_errors
from abilities.cli.session import Session, pass_session
from abilities.cli.terminal import echo_line
from abilities.declarations.memory import USUAL_LINK_TYPE, Importance, Type
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject

if TYPE_CHECKING:
    from abilities.cli.records import Page
    from abilities.declarations.recall import RecallInput

_EXAMPLES = """\b
Examples:
  abilities why people/ada "Who writes compilers?"
  abilities why people/ada "Who writes compilers?" --hops 0 --json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("key", shell_complete=complete_any_key)
@click.argument("question")
@click.option("--hops", type=int, help="Follow so many links, 0 to 2 (default: 2).")
@click.option("--type", type=click.Choice(get_args(Type)), help="Only memories of this type.")
@click.option("--tags", multiple=True, help="Only memories with this tag; may be repeated.")
@click.option("--category", help="Only memories of this category.")
@click.option(
    "--importance",
    type=click.Choice(get_args(Importance)),
    help="Only memories of this importance.",
)
@click.option("--archived", is_flag=True, default=None, help="Archived memories too.")
@click.option("--within-days", type=int, help="Only memories changed in so many days.")
@click.option(
    "--at-least",
    type=float,
    help="Leave out what scores below this share of the best; 0 shows any match.",
)
@click.option("--notes/--no-notes", default=None, help="Rank notes too (default), or none.")
@click.option(
    "--pretty/--json",
    default=None,
    help="Print tables for people, or JSON (default: tables on a terminal, else JSON).",
)
@pass_session
def why(
    session: Session,
    /,
    key: str,
    question: str,
    tags: tuple[str, ...],
    pretty: bool | None,
    **options: Any,
) -> None:
    """Explain the place of KEY in the answer of recall to QUESTION.

    Shows the place and the score of the memory, or what keeps it out, and the points that each word
    of the question and each link gives. The options are those of recall. Only the own namespace is
    ranked.
    """
    stdout = session.stdout
    arguments = _read_arguments(question, {**options, "tags": list(tags) or None})

    async def explain() -> JsonObject:
        async with session.open_application() as abilities:
            own = abilities.for_caller("cli", reads=())
            return await own.context.memory.explain(key, arguments)

    with explain_errors():
        record = asyncio.run(explain())

    if pretty is None:
        pretty = stdout.isatty()
    if not pretty:
        echo_line(json.dumps(record, ensure_ascii=False), stdout)
        return

    # Programs read JSON, and need not wait for these imports.
    from rich.console import Console

    from abilities.cli.records import Page

    print_explanation(record, Page(Console(file=stdout)))


def _read_arguments(question: str, options: JsonObject) -> "RecallInput":
    """Return the arguments of recall. Raises click.UsageError for wrong ones."""
    from abilities.declarations.recall import RecallInput
    from abilities.schemas import validate_arguments

    given = {name: value for name, value in options.items() if value is not None}
    try:
        return validate_arguments(RecallInput, {"queries": [question], **given})
    except Refused as error:
        words = error.message.replace("queries[0]", "QUESTION")
        raise click.UsageError(words) from None


def print_explanation(record: JsonObject, page: "Page") -> None:
    """Print why a memory is in an answer of `recall` or not, for people."""
    from abilities.cli.records import Column, style_text

    key = style_text(record["key"], "bold")
    if "place" in record:
        place = f" is number {record['place']:,} of {record['of']:,}"
        page.print_line(key, f"{place}, with the score {record['score']:.2f}.")
    else:
        page.print_line(key, f" is left out. {_describe_reason(record)}")

    for name, words in (
        ("unknown_words", "In no memory: "),
        ("archived_words", "Only in archived memories: "),
    ):
        if name in record:
            page.print_line(words, ", ".join(record[name]))

    rows: list[JsonObject] = []
    for word in record.get("words", ()):
        shown = {name: f"{word[name]:.2f}" for name in ("idf", "points")}
        rows.append({**word, **shown, "held": "yes" if word["weight"] else "no"})
    columns = (
        Column("word", ("word",), wraps=True, leads=True),
        Column("looked up as", ("term",), wraps=True),
        Column("in it", ("held",)),
        Column("weight", ("weight",), is_right=True),
        Column("idf", ("idf",), is_right=True),
        Column("points", ("points",), is_right=True),
    )
    page.print_table(columns, rows)

    if "factor" in record:
        held = sum(row["held"] == "yes" for row in rows)
        words = f"{held} of {len(rows)} in it: times {record['factor']:.2f}"
        page.print_line(f"{words}, which makes {record['by_words']:.2f}.")
    if "links" in record:
        _print_links(record["links"], page)
    if "named" in record:
        page.print_line(f"It begins with a name in the question: times {record['named']}.")
    if "by_meaning" in record:
        page.print_line(f"The similarity of its meaning adds {record['by_meaning']:.2f}.")


def _describe_reason(record: JsonObject) -> str:
    """Return in a sentence why a memory is not in an answer."""
    reason = record["reason"]
    score = f"It scores {record.get('score', 0):.2f}"
    if reason == "filters":
        return f"It does not pass: {', '.join(record['filters'])}."
    if reason == "at_least":
        return f"{score}, and at_least needs {record['needed']:.2f}."
    if reason == "confidence":
        best = record["best"]
        name, lacks = best.get("key", best.get("filename")), ", ".join(best["lacks"])
        lacking = f"lacks {lacks}" if lacks else "has the words in different passages"
        sentence = f"{score}, but nothing is shown: the best, {name}, {lacking}."
        return f"{sentence} With --at-least 0 any match is shown."

    return _SENTENCES[reason]


_SENTENCES = {
    "archived": "It is archived; --archived ranks such memories too.",
    "expired": "It has expired, so it counts as archived; --archived ranks such memories too.",
    "deleted": "It was deleted; memory_restore brings it back.",
    "below_best": "256 memories have better words, and no link leads to it from the best.",
    "no_match": "It has no word of the question, and no link leads to it from the best.",
}
"""The sentences for reasons that need no figures."""


def _print_links(links: JsonObject, page: "Page") -> None:
    """Print what links give to a memory, and along which ways."""
    from abilities.cli.records import Column

    rows: list[JsonObject] = []
    for gift in links["from"]:
        way = gift["key"]
        for step in gift["way"]:
            arrow = "<-" if "direction" in step else "->"
            kind = f"{step.get('type', USUAL_LINK_TYPE)} {step['link_weight']:.2f}"
            way += f" {arrow} {step['key']} ({kind})"
        rows.append({"way": way, "points": f"{gift['points']:.2f}"})

    page.print_blank()
    columns = (
        Column("links", ("way",), wraps=True, leads=True),
        Column("points", ("points",), is_right=True),
    )
    page.print_table(columns, rows)
    effect = f"lift it to {links['lifted']:.2f}"
    if not links["is_lifted"]:
        effect = "do not lift it"
    limit = f"the limit is {links['most']:.2f}, {links['share']} of the first one's words"
    page.print_line(f"Links give {links['given']:.2f} and {effect}; {limit}.")


COMMANDS = (why,)
