"""Errors as sentences for the person at the terminal: the problem, and the way out.

For a mistyped command line these are the probable intention, and how to type it.

Every command line imports this module, even one that asks for help, so its functions import their
dependencies themselves.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from typing_extensions import override

from abilities.declarations.suggestions import suggest_ability, suggest_value

_REFUSAL_HINTS = {
    "memory_not_found": "'abilities call memory_list' lists the memories.",
    "schema_too_new": "Install that version of the package, or a newer one.",
    "schema_unpublished": "Run `abilities export` of the checkout that made it, and "
    "`abilities import` of this one.",
}
"""Remedies that the sentence of a refusal lacks, by its reason."""

_FILE_HINTS = {
    errno.ENOENT: "create its folder, or name another place",
    errno.ENOTDIR: "a part of this path is a file; name another place",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "choose a place where this user has rights",
    errno.EPERM: "choose a place where this user has rights",
    errno.EROFS: "choose a place that can be written",
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.EFBIG: "a limit of this process is smaller (ulimit -f); raise it",
}
"""Remedies for a file that cannot be used, by the error number."""

_HEAD = "Error: "
"""The prefix that click gives each message."""


class Commands(click.Group):
    """A group of commands that suggests a known command for an unknown one."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # A name that a shell completes is still unfinished, not wrong.
        if args and args[0] not in self.list_commands(ctx) and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. {suggest_command(self, ctx, args)}")

        return super().resolve_command(ctx, args)


class ErrorInLines(click.ClickException):
    """An error of several lines, with the foreign text in each escaped."""

    def __init__(self, *lines: str) -> None:
        from abilities.cli.terminal import escape_text

        super().__init__("\n".join(map(escape_text, lines)))


class UsageErrorInLines(ErrorInLines, click.UsageError):
    """A wrong command line, explained in several lines."""


class SettingsError(ErrorInLines):
    """Settings that cannot be used; the command line itself may be right."""

    exit_code = 2


def end_sentence(text: str) -> str:
    """Return a text with a full stop, unless it ends as a sentence already."""
    if text.endswith((".", "?", "!", ":")):
        return text

    return f"{text}."


def describe_os_error(error: OSError) -> str:
    """Return the system's words for an error, such as "Permission denied"."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)

    # Errors of name resolution have negative numbers, which strerror does not know.
    return error.strerror or str(error)


@contextmanager
def explain_errors() -> Generator[None]:
    """Turn expected errors of the block into click.ClickException: a sentence, and exit code 1."""
    try:
        yield
    except (click.ClickException, BrokenPipeError):
        raise  # the latter if the reader has closed the pipe, as `head` does
    except Exception as error:
        words = _describe_error(error)
        if words is None:
            raise
        raise click.ClickException(words) from None


def _describe_error(error: Exception) -> str | None:
    """Return a sentence about an expected error; None for any other."""
    from abilities.declarations.refusals import AbilitiesError, Refused

    if isinstance(error, Refused):
        hint = _REFUSAL_HINTS.get(error.reason)
        if error.did_you_mean is not None:
            hint = f"Did you mean {error.did_you_mean!r}?"
        return f"{error.message} {hint}" if hint else error.message

    if isinstance(error, AbilitiesError):
        return str(error)
    if isinstance(error, FileExistsError):
        path = error.filename or error
        return f"{path} already exists; nothing was changed. Choose another name."
    if isinstance(error, OSError):
        words = f"{error.filename or 'the output'}: {describe_os_error(error)}"
        hint = _FILE_HINTS.get(error.errno or 0)
        return f"{words}; {hint}" if hint else words

    return None


@contextmanager
def explain_stop(describe: Callable[[], str]) -> Generator[None]:
    """If Ctrl-C or an expected error stops the block, print ``describe()``: how to go on."""
    try:
        yield
    except BaseException as error:
        from asyncio import CancelledError

        from abilities.cli.terminal import echo
        from abilities.declarations.refusals import Refused

        # Ctrl-C cancels the task of an event loop.
        if isinstance(error, KeyboardInterrupt | CancelledError | Refused | OSError):
            echo(describe(), err=True)
        raise


@contextmanager
def show_errors(root: click.Group) -> Generator[None]:
    """Explain errors of the block, a command line of ``root``, and wrap them for the terminal.

    Quoted text is escaped, and no line of it looks like one of ours.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # it is the help
    except click.ClickException as error:
        from abilities.cli.terminal import escape_text, wrap_text

        if isinstance(error, ErrorInLines):
            words = error.message
        else:
            sentence, *more = map(escape_text, explain_mistake(error, root))
            words = "\n".join([end_sentence(sentence), *more])

        lines = wrap_text(f"{_HEAD}{words}", sys.stderr).removeprefix(_HEAD)
        shown = click.ClickException(lines)
        if isinstance(error, click.UsageError):
            shown = click.UsageError(lines, error.ctx)

        # Type checkers take exit_code for an attribute of the class.
        vars(shown)["exit_code"] = error.exit_code
        raise shown from None


def _index(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {other: ours for ours, others in names.items() for other in others}


_COMMANDS = _index(
    {
        "list": ("ls", "abilities", "tools"),
        "serve": ("start", "run"),
        "explore": ("web", "ui"),
        "recall": ("ask", "find", "query", "search"),
        "doctor": ("config", "status", "test"),
        "setup": ("configure", "connect", "install"),
        "export": ("dump",),
        "import": ("load",),
        "repair": ("fix",),
        "check": ("verify",),
        "purge": ("forget",),
        "call store_memory": ("add", "save", "store"),
        "call delete_memory": ("delete", "remove"),
        "--help": ("help",),
        "--version": ("version",),
        "token add": ("token create", "token new"),
        "token list": ("token ls", "token show"),
        "token revoke": ("token delete", "token remove", "token rm"),
    }
)
"""Our commands by the names that other programs use for them."""

_OPTIONS = _index(
    {
        "--workspace-dir": ("cwd", "dir", "directory", "folder", "path", "root", "workspace"),
        "--agent-dir": ("agent",),
        "--store-url": ("database", "db", "store"),
        "--namespace": ("user",),
        "--host": ("address", "bind"),
        "--output": ("out", "file"),
        "--replace": ("force", "overwrite"),
        "--depth": ("max-depth",),
        "--scope": ("scopes",),
        "--label": ("name",),
    }
)
"""Our options by the names that other programs use for them."""

_PLAIN_WORD = re.compile(r"[\w-]{1,64}")


def suggest_command(group: click.Group, context: click.Context, args: Sequence[str]) -> str:
    """Return a sentence about an unknown command, such as "Did you mean 'abilities list'?"."""
    from abilities.builtin.index import NAMES

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
