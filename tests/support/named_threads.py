"""The command ``abilities``, run as a script: on SIGUSR1 it writes the names of its threads.

They stand in `NAMES_FILE` in the current folder, one per line.
"""

import os
import signal
import threading
from pathlib import Path

from abilities.cli.main import main

NAMES_FILE = "threads.txt"


def _write_names(*_: object) -> None:
    names = [thread.name for thread in threading.enumerate()]
    unfinished = Path(f"{NAMES_FILE}.new")
    unfinished.write_text("\n".join(names))
    os.rename(unfinished, NAMES_FILE)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _write_names)
    main(prog_name="abilities")
