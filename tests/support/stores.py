"""Where a test's store lies."""

from pathlib import Path

from abilities import Settings


def store_file(settings: Settings) -> Path:
    """The file of a store that is one."""
    assert settings.store_path is not None
    return settings.store_path
