"""Messages of the log, as a command shows them on stderr; a server has a log of its own there."""

import logging
import sys

from typing_extensions import override

from abilities.cli.text import echo, escape_lines


class _StoreHandler(logging.Handler):
    """Prints messages of a store, unless a server writes its own log."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().hasHandlers():
            echo(record.getMessage(), err=True)


class _TerminalFormatter(logging.Formatter):
    """Formats warnings and traces, which quote data: all lines but the first are indented."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return escape_lines(super().format(record)).replace("\n", "\n  ")


def show_warnings() -> None:
    """Let nothing in what is logged steer the terminal or forge a line, where no log is set up."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_TerminalFormatter())


def show_store_messages() -> None:
    """Show what a store tells people, such as how far a migration is, if stderr is a terminal."""
    if not sys.stderr.isatty():
        return

    logger = logging.getLogger("abilities.store")
    logger.setLevel(logging.INFO)
    logger.addHandler(_StoreHandler())
