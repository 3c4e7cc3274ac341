"""Settings from the command line: what is wrong with them is said as a usage error."""

from typing import Any

import click
from pydantic import ValidationError

from abilities.helpers.stores.opening import open_store
from abilities.settings import Settings


def load_settings(given: dict[str, Any]) -> Settings:
    """The settings of the options, the environment and the file. Raises click.UsageError."""
    try:
        settings = Settings(**given)
    except ValidationError as error:
        wrong = [
            f"  {'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        ]
        raise click.UsageError("the settings are not usable:\n" + "\n".join(wrong)) from None
    except (ValueError, OSError) as error:
        raise click.UsageError(f"the settings file cannot be used: {error}") from None
    try:
        open_store(settings.store_url, max_memories=settings.max_memories)
    except ValueError as error:
        raise click.UsageError(f"store_url: {error}") from None
    return settings


def load_shared_settings(given: dict[str, Any]) -> Settings:
    """Settings whose directories may be shared. Raises click.UsageError."""
    settings = load_settings(given)
    try:
        settings.check_roots()
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return settings
