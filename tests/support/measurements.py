"""What tests measured for the acceptance table, for `make torture` to show."""

import json
import os
from pathlib import Path

FILE = os.environ.get("ABILITIES_FIGURES")
# Opened at once and for good, because a test may write while it runs as another user.
LINES = Path(FILE).open("a") if FILE else None  # noqa: SIM115


def reached(figure: int, words: str) -> None:
    """Write down what was measured for a figure, if a file for it is named."""
    if LINES is None:
        return
    LINES.write(json.dumps([figure, words]) + "\n")
    LINES.flush()
