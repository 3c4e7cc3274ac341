"""Errors as sentences for the person at the terminal: the problem, and the way out.

Every command line imports this module, even one that asks for help, so its functions import their
dependencies themselves.
"""

import errno
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from typing_extensions import override

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
            # Imports the names of all abilities, so only after a mistake.
            from abilities.cli.mistakes import suggest_command

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
    from abilities.declarations.refusals import Refused
    from abilities.helpers.store.sqlite.backup import NotAStore, UnsoundCopy
    from abilities.helpers.transfer.export_lines import UnusableLine

    try:
        yield
    except Refused as error:
        hint = _REFUSAL_HINTS.get(error.reason)
        if error.did_you_mean is not None:
            hint = f"Did you mean {error.did_you_mean!r}?"
        words = f"{error.message} {hint}" if hint else error.message
        raise click.ClickException(words) from None
    except FileExistsError as error:
        path = error.filename or error
        words = f"{path} already exists; nothing was changed. Choose another name."
        raise click.ClickException(words) from None
    except (UnusableLine, NotAStore, UnsoundCopy) as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:
        raise  # the reader has closed the pipe, as `head` does
    except OSError as error:
        words = f"{error.filename or 'the output'}: {describe_os_error(error)}"
        hint = _FILE_HINTS.get(error.errno or 0)
        raise click.ClickException(f"{words}; {hint}" if hint else words) from None


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
        from abilities.cli.mistakes import explain_mistake
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
