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
        "of 9.7 ms for seven calls the client and the pipes take 1.3, as ready-made replies show,"
        " and the way to a thread and back 1.2, without which a slow disk would stop everything."
        " The wanted ratios leave 6.3 and 5.5 ms for the server. Its work alone takes 5.0 at best,"
        " on one thread with warm caches: 1.0 to look for secrets, 1.8 to open the files that are"
        " left in each call, to know their sizes, and the rest to read, and to make records and"
        " replies; between two calls the caches are others'. Set `max_response_bytes` higher if"
        " your client takes longer replies",
    ),
    Reason(
        "25 files of 16 KB over MCP",
        LARGE_BOUND,
        "of 3.7 ms the client and the pipe take 1.2, as ready-made replies show. The wanted ratios"
        " leave 0.9 and 1.3 ms for the server, whose work alone takes 1.8 at best, on one thread"
        " with warm caches; 0.7 of that is looking for secrets",
    ),
    Reason(
        "25 files of 1 KB over MCP",
        None,
        "a call has a cost of its own, and the files are too small to hide it",
    ),
    Reason(
        "25 real sources over MCP",
        DEFAULT_BOUND,
        "as with 25 files of 16 KB: five calls take 10.3 ms, client and pipes 1.2, the server's"
        " work alone 4.1 at best",
    ),
    Reason(
        "25 real sources over MCP",
        LARGE_BOUND,
        "of 3.8 ms the client and the pipe take 1.0; the wanted ratio leaves 1.6 ms for the server,"
        " whose work alone takes 1.7 at best",
    ),
    Reason("20,000 characters of each", None, "as with 25 files of 16 KB"),
    Reason(
        "tokens of 25 real sources",
        DEFAULT_BOUND,
        "each reply names what it left out, and again in its `next_request`",
    ),
    Reason(
        "safe reader against a bare loop",
        None,
        "7 against 1.2 microseconds per file: two roots, `fstat`, the deny list and the record take"
        " about 6 microseconds of Python, and system calls are very cheap on this machine",
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
