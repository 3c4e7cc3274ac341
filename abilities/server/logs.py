"""The log of a server: JSON lines on stderr, one per call, per refused request and per problem."""

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from pythonjsonlogger.orjson import OrjsonFormatter
from typing_extensions import override

from abilities.declarations.values import escape_unseen

MAX_REPEATS = 5
"""Lines of one kind and one caller that are written per second."""

_CALLS = "abilities.calls"
_SUMMARY = {"name": "abilities", "levelno": logging.WARNING, "levelname": "WARNING"}


class _Formatter(OrjsonFormatter):
    """Formats every message as a line of JSON, whatever text is in it."""

    @override
    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        try:
            line = super().jsonify_log_record(log_data)
        except TypeError:  # a lone surrogate, which orjson cannot write
            line = json.dumps(log_data, default=str)

        # JSON leaves some characters as they are that a terminal obeys.
        return escape_unseen(line)


class LineLimit:
    """Lets the first lines of each kind pass in a second, and counts the others.

    ``clock`` returns seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._counts: dict[str, int] = {}

    def collect(self) -> dict[str, int]:
        """Begin another second if it is time; return how many lines of each kind were left out."""
        now = self._clock()
        if now - self._began < 1:
            return {}

        counts = self._counts
        self._counts = {}
        self._began = now

        return {kind: n - MAX_REPEATS for kind, n in counts.items() if n > MAX_REPEATS}

    def admit(self, kind: str) -> bool:
        """Whether another line of a kind is to be written."""
        count = self._counts.get(kind, 0) + 1
        self._counts[kind] = count
        return count <= MAX_REPEATS


class _BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes the lines of calls, and as many others as the limit admits.

    How many were left out is written with the first line after that second.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._limit = LineLimit(time.monotonic)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        for kind, count in self._limit.collect().items():
            summary = {"msg": "lines left out", "kind": kind, "lines": count}
            super().emit(logging.makeLogRecord({**_SUMMARY, **summary}))

        if record.name == _CALLS or self._limit.admit(_name_kind(record)):
            super().emit(record)


def _name_kind(record: logging.LogRecord) -> str:
    """Return what repeats: the message before its values are filled in, and whose it is."""
    token = getattr(record, "token", None)
    words = f"{record.name}: {record.msg}"[:100]

    if token is None:
        return words

    return f"{words} ({token})"


def log_to_stderr() -> None:
    """Send the log messages of the package and of uvicorn to stderr as lines of JSON.

    The package logs from INFO on, everything else from WARNING on.
    """
    formatter = _Formatter("%(levelname)s %(name)s %(message)s", timestamp=True)
    handler = _BoundedHandler()
    handler.setFormatter(formatter)

    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("abilities").setLevel(logging.INFO)
