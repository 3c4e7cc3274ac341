"""The command ``abilities``: JSON on stdout for programs, tables for people, plain words when something is wrong.

Exit codes: 0 the command did its work (a call with failed items was answered), 1 the call failed as a
whole and stdout says why, 2 the command line, its JSON or the settings are wrong.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import click

from abilities import schemas
from abilities.application import Abilities, build_registry
from abilities.builtin.catalog import BUILT_IN
from abilities.cli.doctor import doctor
from abilities.cli.graph import graph
from abilities.cli.options import load_settings, load_shared_settings
from abilities.cli.serve import explore, serve
from abilities.cli.store import COMMANDS
from abilities.cli.token import token
from abilities.declarations.values import parse_json
from abilities.definition import Ability

_CALL_EXAMPLES = """\b
Examples:
  abilities call file_read_bulk '{"paths": ["README.md", "src/app.py#L1-L40"]}'
  abilities call memory_read_bulk '{"targets": [{"type": "long_term"}, {"type": "short_term"}]}' --pretty
  echo '{"paths": ["README.md"]}' | abilities call file_read_bulk -
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agent-abilities")
@click.option(
    "--workspace-dir",
    type=click.Path(path_type=Path),
    help="The folder to read from [the current one].",
)
@click.option(
    "--agent-dir",
    type=click.Path(path_type=Path),
    help="The agent's own folder [~/.abilities/agent].",
)
@click.pass_context
def main(context: click.Context, /, **given: Any) -> None:
    """Read many files and many memories in one call.

    Settings come from these options, from ABILITIES_… variables, and from ~/.abilities/config.toml.
    """
    context.obj = {name: value for name, value in given.items() if value is not None}


@main.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of names, titles and marks.")
@click.pass_obj
def list_(given: dict[str, Any], as_json: bool) -> None:
    """List the abilities that are offered."""
    registry, problems = build_registry(load_settings(given))
    if as_json:
        click.echo(
            json.dumps(
                [
                    {"name": a.name, "title": a.title, **schemas.build_annotations(a)}
                    for a in registry
                ]
            )
        )
    else:
        for ability in registry:
            click.echo(f"{ability.name:<20} {_first_sentence(ability)}")
    for problem in problems:
        click.echo(problem, err=True)


@main.command()
@click.argument("name")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the declaration for MCP, OpenAI and Anthropic clients.",
)
@click.pass_obj
def describe(given: dict[str, Any], name: str, as_json: bool) -> None:
    """Say what an ability does and which arguments it takes."""
    ability = _named(given, name)
    if as_json:
        click.echo(schemas.format_declaration(ability), nl=False)
        return
    schema = schemas.build_input_schema(ability)
    click.echo(f"{ability.name}: {ability.title}\n\n{ability.description}\n\nArguments:")
    for argument, field in schema.get("properties", {}).items():
        mark = "required" if argument in schema.get("required", ()) else "optional"
        click.echo(
            f"  {argument} ({field.get('type', 'any')}, {mark}): {field.get('description', '')}"
        )


@main.command(epilog=_CALL_EXAMPLES)
@click.argument("name")
@click.argument("arguments", metavar="JSON", default="{}")
@click.option("--pretty", is_flag=True, help="Print a table for people instead of JSON.")
@click.pass_obj
def call(given: dict[str, Any], name: str, arguments: str, pretty: bool) -> None:
    """Call an ability with a JSON object of arguments ('-' reads it from stdin) and print its answer.

    Exits with 0 when the call was answered, even with failed items, and with 1 when it failed as a whole.
    """
    _named(given, name)
    parsed = _parsed(arguments)

    async def run() -> bool:
        async with Abilities.open(load_shared_settings(given)) as abilities:
            reply = await abilities.reply(name, parsed)
        if pretty:
            from abilities.cli.table import print_payload

            print_payload(reply.payload)
        else:
            click.echo(reply.text)
        return reply.failed

    if asyncio.run(run()):
        sys.exit(1)


@main.command()
@click.option(
    "--write", is_flag=True, help="Write one file an ability into the package, for its developers."
)
@click.pass_obj
def declarations(given: dict[str, Any], write: bool) -> None:
    """Print what clients are told of each ability: its MCP, OpenAI and Anthropic declarations."""
    if write:
        for path in schemas.write_declarations(BUILT_IN):
            click.echo(path)
    else:
        click.echo(
            json.dumps(
                [schemas.build_declaration(a) for a in build_registry(load_settings(given))[0]],
                ensure_ascii=False,
            )
        )


@main.command()
@click.pass_obj
def mcp(given: dict[str, Any]) -> None:
    """Serve the abilities to an MCP client over stdin and stdout."""
    try:
        from abilities.adapters.stdio import serve_stdio
    except ImportError:
        raise click.UsageError(
            "MCP is not installed; run: pip install 'agent-abilities[mcp]'"
        ) from None

    async def run() -> None:
        async with Abilities.open(load_shared_settings(given)) as abilities:
            for problem in abilities.problems:
                click.echo(problem, err=True)
            await serve_stdio(abilities)

    asyncio.run(run())


@main.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.pass_obj
def init(given: dict[str, Any], directory: Path | None) -> None:
    """Make an agent directory with a starter MEMORY.md; what is there already stays as it is."""
    settings = load_settings(given | ({"agent_dir": directory} if directory else {}))
    root = settings.agent_path
    (root / settings.memory_files.short_term).parent.mkdir(parents=True, exist_ok=True)
    notes = root / settings.memory_files.long_term
    if notes.exists():
        click.echo(f"{notes} is there already; nothing was changed.")
        return
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.write_text(
        "# Memory\n\nWhat this agent should remember for good. One fact a line.\n", encoding="utf-8"
    )
    click.echo(f"Made {notes}\nDaily notes go into {root / settings.memory_files.short_term}")


@main.command()
@click.pass_obj
def demo(given: dict[str, Any]) -> None:
    """Read 25 files and 6 memories the way an agent would, through LangChain and through MCP."""
    from abilities.cli.demo import run_demo

    asyncio.run(run_demo(load_shared_settings(given).workspace_dir))


def _named(given: dict[str, Any], name: str) -> Ability:
    registry = build_registry(load_settings(given))[0]
    ability = registry.get(name)
    if ability is None:
        raise click.UsageError(
            f"there is no ability named {name!r}; there are: {', '.join(a.name for a in registry)}"
        )
    return ability


def _parsed(text: str) -> Any:
    raw = sys.stdin.buffer.read() if text == "-" else text
    try:
        return parse_json(raw)
    except ValueError as error:
        raise click.UsageError(f"the arguments are not valid JSON: {error}") from None


def _first_sentence(ability: Ability) -> str:
    return ability.description.split(". ")[0].split(";")[0].split("\n")[0].rstrip(".") + "."


for command in (*COMMANDS, doctor, explore, graph, serve, token):
    main.add_command(command)
