"""What a person who mistyped a command line probably meant, and what to type instead."""

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
"""Our commands by the words that other programs have for them."""

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
"""Our options by the words that other programs have for them."""

_PLAIN_WORD = re.compile(r"[\w-]{1,64}")


def suggest_command(group: click.Group, context: click.Context, args: Sequence[str]) -> str:
    """Return a sentence about a command that a group does not have."""
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
    """Return what is wrong with a command line of ``root``, and then lines that may be typed."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    words = " ".join(error.format_message().split())

    if isinstance(error, click.NoSuchOption) and context is not None:
        return [f"No such option {error.option_name!r}. {_suggest_option(error, context, root)}"]
    if isinstance(error, click.BadOptionUsage):
        return [words, *_show_option(error.option_name, root)]
    if isinstance(error, click.MissingParameter) and context is not None:
        return [words, *_show_example(context.command)]
    if isinstance(error, click.BadParameter):
        return [_explain_value(error, words)]
    if words.startswith("Got unexpected extra argument") and context is not None:
        return [f"{words.rstrip('.')}. {_explain_extra(context.command)}"]

    return [words]


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
        return f"It is an option of {' and '.join(repr(path) for path in others)}."

    return f"'{context.command_path} --help' lists those that there are."


def _show_option(name: str, root: click.Group) -> list[str]:
    """Return a line that shows how a value of an option is written."""
    for path, command in _walk(root):
        for parameter in command.params:
            if name in _list_options(command) and name in parameter.opts:
                metavar = parameter.make_metavar(click.Context(command, info_name=path))
                return [f"Write it after the option: {name} {metavar}"]

    return []


def _show_example(command: click.Command) -> list[str]:
    """Return a line with the first example of a command's help."""
    found = re.search(r"^  (abilities .+)$", command.epilog or "", re.MULTILINE)
    return [f"For example: {found[1]}"] if found else []


def _explain_value(error: click.BadParameter, words: str) -> str:
    kind = None if error.param is None else error.param.type

    if isinstance(kind, click.IntRange):
        name = error.param_hint or (error.param and error.param.get_error_hint(error.ctx))
        return f"Invalid value for {name}: it must be a whole number from {kind.min} to {kind.max}."
    if isinstance(kind, click.Choice):
        return _suggest_choice(kind, words)
    if isinstance(kind, click.Path) and words.endswith("is a directory."):
        return f"{words} Name a file in it."
    if isinstance(kind, click.Path) and words.endswith("does not exist."):
        return f"{words} Paths begin in the current folder, {Path.cwd()}."

    return words


def _suggest_choice(kind: click.Choice[str], words: str) -> str:
    """Return click's sentence about a wrong choice, with the one that was probably meant."""
    found = re.search(r": '(.{1,64}?)' is not one of ", words)
    if not found:
        return words

    alike = [choice for choice in kind.choices if choice.startswith(found[1])]
    close = suggest_value(found[1], kind.choices)
    if not alike and close is not None:
        alike = [close]

    return f"{words} Did you mean {' or '.join(alike)}?" if alike else words


def _explain_extra(command: click.Command) -> str:
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    if not arguments:
        return f"{command.name} takes none; leave it out."

    names = " and ".join(argument.human_readable_name.strip("[]") for argument in arguments)
    return f"{command.name} takes {names} only: leave it out, or put words with spaces in quotes."


def _list_options(command: click.Command) -> list[str]:
    names: list[str] = []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names += [*parameter.opts, *parameter.secondary_opts]

    return names


def _walk(group: click.Group, path: str = "abilities") -> Iterator[tuple[str, click.Command]]:
    """Yield each command of a group, and of the groups in it, with the words that call it."""
    context = click.Context(group)

    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _walk(command, f"{path} {name}")
        elif command is not None:
            yield f"{path} {name}", command
