"""The session of one command line: what commands share, made at most once and only when needed.

What to do about a store that cannot be used, by the reason and by what is found at its place.

Messages of the log, as a command shows them on stderr; a server has a log of its own there.
"""

import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TextIO

import click
from pydantic import ValidationError
from typing_extensions import override

from abilities.application import Abilities, build_offer, open_store
from abilities.cli.errors import SettingsError, end_sentence
from abilities.cli.options import Options
from abilities.cli.terminal import claim_stdout, divert_stdout, echo, escape_lines, format_count
from abilities.declarations.refusals import Fault, Refused
from abilities.helpers.store.opening import is_store_header
from abilities.helpers.store.protocol import ServableStore
from abilities.registry import AbilityRegistry
from abilities.settings import Settings, explain_unknown, find_origin, list_unknown_variables

_HEADER_BYTES = 100

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
"""What to do by the fault's reason."""


def choose_mend(reason: str, settings: Settings) -> str | None:
    """Return what to do about a store that does not answer; None if it is only to wait."""
    mend = None
    if settings.store_path is not None:
        mend = _look_at_place(settings.store_path)

    return mend or _MENDING.get(reason)


def describe_failure(fault: Fault, settings: Settings) -> str | None:
    """Return what is wrong with a store and what to do; None if it is only to wait."""
    mend = choose_mend(fault.reason, settings) if fault.reason in _MENDING else None
    if mend is None:
        return None

    return f"{fault.message} What to do: {mend}."


def _look_at_place(path: Path) -> str | None:
    """Return what to do if there cannot be a store at a path."""
    try:
        if path.is_dir():
            return f"store_url names the folder {path}; name a file in it, as {path / 'memory.db'}"

        nearest = next(parent for parent in path.parents if parent.exists())
        if not nearest.is_dir():
            return f"store_url leads through {nearest}, which is no folder; name another place"

        # Nothing repairs what is no store at all. An empty file becomes one.
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                if not is_store_header(file.read(_HEADER_BYTES)):
                    return (
                        f"{path} does not begin as a store does; let store_url name another file, "
                        "or, if it was one: abilities restore BACKUP --replace"
                    )
    except OSError:
        return None

    return None


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


_MAX_SHOWN = 4
"""Wrong settings, or variables that are none, that are named at once."""


class Session:
    """What the commands of one command line share.

    Settings are loaded, plugins are discovered and the store is opened when a command first needs
    them. What is wrong with the settings is raised as SettingsError: sentences for people, and exit
    code 2.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    @property
    def given_namespace(self) -> str | None:
        """The namespace of the option; None if settings say it."""
        return self._options.get("namespace")

    def override(self, options: Options) -> "Session":
        """Return a new session in which these options replace this one's."""
        return Session({**self._options, **options})

    @property
    def options(self) -> Options:
        """The settings that come from options."""
        return self._options

    @cached_property
    def settings(self) -> Settings:
        """The settings: options, then the environment, then the file. Raises SettingsError."""
        _warn_of_unknown_variables()

        try:
            return Settings(**self._options)
        except ValidationError as error:
            raise SettingsError(*self._describe_invalid_settings(error)) from None
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
        """The stream for what a command prints; plugins print to stderr once this was read."""
        return claim_stdout()

    @property
    def registry(self) -> AbilityRegistry:
        """The abilities that are offered. Raises SettingsError."""
        return self._discovery[0]

    @property
    def plugin_problems(self) -> list[str]:
        """One sentence per plugin that did not load. Raises SettingsError."""
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
        """Open the application for the length of a block. Raises SettingsError.

        The application has a registry of its own: take the abilities from there, not from
        `registry`, which would discover plugins a second time.
        """
        settings = self.shareable_settings

        # Only what opening raises is wrong usage; what the block raises passes through.
        async with AsyncExitStack() as stack:
            try:
                with divert_stdout():
                    abilities = await stack.enter_async_context(Abilities.open(settings))
            except ValueError as error:
                raise self.blame_setting(error) from None

            yield abilities.for_caller("cli")

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[ServableStore]:
        """Open the store alone for the length of a block, however long that takes.

        Raises SettingsError, Refused; click.ClickException if it is known what to do.
        """
        settings = self.settings

        # The form of the URL is known to be right; what the store needs may not be installed.
        try:
            store = open_store(settings)
        except ValueError as error:
            raise self.blame_setting(error) from None

        try:
            await self._prepare(store)
            yield store
        finally:
            await store.close()

    def blame_setting(self, error: ValueError) -> SettingsError:
        """Return an error that says where the setting is set that an error begins with."""
        sentence = str(error)
        name = sentence.partition(" ")[0].rstrip(":")
        place = self._find_place(name) if name in Settings.model_fields else None
        if place is None:
            return SettingsError(end_sentence(sentence))

        return SettingsError(end_sentence(sentence), f"It is set by {place}.")

    def _find_place(self, name: str) -> str | None:
        """Return where a setting is set; None if that is nowhere."""
        if name in self._options:
            return f"the option --{name.replace('_', '-')}"

        return find_origin(name)

    def _describe_invalid_settings(self, error: ValidationError) -> list[str]:
        """Return a heading, and a line for each of the first mistakes."""
        problems = error.errors()
        lines = ["these settings are invalid:"]

        for problem in problems[:_MAX_SHOWN]:
            name = ".".join(map(str, problem["loc"]))
            context = problem.get("ctx", {})
            place = self._find_place(str(problem["loc"][0])) or context["place"]
            words = end_sentence(context["words"])
            lines.append(f"  {place}: {name} {words}")

        if len(problems) > _MAX_SHOWN:
            lines.append(f"  and {len(problems) - _MAX_SHOWN} more.")

        return lines

    async def _prepare(self, store: ServableStore) -> None:
        """Open a store; raise click.ClickException if it is known what to do about it."""
        try:
            await store.prepare()
        except Refused as error:
            words = describe_failure(Fault.from_refusal(error), self.settings)
            if words is None:
                raise

            raise click.ClickException(words) from None

    async def set_token_mark(self) -> None:
        """Let the store remember that there are tokens; do not wait for a long migration.

        Raises Refused; ValueError if the database driver of the store is not installed.
        """
        store = open_store(self.settings)

        try:
            await store.set_mark("tokens")
        finally:
            await store.close()


pass_session = click.make_pass_decorator(Session)
"""Gives a command the session as its first argument."""


def _warn_of_unknown_variables() -> None:
    """Say which variables look like settings and are none; programs set such variables too."""
    known = Settings.model_fields.keys()
    unknown = list_unknown_variables(known)

    for variable, name in unknown[:_MAX_SHOWN]:
        words = f"{variable} is ignored: {name} {explain_unknown(name, known)}"
        echo(end_sentence(words), err=True)

    if len(unknown) > _MAX_SHOWN:
        rest = format_count(len(unknown) - _MAX_SHOWN, "more variable")
        echo(f"Ignored are {rest}, which 'abilities doctor' lists.", err=True)
