"""What a test reached of a figure of the acceptance table, for `make torture` to show."""

import json
import os
from pathlib import Path

FILE = os.environ.get("ABILITIES_FIGURES")
OUT = Path(FILE).open("a") if FILE else None


def reached(figure: int, words: str) -> None:
    """Note it."""
    if OUT is not None:
        OUT.write(json.dumps([figure, words]) + "\n")
        OUT.flush()
