"""The options that all commands share, given before or after the name of the command."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, TypeVar, cast

import click

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

_OPTIONS = "abilities.options"
"""The key of the options in `context.meta`, which a group shares with its commands."""

NAMESPACE = "--namespace"


class Options(TypedDict, total=False):
    """Settings from the command line; an option that was not given is absent."""

    workspace_dir: Path
    agent_dir: Path
    store_url: str
    namespace: str
    tools: tuple[str, ...]
    public_url: str


def find_options(context: click.Context) -> Options:
    """Return the shared options of a command line; options that are parsed later are added."""
    options: Options = context.meta.setdefault(_OPTIONS, Options())
    return options


def _keep_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Check and keep the value of a shared option that was given.

    An option after the command's name is parsed last, and replaces one before it.
    """
    # Every command line imports this module, and few have these options: hence the imports here.
    if parameter.name == "namespace" and value is not None:
        from abilities.declarations.memory import parse_namespace

        try:
            value = parse_namespace(value)
        except ValueError as error:
            raise click.BadParameter(f"{error}.", context, parameter) from None
    elif parameter.name == "store_url" and isinstance(value, str):
        from abilities.clients.entry import holds_password

        if holds_password(value):
            raise click.BadParameter(
                "it holds a password, and every user of this machine can read a command line; "
                "put store_url into the settings file, or set ABILITIES_STORE_URL",
                context,
                parameter,
            )

    if value is not None and parameter.name:
        cast(dict[str, object], find_options(context))[parameter.name] = value


def format_options(options: Options) -> list[str]:
    """Return options as words of a command line, such as ["--namespace", "team"]."""
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]

    return words


def format_examples(*lines: str, heading: str | None = None) -> str:
    """Return the end of the help of a command: examples of command lines."""
    heading = heading or ("Examples:" if len(lines) > 1 else "Example:")
    # \b keeps click from joining the lines of a paragraph.
    return "\n  ".join([f"\b\n{heading}", *lines]) + "\n"


def take_namespace(words: str) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that adds the option --namespace with the help ``words`` to a command."""
    return click.option(
        NAMESPACE, metavar="NAME", expose_value=False, callback=_keep_option, help=words
    )


def whole_store(command: _Decorated) -> _Decorated:
    """Let a command for the whole store refuse --namespace instead of ignoring it."""

    def refuse(context: click.Context, parameter: click.Parameter, value: object) -> None:
        _keep_option(context, parameter, value)

        # The option may also have been given before the command's name.
        if "namespace" in find_options(context):
            raise click.UsageError(
                f"{context.info_name} works on the whole store, with all its namespaces; "
                f"leave out {NAMESPACE}",
                context,
            )

    # Hidden, because the option is declared only to be refused.
    return click.option(NAMESPACE, expose_value=False, callback=refuse, hidden=True)(command)


SHARED = (
    click.Option(
        ["--workspace-dir"],
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_keep_option,
        help="The folder to read files from (default: the current one, except folders that are "
        "never shared, such as '/' or your home).",
    ),
    click.Option(
        ["--agent-dir"],
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_keep_option,
        help="The agent's own folder, searched first (default: ~/.abilities/agent).",
    ),
    click.Option(
        ["--store-url"],
        metavar="URL",
        expose_value=False,
        callback=_keep_option,
        help="Where memories are stored (default: sqlite:///~/.abilities/memory.db).",
    ),
    click.Option(
        [NAMESPACE],
        metavar="NAME",
        expose_value=False,
        callback=_keep_option,
        help="The owner of the files and memories (default: the configured namespace).",
    ),
)
"""The options of every command."""


def share_options(command: click.Command) -> None:
    """Add the shared options to a command, or to all of a group, unless it has its own form."""
    own = {parameter.name for parameter in command.params}
    command.params += [option for option in SHARED if option.name not in own]

    if isinstance(command, click.Group):
        for inner in command.commands.values():
            share_options(inner)
