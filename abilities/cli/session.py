"""The session of one command line: what commands share, made at most once and only when needed."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TextIO

import click
from pydantic import ValidationError

from abilities.application import Abilities, open_store
from abilities.cli.errors import SettingsError, end_sentence
from abilities.cli.mending import describe_failure
from abilities.cli.options import Options
from abilities.cli.stdout import claim_stdout, divert_stdout
from abilities.cli.text import echo, format_count
from abilities.declarations.faults import Fault, Refused
from abilities.helpers.store.protocol import ServableStore
from abilities.offer import build_offer
from abilities.origins import find_origin, list_unknown_variables
from abilities.registry import AbilityRegistry
from abilities.setting_errors import explain_unknown
from abilities.settings import Settings

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
