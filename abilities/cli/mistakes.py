"""Suggestions for a mistyped command line: the probable intention, and how to type it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from abilities.builtin.index import NAMES
from abilities.declarations.suggestions import suggest_ability, suggest_value

_COMMANDS = {
    "ls": "list",
    "abilities": "list",
    "tools": "list",
    "start": "serve",
    "run": "serve",
    "web": "explore",
    "ui": "explore",
    "ask": "recall",
    "find": "recall",
    "query": "recall",
    "search": "recall",
    "config": "doctor",
    "status": "doctor",
    "test": "doctor",
    "configure": "setup",
    "connect": "setup",
    "install": "setup",
    "dump": "export",
    "load": "import",
    "fix": "repair",
    "verify": "check",
    "forget": "purge",
    "add": "call store_memory",
    "save": "call store_memory",
    "store": "call store_memory",
    "delete": "call delete_memory",
    "remove": "call delete_memory",
    "help": "--help",
    "version": "--version",
    "token create": "token add",
    "token new": "token add",
    "token ls": "token list",
    "token show": "token list",
    "token delete": "token revoke",
    "token remove": "token revoke",
    "token rm": "token revoke",
}
"""Our commands by the names that other programs use for them."""

_OPTIONS = {
    "cwd": "--workspace-dir",
    "dir": "--workspace-dir",
    "directory": "--workspace-dir",
    "folder": "--workspace-dir",
    "path": "--workspace-dir",
    "root": "--workspace-dir",
    "workspace": "--workspace-dir",
    "agent": "--agent-dir",
    "database": "--store-url",
    "db": "--store-url",
    "store": "--store-url",
    "user": "--namespace",
    "address": "--host",
    "bind": "--host",
    "out": "--output",
    "file": "--output",
    "force": "--replace",
    "overwrite": "--replace",
    "max-depth": "--depth",
    "scopes": "--scope",
    "name": "--label",
}
"""Our options by the names that other programs use for them."""

_PLAIN_WORD = re.compile(r"[\w-]{1,64}")


def suggest_command(group: click.Group, context: click.Context, args: Sequence[str]) -> str:
    """Return a sentence about an unknown command, such as "Did you mean 'abilities list'?"."""
    name = args[0]
    inner = "" if context.parent is None else f"{context.info_name} "
    known = group.list_commands(context)

    close = suggest_value(name, known)
    if close is not None and name not in NAMES:
        return f"Did you mean 'abilities {inner}{close}'?"

    words = _COMMANDS.get(f"{inner}{name}".lower())
    if name in NAMES:
        words = f"call {name}"
    elif len(args) > 1 and args[1] in known and _PLAIN_WORD.fullmatch(name):
        words = f"{args[1]} {name}"
    elif words is None and not inner:
        ability = suggest_ability(name, NAMES)
        words = ability and f"call {ability}"

    if words is None:
        return f"'abilities {inner}--help' lists them."

    return f"Did you mean 'abilities {words}'?"


def explain_mistake(error: click.ClickException, root: click.Group) -> list[str]:
    """Return the mistake in a command line of ``root``, then lines that can be typed instead."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    words = " ".join(error.format_message().split())

    if isinstance(error, click.BadOptionUsage):
        # The option lacks its value: show how it is written.
        for path, command in _walk(root):
            for parameter in command.params:
                is_shown = isinstance(parameter, click.Option) and not parameter.hidden
                if is_shown and error.option_name in parameter.opts:
                    metavar = parameter.make_metavar(click.Context(command, info_name=path))
                    return [words, f"Write it after the option: {error.option_name} {metavar}"]
    elif isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        return [_explain_value(error, words)]

    if context is None:
        return [words]
    if isinstance(error, click.NoSuchOption):
        return [f"No such option {error.option_name!r}. {_suggest_option(error, context, root)}"]
    if isinstance(error, click.MissingParameter):
        found = re.search(r"^  (abilities .+)$", context.command.epilog or "", re.MULTILINE)
        return [words, f"For example: {found[1]}"] if found else [words]
    if not words.startswith("Got unexpected extra argument"):
        return [words]

    command = context.command
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    if not arguments:
        return [f"{words.rstrip('.')}. {command.name} takes none; leave it out."]

    names = " and ".join(argument.human_readable_name.strip("[]") for argument in arguments)
    return [
        f"{words.rstrip('.')}. {command.name} takes {names} only: leave it out, "
        "or put words with spaces in quotes."
    ]


def _suggest_option(error: click.NoSuchOption, context: click.Context, root: click.Group) -> str:
    """Return a sentence about an option that a command does not have."""
    name = error.option_name.lstrip("-")
    offered = _list_options(context.command)

    if len(name) == 1:
        alike = [option for option in offered if option.startswith(f"--{name}")]
    else:
        meant = _OPTIONS.get(name.lower())
        close = suggest_value(name, offered)
        alike = [option for option in (meant, close) if option in offered][:1]
    if alike:
        return f"Did you mean {' or '.join(map(repr, alike))}?"

    others = [path for path, command in _walk(root) if error.option_name in _list_options(command)]
    if others:
        return f"It is an option of {' and '.join(map(repr, others))}."

    return f"'{context.command_path} --help' lists the options."


def _explain_value(error: click.BadParameter, words: str) -> str:
    """Return click's sentence about a wrong value, with the allowed values or the likely one."""
    kind = None if error.param is None else error.param.type

    if isinstance(kind, click.IntRange):
        name = error.param_hint or (error.param and error.param.get_error_hint(error.ctx))
        return f"Invalid value for {name}: it must be a whole number from {kind.min} to {kind.max}."
    if isinstance(kind, click.Path) and words.endswith("is a directory."):
        return f"{words} Name a file in it."
    if isinstance(kind, click.Path) and words.endswith("does not exist."):
        return f"{words} Paths begin in the current folder, {Path.cwd()}."

    found = re.search(r": '(.{1,64}?)' is not one of ", words)
    if not isinstance(kind, click.Choice) or not found:
        return words

    alike = [choice for choice in kind.choices if choice.startswith(found[1])]
    close = suggest_value(found[1], kind.choices)
    if not alike and close is not None:
        alike = [close]

    return f"{words} Did you mean {' or '.join(alike)}?" if alike else words


def _list_options(command: click.Command) -> list[str]:
    """Return the options that the help of a command shows."""
    names: list[str] = []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names += [*parameter.opts, *parameter.secondary_opts]

    return names


def _walk(group: click.Group, path: str = "abilities") -> Iterator[tuple[str, click.Command]]:
    """Yield each command of a group and of its inner groups, after the words that call it."""
    context = click.Context(group)

    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _walk(command, f"{path} {name}")
        elif command is not None:
            yield f"{path} {name}", command
