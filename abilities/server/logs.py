"""The log of a server: JSON lines on stderr, one per call, per refused request and per problem."""

import logging
import sys

from pythonjsonlogger.orjson import OrjsonFormatter


def log_to_stderr() -> None:
    """Send the log messages of the package and of uvicorn to stderr as lines of JSON.

    The package logs from INFO on, everything else from WARNING on.
    """
    formatter = OrjsonFormatter("%(levelname)s %(name)s %(message)s", timestamp=True)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)

    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("abilities").setLevel(logging.INFO)
