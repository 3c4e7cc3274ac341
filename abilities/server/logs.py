"""The log of a server: one line of JSON on stderr for each call, each refused request, and whatever goes wrong."""

import logging
import sys

from pythonjsonlogger.orjson import OrjsonFormatter


def log_to_stderr() -> None:
    """Send what the package, its server and uvicorn have to say to stderr, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OrjsonFormatter("%(levelname)s %(name)s %(message)s", timestamp=True))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("abilities").setLevel(logging.INFO)
