"""Errors of a command, as sentences for the person who runs it.

A group of commands, whose errors help whoever typed them.
"""

import errno
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from typing_extensions import override


class Commands(click.Group):
    """A group of commands that says what an unknown one probably means."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # While a shell completes a line, no name is wrong yet.
        if args and args[0] not in self.list_commands(ctx) and not ctx.resilient_parsing:
            # Only a mistake imports the names of all abilities.
            from abilities.cli.mistakes import suggest_command

            ctx.fail(f"No such command {args[0]!r}. {suggest_command(self, ctx, args)}")

        return super().resolve_command(ctx, args)


# Every command line begins with this module, also one that asks for help: what its functions need
# is imported by them.

_REFUSAL_HINTS = {
    "memory_not_found": "'abilities call memory_list' shows which there are.",
    "schema_too_new": "Install that version of the package, or a newer one.",
    "schema_unpublished": "Run `abilities export` of the checkout that made it, and "
    "`abilities import` of this one.",
}
"""What to do about a refusal, by its reason, if the sentence does not say it."""

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
"""What to do about a file that cannot be used, by the system's number of the error."""


_HEAD = "Error: "
"""What click begins each message with."""


class UsageErrorInLines(click.UsageError):
    """A usage error of several lines, in none of which foreign text begins another one."""

    def __init__(self, *lines: str) -> None:
        from abilities.cli.terminal import escape_text

        super().__init__("\n".join(map(escape_text, lines)))


class SettingsError(click.ClickException):
    """Settings that cannot be used, in one line or several; the command line itself may be right.

    In none of its lines foreign text begins another one.
    """

    exit_code = 2

    def __init__(self, *lines: str) -> None:
        from abilities.cli.terminal import escape_text

        super().__init__("\n".join(map(escape_text, lines)))


def end_sentence(text: str) -> str:
    """Return a text with a full stop, unless it ends as a sentence already."""
    if text.endswith((".", "?", "!", ":")):
        return text

    return f"{text}."


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
        words = f"{error.message} {hint}" if hint else error.message
        raise click.ClickException(words) from None
    except FileExistsError as error:
        path = error.filename or error
        words = f"{path} already exists; nothing was changed. Choose another name."
        raise click.ClickException(words) from None
    except (UnusableLine, NotAStore, UnsoundCopy) as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:
        raise  # who read the output wants no more
    except OSError as error:
        raise click.ClickException(_describe_file_error(error)) from None


@contextmanager
def explain_stop(describe: Callable[[], str]) -> Generator[None]:
    """If the block is stopped, by Ctrl-C or an error, say how far it came and what to do."""
    try:
        yield
    except BaseException as error:
        from asyncio import CancelledError

        from abilities.cli.terminal import echo
        from abilities.declarations.refusals import Refused

        # Ctrl-C cancels what an event loop runs.
        if isinstance(error, KeyboardInterrupt | CancelledError | Refused | OSError):
            echo(describe(), err=True)
        raise


@contextmanager
def show_errors(root: click.Group) -> Generator[None]:
    """Turn errors of the block, a command line of ``root``, into sentences that fit the terminal.

    Whatever they quote neither steers the terminal nor begins a line.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # it is the help
    except click.ClickException as error:
        from abilities.cli.mistakes import explain_mistake
        from abilities.cli.terminal import escape_text, wrap_text

        if isinstance(error, (UsageErrorInLines, SettingsError)):
            words = error.message
        else:
            sentence, *more = map(escape_text, explain_mistake(error, root))
            words = "\n".join([end_sentence(sentence), *more])

        lines = wrap_text(f"{_HEAD}{words}", sys.stderr).removeprefix(_HEAD)
        shown = click.ClickException(lines)
        if isinstance(error, click.UsageError):
            shown = click.UsageError(lines, error.ctx)

        # For type checkers it belongs to the class.
        vars(shown)["exit_code"] = error.exit_code
        raise shown from None


def _describe_file_error(error: OSError) -> str:
    """Return what is wrong with a file and what to do, if that is known."""
    words = f"{error.filename or 'the output'}: {describe_os_error(error)}"
    hint = _FILE_HINTS.get(error.errno or 0)

    return f"{words}; {hint}" if hint else words


def describe_os_error(error: OSError) -> str:
    """Return the system's words for an error, without what Python adds to them."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)

    # Name resolution has numbers of its own, which are negative.
    return error.strerror or str(error)
