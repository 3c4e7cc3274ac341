"""The commands that show abilities and call them: list, describe, call, declarations."""

import ast
import asyncio
import json
import os
import re
import shlex
import sys
from typing import NoReturn, TextIO, cast

import click

from abilities import schemas
from abilities.builtin.index import NAMES
from abilities.cli.completion import complete_ability
from abilities.cli.errors import UsageErrorInLines
from abilities.cli.options import find_options, format_options
from abilities.cli.session import Session, describe_failure, pass_session
from abilities.cli.terminal import echo, echo_line, echo_payload
from abilities.declarations.refusals import Fault
from abilities.declarations.values import as_object, parse_json, unwrap_json
from abilities.definition import Ability
from abilities.registry import AbilityRegistry, Reply

# \b keeps click from joining the lines of a paragraph.
_DESCRIBE_EXAMPLES = """\b
Examples:
  abilities describe file_read_bulk
  abilities describe file_read_bulk --json
"""

_CALL_EXAMPLES = """\b
Examples:
  abilities call file_read_bulk '{"paths": ["README.md", "src/app.py#L1-L40"]}'
  abilities call memory_read_bulk '{"targets": [{"type": "long_term"}]}' --pretty
  abilities call get_memory_stats --namespace team --pretty
  echo '{"paths": ["README.md"]}' | abilities call file_read_bulk -
"""

_RECALL_EXAMPLES = """\b
Examples:
  abilities recall "When does Aurora ship?"
  abilities recall "Who leads the parser?" "What does Ada drink?"
"""


_LIST_EXAMPLES = """\b
Examples:
  abilities list
  abilities list --json
"""

_DECLARATIONS_EXAMPLE = """\b
Example:
  abilities declarations > declarations.json
"""

_LINE_CHARS = 100
"""How long a line of `abilities list` may be."""


@click.command("list", epilog=_LIST_EXAMPLES)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON array with each ability's name, title and annotations.",
)
@pass_session
def list_(session: Session, as_json: bool) -> None:
    """List the abilities, one per line."""
    stdout = session.stdout

    if as_json:
        entries = [_describe_briefly(ability) for ability in session.registry]
        echo_line(json.dumps(entries), stdout)
    else:
        name_chars = max(map(len, session.registry.names), default=0)
        room = _LINE_CHARS - name_chars - 2

        for ability in session.registry:
            echo(
                f"{ability.name:<{name_chars}}  {_summarize(ability, room)}",
                stdout,
                hang=name_chars + 2,
            )

    # Programs read stdout, which therefore holds nothing but abilities.
    for problem in session.plugin_problems:
        echo(problem, err=True)


@click.command(epilog=_DESCRIBE_EXAMPLES)
@click.argument("name", shell_complete=complete_ability)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the declaration for MCP, OpenAI and Anthropic clients as JSON.",
)
@pass_session
def describe(session: Session, name: str, as_json: bool) -> None:
    """Show what an ability does and which arguments it takes."""
    stdout = session.stdout
    ability = _find_ability(session, session.registry, name)

    if as_json:
        echo_payload(schemas.format_declaration(ability), stdout, nl=False)
        return

    heading = f"{ability.name}: {ability.title}"
    for line in (heading, "", *ability.description.split("\n"), "", "Arguments:"):
        echo(line, stdout)

    schema = schemas.build_full_schema(ability)
    required = schema.get("required", ())

    for argument, field in schema.get("properties", {}).items():
        kind = field.get("type", "any")
        mark = "required" if argument in required else "optional"
        meaning = " ".join(field.get("description", "").split())
        echo(f"  {argument} ({kind}, {mark}): {meaning}", stdout)


_take_pretty = click.option(
    "--pretty", is_flag=True, help="Print tables and sentences for people instead of JSON."
)


@click.command(epilog=_CALL_EXAMPLES, context_settings={"allow_extra_args": True})
@click.argument("name", shell_complete=complete_ability)
@click.argument("arguments", metavar="[JSON]", default="{}")
@_take_pretty
@pass_session
def call(session: Session, name: str, arguments: str, pretty: bool) -> None:
    """Call an ability and print its answer.

    JSON is an object with the arguments (default: no arguments); '-' reads it from stdin.
    'abilities describe NAME' shows which arguments there are.

    Exits with 0 if the call was answered, even if some of its items failed, and with 1 if the call
    failed as a whole.
    """
    # Arguments that are no JSON are refused before anything is opened.
    refuse_pieces(click.get_current_context().args)
    _check_order(name)
    _call_and_print(session, name, read_arguments(arguments, name), pretty=pretty)


@click.command(epilog=_RECALL_EXAMPLES)
@click.argument("questions", metavar="QUESTION...", nargs=-1, required=True)
@click.option(
    "--pretty/--json",
    default=None,
    help="Print tables for people, or JSON (default: tables on a terminal, else JSON).",
)
@pass_session
def recall(session: Session, questions: tuple[str, ...], pretty: bool | None) -> None:
    """Find the memories and notes that answer questions.

    Each QUESTION is one argument, so put it in quotes. This is 'abilities call recall' with the
    questions alone; 'abilities describe recall' shows what else it takes.
    """
    if pretty is None:
        pretty = session.stdout.isatty()

    _call_and_print(session, "recall", {"queries": list(questions)}, pretty=pretty)


@click.command(epilog=_DECLARATIONS_EXAMPLE)
@pass_session
def declarations(session: Session) -> None:
    """Print the declarations of all abilities as a JSON array.

    They are what clients see: the name, the description and the schema, in the form that MCP,
    OpenAI and Anthropic each expect.
    """
    stdout = session.stdout
    built = [schemas.build_declaration(ability) for ability in session.registry]
    echo_line(json.dumps(built, ensure_ascii=False), stdout)


def _call_and_print(session: Session, name: str, arguments: object, *, pretty: bool) -> None:
    """Call an ability and print its answer; exit with 1 if the call failed as a whole."""
    reply = asyncio.run(_call(session, name, arguments))

    if pretty:
        _print_for_people(name, arguments, reply, session.stdout)
    else:
        # A reply in the text format ends in a line end of its own.
        echo_payload(reply.text, session.stdout, nl=reply.format != "text")

    if reply.failed:
        _print_advice(session, name, Fault.model_validate(reply.payload["error"]))
        sys.exit(1)


def _check_order(name: str) -> None:
    """Raise click.UsageError if the JSON stands where the name belongs."""
    if name.lstrip().startswith(("{", "[")):
        raise click.UsageError(
            "the name comes first, then the JSON: "
            """abilities call file_read_bulk '{"paths": ["README.md"]}'"""
        )


async def _call(session: Session, name: str, arguments: object) -> Reply:
    # From here on, what a plugin prints goes to stderr.
    _ = session.stdout

    async with session.open_application() as abilities:
        _find_ability(session, abilities.registry, name)
        return await abilities.reply(name, arguments)


def _print_for_people(name: str, arguments: object, reply: Reply, stdout: TextIO) -> None:
    # Programs read JSON, and need not wait for these.
    from rich.console import Console

    from abilities.cli.printing import print_answer
    from abilities.cli.records import AnsweredCall

    # A string that holds the arguments as JSON was accepted too.
    answer = AnsweredCall(name, as_object(unwrap_json(arguments)) or {}, reply.payload)
    options = format_options(find_options(click.get_current_context()))
    print_answer(answer, Console(file=stdout), ("abilities", *options, "call"))


def _print_advice(session: Session, name: str, fault: Fault) -> None:
    """Say on stderr what to do about the store, if that has failed, or about wrong arguments."""
    words = describe_failure(fault, session.settings)
    if fault.code == "INVALID_INPUT":
        words = f"'abilities describe {name}' shows the arguments."
    if words is not None:
        echo(words, err=True)


def _find_ability(session: Session, registry: AbilityRegistry, name: str) -> Ability:
    ability = registry.get(name)

    if ability is None:
        _explain_unoffered(session, name)
        suggestion = registry.explain_unknown(name).did_you_mean
        commands = click.get_current_context().find_root().command
        if isinstance(commands, click.Group) and name in commands.list_commands(
            click.Context(commands)
        ):
            hint = f"it is a command: 'abilities {name} --help'"
        elif suggestion is not None:
            hint = f"did you mean {suggestion}?"
        else:
            hint = "choose one of: " + ", ".join(registry.names)
        raise click.UsageError(f"there is no ability named {name!r}; {hint}")

    return ability


def _explain_unoffered(session: Session, name: str) -> None:
    """Raise SettingsError for an ability that a short tool list leaves out.

    One that is disabled is as if it were not there.
    """
    settings = session.settings
    if name in settings.disabled or name not in NAMES:
        return

    offered = ", ".join(settings.tools)
    raise session.blame_setting(ValueError(f"tools: {name} is not offered, only {offered}"))


def _describe_briefly(ability: Ability) -> dict[str, object]:
    return {"name": ability.name, "title": ability.title, **schemas.build_annotations(ability)}


def _summarize(ability: Ability, room: int) -> str:
    """Return the first sentence of the description, or as much of it as has room."""
    summary = _first_sentence(ability)

    while len(summary) > room:
        beginning, comma, _ = summary.rpartition(", ")
        if not comma:
            return f"{ability.title}."
        summary = f"{beginning}."

    return summary


def _first_sentence(ability: Ability) -> str:
    """Return the first sentence of the description, cut at a semicolon or a line's end too."""
    beginning = ability.description

    for end in (". ", ";", "\n"):
        beginning = beginning.partition(end)[0]

    return beginning.rstrip(".") + "."


COMMANDS = (list_, describe, call, recall, declarations)


_CURLY_QUOTES = "“”„\u2018\u2019«»"

_MAX_SHOWN_CHARS = 200

_EXAMPLE = """'{"paths": ["README.md"]}'"""

_GENERAL_HINT = f"Put them in single quotes, for example {_EXAMPLE}."

_YAML = re.compile(r"\s*[\w-]+:(\s|$)")


def read_arguments(text: str, name: str) -> object:
    """Return the JSON of an argument, or of stdin for '-', for an ability.

    Raises UsageErrorInLines.
    """
    raw = _read_stdin() if text == "-" else os.fsencode(text)

    try:
        return parse_json(raw)
    except ValueError as error:
        _refuse(raw, name, error)


def refuse_pieces(pieces: list[str]) -> None:
    """Raise UsageErrorInLines if the shell has cut the JSON into several arguments."""
    if not pieces:
        return

    raise UsageErrorInLines(
        f"the arguments are not valid JSON: they came in pieces, of which {pieces[0]!r} is one.",
        _GENERAL_HINT,
    )


def _read_stdin() -> bytes:
    # Python has no such stream if the shell has closed it.
    if sys.stdin is None:
        raise UsageErrorInLines(
            "the arguments are not valid JSON: stdin is closed.",
            f"Send them to it, for example: echo {_EXAMPLE} | abilities call file_read_bulk -.",
        )
    if sys.stdin.isatty():
        echo("Type the JSON, and end it with Ctrl-D.", err=True)

    # Bytes, because JSON is UTF-8 whatever the terminal's encoding is.
    return sys.stdin.buffer.read()


def _refuse(raw: bytes, name: str, error: ValueError) -> NoReturn:
    text = raw.decode(errors="replace")
    cause, hint = _explain(text, str(error))

    raise UsageErrorInLines(
        f"the arguments are not valid JSON: {cause}.",
        hint,
        f"'abilities describe {name}' shows the arguments.",
    )


def _explain(text: str, error: str) -> tuple[str, str]:
    """Return what is wrong with a text that is no JSON, and what to do."""
    if not text.strip():
        return "there are none", f"Send an object, for example {_EXAMPLE}."
    if any(quote in text for quote in _CURLY_QUOTES):
        return "the quotes are typographic ones", 'Replace them by straight ones: ".'

    value = _read_python(text)
    if "trailing comma" in error:
        return error, "Remove the comma before the bracket."
    if isinstance(value, dict):
        argument = _format_argument(cast(dict[object, object], value))
        return "this is Python", f"As JSON it is: {argument}"
    if text.lstrip()[0] in "{[" and '"' not in text:
        return f"no quotes are left in it, {error}", f"Put single quotes around it: {_EXAMPLE}."
    if _YAML.match(text):
        return "this looks like YAML", f"The same as JSON is for example {_EXAMPLE}."

    return error, _GENERAL_HINT


def _read_python(text: str) -> object:
    """Return the value of a Python literal; None for any other text."""
    try:
        value: object = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None

    return value


def _format_argument(value: dict[object, object]) -> str:
    """Return a value as JSON for a shell, or an example if it is long or no JSON."""
    try:
        argument = shlex.quote(json.dumps(value))
    except (TypeError, ValueError):
        return _EXAMPLE

    return argument if len(argument) <= _MAX_SHOWN_CHARS else _EXAMPLE
