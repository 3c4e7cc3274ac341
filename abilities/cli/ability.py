"""The commands that show and call abilities: list, describe, call, recall, declarations."""

import ast
import asyncio
import json
import os
import re
import shlex
import sys
from contextlib import suppress
from typing import cast

import click

from abilities import definition
from abilities.builtin.index import NAMES
from abilities.cli.completion import complete_ability
from abilities.cli.errors import UsageErrorInLines
from abilities.cli.options import find_options, format_options
from abilities.cli.session import Session, define_command, describe_failure
from abilities.cli.terminal import echo, echo_line, echo_payload
from abilities.declarations.refusals import Fault
from abilities.declarations.values import as_object, parse_json, unwrap_json
from abilities.definition import Ability
from abilities.registry import AbilityRegistry, Reply

_LINE_CHARS = 100
"""The longest line of `abilities list`."""

_EXAMPLE = """'{"paths": ["README.md"]}'"""

_GENERAL_HINT = f"Put them in single quotes, for example {_EXAMPLE}."

_CURLY_QUOTES = "“”„\u2018\u2019«»"

_MAX_SHOWN_CHARS = 200
"""The longest argument that is printed as corrected JSON."""

_YAML = re.compile(r"\s*[\w-]+:(\s|$)")


@define_command("abilities list", "abilities list --json")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON array with each ability's name, title and annotations.",
)
def list_(session: Session, as_json: bool) -> None:
    """List the abilities, one per line."""
    stdout = session.stdout

    if as_json:
        entries = [
            {"name": ability.name, "title": ability.title, **definition.build_annotations(ability)}
            for ability in session.registry
        ]
        echo_line(json.dumps(entries), stdout)
    else:
        width = max(map(len, session.registry.names), default=0) + 2
        for ability in session.registry:
            # The first sentence, and less of it if it is too long.
            summary = ability.description
            for end in (". ", ";", "\n"):
                summary = summary.partition(end)[0]
            summary = summary.rstrip(".") + "."

            while len(summary) > _LINE_CHARS - width:
                beginning, comma, _ = summary.rpartition(", ")
                summary = f"{beginning}." if comma else f"{ability.title}."
                if not comma:
                    break
            echo(f"{ability.name:<{width}}{summary}", stdout, hang=width)

    # Programs read stdout, so only abilities go there.
    for problem in session.plugin_problems:
        echo(problem, err=True)


@define_command("abilities describe file_read_bulk", "abilities describe file_read_bulk --json")
@click.argument("name", shell_complete=complete_ability)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the declaration for MCP, OpenAI and Anthropic clients as JSON.",
)
def describe(session: Session, name: str, as_json: bool) -> None:
    """Show what an ability does and which arguments it takes."""
    stdout = session.stdout
    ability = _find_ability(session, session.registry, name)

    if as_json:
        echo_payload(definition.format_declaration(ability), stdout, nl=False)
        return

    heading = f"{ability.name}: {ability.title}"
    for line in (heading, "", *ability.description.split("\n"), "", "Arguments:"):
        echo(line, stdout)

    schema = definition.build_schema(ability.input)
    required = schema.get("required", ())

    for argument, field in schema.get("properties", {}).items():
        kind = field.get("type", "any")
        mark = "required" if argument in required else "optional"
        meaning = " ".join(field.get("description", "").split())
        echo(f"  {argument} ({kind}, {mark}): {meaning}", stdout)


@define_command(
    'abilities call file_read_bulk \'{"paths": ["README.md", "src/app.py#L1-L40"]}\'',
    'abilities call memory_read_bulk \'{"targets": [{"type": "long_term"}]}\' --pretty',
    "abilities call get_memory_stats --namespace team --pretty",
    'echo \'{"paths": ["README.md"]}\' | abilities call file_read_bulk -',
    context_settings={"allow_extra_args": True},
)
@click.argument("name", shell_complete=complete_ability)
@click.argument("arguments", metavar="[JSON]", default="{}")
@click.option(
    "--pretty", is_flag=True, help="Print tables and sentences for people instead of JSON."
)
def call(session: Session, name: str, arguments: str, pretty: bool) -> None:
    """Call an ability and print its answer.

    JSON is an object with the arguments (default: no arguments); '-' reads it from stdin.
    'abilities describe NAME' lists the arguments.

    Exits with 1 if the call failed as a whole, and with 0 if it was answered, even if some of its
    items failed.
    """
    # All of this is refused before anything is opened.
    pieces = click.get_current_context().args
    if pieces:
        raise UsageErrorInLines(
            "the arguments are not valid JSON: they came in pieces, of which "
            f"{pieces[0]!r} is one.",
            _GENERAL_HINT,
        )
    if name.lstrip().startswith(("{", "[")):
        raise click.UsageError(
            f"the name comes first, then the JSON: abilities call file_read_bulk {_EXAMPLE}"
        )

    _call_and_print(session, name, read_arguments(arguments, name), pretty=pretty)


@define_command(
    'abilities recall "When does Aurora ship?"',
    'abilities recall "Who leads the parser?" "What does Ada drink?"',
)
@click.argument("questions", metavar="QUESTION...", nargs=-1, required=True)
@click.option(
    "--pretty/--json",
    default=None,
    help="Print tables for people, or JSON (default: tables on a terminal, else JSON).",
)
def recall(session: Session, questions: tuple[str, ...], pretty: bool | None) -> None:
    """Find the memories and notes that answer questions.

    Each QUESTION is one argument, so put it in quotes. For more arguments, such as tags, use
    'abilities call recall'; 'abilities describe recall' lists them.
    """
    if pretty is None:
        pretty = session.stdout.isatty()

    _call_and_print(session, "recall", {"queries": list(questions)}, pretty=pretty)


@define_command("abilities declarations > declarations.json")
def declarations(session: Session) -> None:
    """Print the declarations of all abilities as a JSON array.

    Clients see these: the name, the description and the schema, in the forms for MCP, OpenAI and
    Anthropic.
    """
    stdout = session.stdout
    built = [definition.build_declaration(ability) for ability in session.registry]
    echo_line(json.dumps(built, ensure_ascii=False), stdout)


def read_arguments(text: str, name: str) -> object:
    """Return the JSON of an argument, or of stdin for '-', for an ability.

    Raises UsageErrorInLines if it is not JSON.
    """
    raw = os.fsencode(text)
    if text == "-":
        # Python has no such stream if the shell has closed it.
        if sys.stdin is None:
            raise UsageErrorInLines(
                "the arguments are not valid JSON: stdin is closed.",
                f"Pipe them in, for example: echo {_EXAMPLE} | abilities call file_read_bulk -.",
            )
        if sys.stdin.isatty():
            echo("Type the JSON, and end it with Ctrl-D.", err=True)

        # Bytes, because JSON is UTF-8 whatever the encoding of the terminal is.
        raw = sys.stdin.buffer.read()

    try:
        return parse_json(raw)
    except ValueError as error:
        cause, hint = _explain_text(raw.decode(errors="replace"), str(error))
        raise UsageErrorInLines(
            f"the arguments are not valid JSON: {cause}.",
            hint,
            f"'abilities describe {name}' shows the arguments.",
        ) from None


def _explain_text(text: str, error: str) -> tuple[str, str]:
    """Return why a text is not JSON, and the remedy."""
    if not text.strip():
        return "there are none", f"Send an object, for example {_EXAMPLE}."
    if any(quote in text for quote in _CURLY_QUOTES):
        return "the quotes are typographic ones", 'Replace them by straight ones: ".'
    if "trailing comma" in error:
        return error, "Remove the comma before the bracket."

    value = None
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        value = ast.literal_eval(text.strip())
    if isinstance(value, dict):
        argument = _EXAMPLE
        with suppress(TypeError, ValueError):  # of values that JSON lacks
            argument = shlex.quote(json.dumps(cast(dict[object, object], value)))
        if len(argument) > _MAX_SHOWN_CHARS:
            argument = _EXAMPLE
        return "this is Python", f"As JSON it is: {argument}"

    if text.lstrip()[0] in "{[" and '"' not in text:
        return f"no quotes are left in it, {error}", f"Put single quotes around it: {_EXAMPLE}."
    if _YAML.match(text):
        return "this looks like YAML", f"In JSON it looks like {_EXAMPLE}."

    return error, _GENERAL_HINT


def _call_and_print(session: Session, name: str, arguments: object, *, pretty: bool) -> None:
    """Call an ability and print its answer; exit with 1 if the call failed as a whole."""
    stdout = session.stdout  # from now on, plugins print to stderr

    async def call_ability() -> Reply:
        async with session.open_application() as abilities:
            _find_ability(session, abilities.registry, name)
            return await abilities.reply(name, arguments)

    reply = asyncio.run(call_ability())

    if pretty:
        # Programs read JSON, and need not wait for these imports.
        from rich.console import Console

        from abilities.cli.printing import print_answer
        from abilities.cli.records import AnsweredCall

        # The arguments may also be a string with their JSON.
        answer = AnsweredCall(name, as_object(unwrap_json(arguments)) or {}, reply.payload)
        options = format_options(find_options(click.get_current_context()))
        print_answer(answer, Console(file=stdout), ("abilities", *options, "call"))
    else:
        # A reply in the text format ends with a line end already.
        echo_payload(reply.text, stdout, nl=reply.format != "text")

    if not reply.failed:
        return

    fault = Fault.model_validate(reply.payload["error"])
    words = describe_failure(fault, session.settings)
    if fault.code == "INVALID_INPUT":
        words = f"'abilities describe {name}' shows the arguments."
    if words is not None:
        echo(words, err=True)

    sys.exit(1)


def _find_ability(session: Session, registry: AbilityRegistry, name: str) -> Ability:
    """Return an ability. Raises click.UsageError, SettingsError if it is not offered."""
    ability = registry.get(name)
    if ability is not None:
        return ability

    # A disabled ability is treated as if it did not exist; a short list of tools is explained.
    settings = session.settings
    if name in NAMES and name not in settings.disabled:
        offered = ", ".join(settings.tools)
        raise session.blame_setting(ValueError(f"tools: {name} is not offered, only {offered}"))

    context = click.get_current_context().find_root()
    commands = context.command
    suggestion = registry.explain_unknown(name).did_you_mean

    if isinstance(commands, click.Group) and name in commands.list_commands(context):
        hint = f"it is a command: 'abilities {name} --help'"
    elif suggestion is not None:
        hint = f"did you mean {suggestion}?"
    else:
        hint = "choose one of: " + ", ".join(registry.names)

    raise click.UsageError(f"there is no ability named {name!r}; {hint}")
