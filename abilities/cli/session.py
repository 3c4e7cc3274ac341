"""The session of one command line: settings, abilities and the store, each opened when first used.

A session also explains failures: which setting is wrong and where it is set, and the remedy for a
store that does not open.
"""

import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property
from typing import Any, TextIO

import click
from pydantic import ValidationError
from typing_extensions import override

from abilities.application import Abilities, build_offer, open_store
from abilities.cli.errors import SettingsError, end_sentence
from abilities.cli.options import Options, format_examples
from abilities.cli.terminal import claim_stdout, divert_stdout, echo, escape_lines, format_count
from abilities.declarations.refusals import Fault, Refused
from abilities.helpers.store.opening import is_store_header
from abilities.helpers.store.protocol import ServableStore
from abilities.registry import AbilityRegistry
from abilities.settings import (
    PREFIX,
    Settings,
    explain_unknown,
    find_origin,
    list_unknown_variables,
)

_HEADER_BYTES = 100

_MAX_SHOWN = 4
"""The number of wrong settings, or of unknown variables, that are named."""

_MENDING = {
    "storage_moved": "put the file back where it was, with its -wal and -shm files, which hold "
    "memories; if only those are missing, stop all that uses the store, then start it again",
    "corrupted": "stop what uses the store, then: abilities repair, "
    "or abilities restore BACKUP --replace",
    "schema_too_new": "install the version that wrote the store, or a newer one",
    "schema_unpublished": "run `abilities export` of the checkout that made the store, and "
    "`abilities import` of this one",
    "schema_too_old": "let a user who may write to the store open it once",
    "storage_denied": "for a file, let this user read and write it and its folder; for a database, "
    "check the role and password in store_url, and the role's rights",
    "storage_missing": "create the database, or correct its name at the end of store_url",
    "storage_full": "make room on the disk of the store",
    "unavailable": "check that the database runs and that store_url names it",
    "io_error": "check the disk of the store, and what this process may write (ulimit -f)",
    "busy": "end the program that holds the store, or wait for it",
}
"""The remedy for a store that fails, by the reason."""


def choose_mend(reason: str, settings: Settings) -> str | None:
    """Return the remedy for a store that does not answer; None if waiting is all there is to do."""
    path = settings.store_path
    if path is None:
        return _MENDING.get(reason)

    # First look for reasons why there cannot be a store at this place.
    with suppress(OSError):
        if path.is_dir():
            return f"store_url names the folder {path}; name a file in it, as {path / 'memory.db'}"

        nearest = next(parent for parent in path.parents if parent.exists())
        if not nearest.is_dir():
            return f"store_url leads through {nearest}, which is no folder; name another place"

        # No repair helps if the file was never a store. An empty file becomes one.
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                beginning = file.read(_HEADER_BYTES)
            if not is_store_header(beginning):
                return (
                    f"{path} does not begin as a store does; let store_url name another file, "
                    "or, if it was one: abilities restore BACKUP --replace"
                )

    return _MENDING.get(reason)


def describe_failure(fault: Fault, settings: Settings) -> str | None:
    """Return a store's failure and its remedy; None if the fault is not the store's."""
    if fault.reason not in _MENDING:
        return None

    return f"{fault.message} What to do: {choose_mend(fault.reason, settings)}."


class _StoreHandler(logging.Handler):
    """Prints messages of a store, unless a server has set up its log."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().hasHandlers():
            echo(record.getMessage(), err=True)


class _TerminalFormatter(logging.Formatter):
    """Formats warnings and traces, which quote data: lines after the first are indented."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return escape_lines(super().format(record)).replace("\n", "\n  ")


def show_warnings() -> None:
    """Escape the warnings that are printed to stderr if no log is set up."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_TerminalFormatter())


def show_store_messages() -> None:
    """Show the messages of a store, such as the progress of a migration, on a terminal."""
    if not sys.stderr.isatty():
        return

    logger = logging.getLogger("abilities.store")
    logger.setLevel(logging.INFO)
    logger.addHandler(_StoreHandler())


class Session:
    """The state that the commands of one command line share.

    Settings are loaded, plugins discovered and the store opened when a command first needs them.
    Wrong settings raise SettingsError: sentences for people, and exit code 2.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        """The settings from the command line."""

    @property
    def given_namespace(self) -> str | None:
        """The namespace of the option --namespace; None if it was not given."""
        return self.options.get("namespace")

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that would give another process the same settings."""
        options = {name: str(value) for name, value in self.options.items()}
        if "tools" in self.options:
            options["tools"] = ",".join(self.options["tools"])

        given = {PREFIX + name.upper(): value for name, value in options.items()}
        return {**os.environ, **given}

    def override(self, options: Options) -> "Session":
        """Return a new session in which these options replace this one's."""
        return Session({**self.options, **options})

    @cached_property
    def settings(self) -> Settings:
        """The settings: options, then the environment, then the file. Raises SettingsError.

        Prints the unknown variables that look like settings; other programs set such variables too.
        """
        known = Settings.model_fields.keys()
        unknown = list_unknown_variables(known)
        for variable, name in unknown[:_MAX_SHOWN]:
            words = f"{variable} is ignored: {name} {explain_unknown(name, known)}"
            echo(end_sentence(words), err=True)

        if len(unknown) > _MAX_SHOWN:
            left = len(unknown) - _MAX_SHOWN
            rest = format_count(left, "more variable is", "more variables are")
            echo(f"{rest} ignored; 'abilities doctor' lists them.", err=True)

        try:
            return Settings(**self.options)
        except ValidationError as error:
            problems = error.errors()
            lines = ["these settings are invalid:"]
            for problem in problems[:_MAX_SHOWN]:
                name = ".".join(map(str, problem["loc"]))
                context = problem.get("ctx", {})
                place = self._find_place(str(problem["loc"][0])) or context["place"]
                lines.append(f"  {place}: {name} {end_sentence(context['words'])}")

            if len(problems) > _MAX_SHOWN:
                lines.append(f"  and {len(problems) - _MAX_SHOWN} more.")
            raise SettingsError(*lines) from None
        except ValueError as error:
            raise SettingsError(end_sentence(str(error))) from None

    @cached_property
    def shareable_settings(self) -> Settings:
        """The settings, if their directories may be shared. Raises SettingsError."""
        try:
            self.settings.check_roots()
        except ValueError as error:
            raise self.blame_setting(error) from None

        return self.settings

    @cached_property
    def stdout(self) -> TextIO:
        """The stream for the output of a command; once it is used, plugins print to stderr."""
        return claim_stdout()

    @property
    def registry(self) -> AbilityRegistry:
        """The abilities that are offered. Raises SettingsError."""
        return self._discovery[0]

    @property
    def plugin_problems(self) -> list[str]:
        """A sentence for each plugin that did not load. Raises SettingsError."""
        return self._discovery[1]

    @cached_property
    def _discovery(self) -> tuple[AbilityRegistry, list[str]]:
        with divert_stdout():
            try:
                offer, problems = build_offer(self.settings)
            except ValueError as error:
                raise self.blame_setting(error) from None

        return offer.registry, problems

    @asynccontextmanager
    async def open_application(self) -> AsyncGenerator[Abilities]:
        """Open the application for a block. Raises SettingsError.

        The application has its own registry. Take abilities from there, because `registry` of the
        session would discover plugins a second time.
        """
        settings = self.shareable_settings

        # Only errors of opening are wrong usage; errors of the block pass through.
        async with AsyncExitStack() as stack:
            try:
                with divert_stdout():
                    abilities = await stack.enter_async_context(Abilities.open(settings))
            except ValueError as error:
                raise self.blame_setting(error) from None

            yield abilities.for_caller("cli")

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[ServableStore]:
        """Open the store without the application for a block, however long opening takes.

        Raises SettingsError, Refused; click.ClickException if there is a known remedy.
        """
        # The URL was validated, but the driver of its database may be missing.
        try:
            store = open_store(self.settings)
        except ValueError as error:
            raise self.blame_setting(error) from None

        try:
            try:
                await store.prepare()
            except Refused as error:
                words = describe_failure(Fault.from_refusal(error), self.settings)
                if words is None:
                    raise
                raise click.ClickException(words) from None

            yield store
        finally:
            await store.close()

    def blame_setting(self, error: ValueError) -> SettingsError:
        """Return an error that adds where the setting is set whose name an error begins with."""
        sentence = str(error)
        name = sentence.partition(" ")[0].rstrip(":")
        place = self._find_place(name) if name in Settings.model_fields else None
        if place is None:
            return SettingsError(end_sentence(sentence))

        return SettingsError(end_sentence(sentence), f"It is set by {place}.")

    def _find_place(self, name: str) -> str | None:
        """Return where a setting is set; None for a default."""
        if name in self.options:
            return f"the option --{name.replace('_', '-')}"

        return find_origin(name)


_pass_session = click.make_pass_decorator(Session)


def define_command(
    *examples: str,
    group: click.Group | None = None,
    heading: str | None = None,
    **attributes: Any,
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that makes a command of a function, which gets the session first.

    The command has the function's name, without an underscore at the end. Its help is the
    function's docstring, and ends with the examples.
    """
    define = click.command if group is None else group.command

    def make_command(function: Callable[..., None]) -> click.Command:
        name = function.__name__.rstrip("_").replace("_", "-")
        epilog = format_examples(*examples, heading=heading)
        return define(name, epilog=epilog, **attributes)(_pass_session(function))

    return make_command
