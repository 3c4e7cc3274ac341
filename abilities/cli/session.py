"""The session of one command line: what commands share, made at most once and only when needed."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TextIO, TypedDict

import click
from pydantic import ValidationError

from abilities.application import Abilities, open_store
from abilities.cli.errors import UsageErrorInLines
from abilities.cli.stdout import claim_stdout, divert_stdout
from abilities.helpers.stores.protocol import ServableStore
from abilities.offer import build_offer
from abilities.registry import AbilityRegistry
from abilities.settings import Settings


class Options(TypedDict, total=False):
    """Settings from options of the command line; an option that was not given is absent."""

    workspace_dir: Path
    agent_dir: Path
    namespace: str
    tools: tuple[str, ...]


class Session:
    """What the commands of one command line share.

    Settings are loaded, plugins are discovered and the store is opened when a command first needs
    them. What is wrong with the settings is raised as click.UsageError: sentences for people, and
    exit code 2.
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
        """The settings: options, then the environment, then the file. Raises click.UsageError."""
        try:
            return Settings(**self._options)
        except ValidationError as error:
            raise UsageErrorInLines(*_describe_invalid_settings(error)) from None
        except (ValueError, OSError) as error:
            raise click.UsageError(f"the settings file cannot be used: {error}") from None

    @cached_property
    def shareable_settings(self) -> Settings:
        """The settings, if their directories may be shared. Raises click.UsageError."""
        try:
            self.settings.check_roots()
        except ValueError as error:
            raise click.UsageError(str(error)) from None

        return self.settings

    @cached_property
    def stdout(self) -> TextIO:
        """The stream for what a command prints; plugins print to stderr once this was read."""
        return claim_stdout()

    @property
    def registry(self) -> AbilityRegistry:
        """The abilities that are offered. Raises click.UsageError."""
        return self._discovery[0]

    @property
    def plugin_problems(self) -> list[str]:
        """One sentence per plugin that did not load. Raises click.UsageError."""
        return self._discovery[1]

    @cached_property
    def _discovery(self) -> tuple[AbilityRegistry, list[str]]:
        with divert_stdout():
            try:
                offer, problems = build_offer(self.settings)
            except ValueError as error:
                raise click.UsageError(str(error)) from None

        return offer.registry, problems

    @asynccontextmanager
    async def open_application(self) -> AsyncGenerator[Abilities]:
        """Open the application for the length of a block. Raises click.UsageError.

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
                raise click.UsageError(str(error)) from None

            yield abilities.for_caller("cli")

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[ServableStore]:
        """Open the store alone for the length of a block, however long that takes.

        Raises click.UsageError, Refused.
        """
        settings = self.settings

        # The form of the URL is known to be right; what the store needs may not be installed.
        try:
            store = open_store(settings)
        except ValueError as error:
            raise click.UsageError(f"store_url: {error}") from None

        try:
            await store.prepare()
            yield store
        finally:
            await store.close()

    async def remember_tokens(self) -> None:
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


def _describe_invalid_settings(error: ValidationError) -> list[str]:
    lines = ["these settings are invalid:"]

    for problem in error.errors():
        # Pydantic puts its own words before those of our validators.
        name = ".".join(map(str, problem["loc"]))
        lines.append(f"  {name}: {problem['msg'].removeprefix('Value error, ')}")

    return lines
