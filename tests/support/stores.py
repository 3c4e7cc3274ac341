"""The file that holds a test's store."""

import sqlite3
from pathlib import Path
from typing import Any

from abilities import Settings
from abilities.helpers.store.model import hash_values


def store_file(settings: Settings) -> Path:
    assert settings.store_path is not None
    return settings.store_path


def tamper(settings: Settings, statement: str, *values: Any) -> None:
    with sqlite3.connect(store_file(settings)) as connection:
        connection.create_function("rehash", 16, lambda *row: hash_values(row))
        connection.create_function("link_hash", 7, lambda *link: hash_values(link))
        assert connection.execute(statement, values).rowcount == 1
    connection.close()
