"""The options that all commands share; they count before a command's name and after it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, TypeVar

import click

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

_OPTIONS = "abilities.options"
"""Where click's contexts keep them; a command and the group that it is in share this."""

NAMESPACE = "--namespace"


class Options(TypedDict, total=False):
    """Settings from options of the command line; an option that was not given is absent."""

    workspace_dir: Path
    agent_dir: Path
    store_url: str
    namespace: str
    tools: tuple[str, ...]


def find_options(context: click.Context) -> Options:
    """Return the shared options of a command line; those that are read later join them."""
    options: Options = context.meta.setdefault(_OPTIONS, Options())
    return options


def _keep_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep the value of a shared option; one that was not given stays absent.

    The command's own option is read after that of the group, and replaces it.
    """
    if value is not None and parameter.name:
        context.meta.setdefault(_OPTIONS, Options())[parameter.name] = value


def _keep_namespace(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None:
        # Every command line begins with this module; few have the option.
        from abilities.declarations.memory import parse_namespace

        try:
            value = parse_namespace(value)
        except ValueError as error:
            raise click.BadParameter(f"{error}.", context, parameter) from None

    _keep_option(context, parameter, value)


def _keep_store_url(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if isinstance(value, str):
        from abilities.clients.entry import holds_password

        if holds_password(value):
            raise click.BadParameter(
                "it holds a password, and every user of this machine can read a command line; "
                "put store_url into the settings file, or set ABILITIES_STORE_URL",
                context,
                parameter,
            )

    _keep_option(context, parameter, value)


def format_options(options: Options) -> list[str]:
    """Return options as the words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]

    return words


def take_namespace(words: str) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that gives a command the option --namespace with a help of its own."""
    return click.option(
        NAMESPACE, metavar="NAME", expose_value=False, callback=_keep_namespace, help=words
    )


def _refuse_namespace(context: click.Context, parameter: click.Parameter, value: object) -> None:
    _keep_namespace(context, parameter, value)

    if "namespace" in find_options(context):
        raise click.UsageError(
            f"{context.info_name} works on the whole store, with all its namespaces; "
            f"leave out {NAMESPACE}",
            context,
        )


# Hidden, because it is there to be refused, before the command's name and after it.
whole_store = click.option(NAMESPACE, expose_value=False, callback=_refuse_namespace, hidden=True)
"""Marks a command that knows no namespaces, so that nobody believes that it worked on one."""


SHARED = (
    click.Option(
        ["--workspace-dir"],
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_keep_option,
        help="The folder to read files from (default: the current one, unless it must not be "
        "shared, such as '/' or your home).",
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
        callback=_keep_store_url,
        help="Where memories are stored (default: sqlite:///~/.abilities/memory.db).",
    ),
    click.Option(
        [NAMESPACE],
        metavar="NAME",
        expose_value=False,
        callback=_keep_namespace,
        help="Whose files and memories these are (default: the configured namespace).",
    ),
)
"""The settings that every command takes as options."""


def share_options(command: click.Command) -> None:
    """Give a command, and those of a group, the shared options that it has no own form of."""
    own = {parameter.name for parameter in command.params}
    command.params += [option for option in SHARED if option.name not in own]

    if isinstance(command, click.Group):
        for inner in command.commands.values():
            share_options(inner)
