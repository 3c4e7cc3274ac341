"""The file that holds a test's store."""

from pathlib import Path

from abilities import Settings


def store_file(settings: Settings) -> Path:
    """Return the path of a store that is a file."""
    assert settings.store_path is not None
    return settings.store_path
