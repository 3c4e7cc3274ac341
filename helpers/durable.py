"""Make changes to files durable."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make sure that a new, renamed or removed name in a folder survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
