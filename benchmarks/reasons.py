"""Why rows fall short of our own goals, as docs/performance.md says it."""

from typing import NamedTuple

from benchmarks.measure import Measured
from benchmarks.peers import DEFAULT_BOUND, LARGE_BOUND


class Reason(NamedTuple):
    """The limit of all rows that begin alike, at one bound or, with None, at any."""

    beginning: str
    bound: int | None
    why: str

    def explains(self, result: Measured) -> bool:
        """Return whether it is the limit of a row."""
        same_bound = self.bound is None or self.bound == result.bound
        return same_bound and result.what.startswith(self.beginning)


REASONS = (
    Reason(
        "25 files of 16 KB over MCP",
        DEFAULT_BOUND,
        "seven calls of 1.6 to 2.2 ms: each opens all files that are left, to know their sizes"
        " (0.3 ms), reads four and looks for secrets in them (0.4 ms), makes and renders their"
        " records (0.2 ms), and wakes threads and processes four times (0.3 ms); set"
        " `max_response_bytes` higher if your client takes longer replies",
    ),
    Reason(
        "25 files of 16 KB over MCP",
        LARGE_BOUND,
        "of 5 ms, reading and looking for secrets takes 1.9 ms, rendering 1 ms, the way to the"
        " client 1 ms",
    ),
    Reason(
        "25 files of 1 KB over MCP",
        None,
        "a call has a cost of its own, and the files are too small to hide it",
    ),
    Reason("25 real sources over MCP", None, "as with 25 files of 16 KB"),
    Reason("20,000 characters of each", None, "as with 25 files of 16 KB"),
    Reason(
        "tokens of 25 real sources",
        DEFAULT_BOUND,
        "each reply names what it left out, and again in its `next_request`",
    ),
    Reason(
        "safe reader against a bare loop",
        None,
        "of 17 microseconds per file of 1 KB, the bare loop takes 2, because system calls are very"
        " cheap on this machine; looking for secrets takes 5, and about 1.7 ms per MB in larger"
        " files, all of it in the engine; the rest is 57 short calls of Python functions: two roots"
        " that are opened and watched for stalls, status, the package's own files, the deny list,"
        " the range, decoding and the record. The ratio without the search stands beside",
    ),
    Reason(
        "ms, p99, for a write of eight processes",
        None,
        "one process writes at a time, and each write waits for the disk: at the rate that stands"
        " beside, a turn of all eight takes a quarter of that time, and the lock is polled, so that"
        " some wait for a few turns",
    ),
    Reason(
        "ms for a page behind",
        None,
        "by an offset, SQLite steps over 900,000 entries of the index, 0.1 microseconds each;"
        " `next_request` goes on by a cursor, in less than half a millisecond",
    ),
    Reason(
        "25 files of 16 KB in LangChain",
        None,
        "of our 0.9 ms, a quarter is LangChain's own cost of a tool call, which each of the 25 pays"
        " too; most of the rest is reading, looking for secrets and measuring 400 KB",
    ),
    Reason("25 real sources in LangChain", None, "as with 25 files of 16 KB"),
    Reason(
        "a rare text among 1,000 memories",
        None,
        "the official server searches its whole file, which is fast while the file is small",
    ),
    Reason(
        "walks per second, 64 callers",
        None,
        "callers share one reader thread, and the hop between threads costs as much as a walk",
    ),
    Reason(
        "PostgreSQL: walks per second, two server processes",
        None,
        "the database, two servers and the callers shared two cores",
    ),
)


def list_reasons(short: list[Measured]) -> list[str]:
    """Return the reasons of rows that fall short, as lines of a Markdown list."""
    return [format_reason(reason) for reason in REASONS if any(map(reason.explains, short))]


def format_reason(reason: Reason) -> str:
    """Return a reason as a line of a Markdown list."""
    at = f", at {reason.bound:,}" if reason.bound else ""
    return f"- {reason.beginning}{at}: {reason.why}."
