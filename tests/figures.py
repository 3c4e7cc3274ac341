"""What a test reached of a figure of the acceptance table, for `make torture` to show."""

import json
import os
from pathlib import Path

FILE = os.environ.get("ABILITIES_FIGURES")
"""Where to write it; read here, because tests run without such settings."""


def reached(figure: int, words: str) -> None:
    """Note it."""
    if FILE is not None:
        with Path(FILE).open("a") as out:
            out.write(json.dumps([figure, words]) + "\n")
