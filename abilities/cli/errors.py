"""Errors of a command, as sentences for the person who runs it."""

import os
from collections.abc import Generator
from contextlib import contextmanager

import click

# Every command line begins with this module, also one that asks for help: what its functions need
# is imported by them.


class UsageErrorInLines(click.UsageError):
    """A usage error of several lines, in none of which foreign text begins another one."""

    def __init__(self, *lines: str) -> None:
        from abilities.cli.text import escape_text

        super().__init__("\n".join(map(escape_text, lines)))


@contextmanager
def explain_errors() -> Generator[None]:
    """Turn expected errors of the block into click.ClickException: a sentence, and exit code 1."""
    from abilities.declarations.faults import Refused
    from abilities.helpers.stores.sqlite.backup import NotAStore, UnsoundCopy
    from abilities.helpers.transfer.export_lines import UnusableLine

    try:
        yield
    except Refused as error:
        raise click.ClickException(error.message) from None
    except FileExistsError as error:
        path = error.filename or error
        raise click.ClickException(f"{path} already exists; nothing was changed") from None
    except (UnusableLine, NotAStore, UnsoundCopy) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'the file'}: {error.strerror}") from None


@contextmanager
def escape_errors() -> Generator[None]:
    """Let whatever an error of the block quotes neither steer the terminal nor begin a line."""
    try:
        yield
    except UsageErrorInLines:
        raise
    except click.ClickException as error:
        from abilities.cli.text import escape_text

        # For type checkers it is final; every way in which click shows an error begins with it.
        vars(error)["message"] = escape_text(error.message)
        raise


def describe_os_error(error: OSError) -> str:
    """Return the system's words for an error, without what Python adds to them."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)

    # Name resolution has numbers of its own, which are negative.
    return error.strerror or str(error)
