"""The options that many commands share; they count before a command's name and after it."""

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
    namespace: str
    tools: tuple[str, ...]


def find_options(context: click.Context) -> Options:
    """Return the shared options of a command line; those that are read later join them."""
    options: Options = context.meta.setdefault(_OPTIONS, Options())
    return options


def keep_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
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

    keep_option(context, parameter, value)


def format_options(options: Options) -> list[str]:
    """Return options as the words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]

    return words


def take_namespace(
    words: str = "Whose files and memories these are (default: the configured namespace).",
) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that gives a command the option --namespace, with words for its help."""
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
