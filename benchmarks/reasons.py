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
        "of 17 microseconds per file of 1 KB, the bare loop takes 2, because system calls are very"
        " cheap on this machine; looking for secrets takes 5, and about 1.7 ms per MB in larger"
        " files, all of it in the engine; the rest is 42 short calls of Python functions: two roots"
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
        "async call against the same inline",
        None,
        "in processor time the hop to the thread costs 1.1 to 1.3 times the work; the rest is"
        " waiting for a core while other programs ran on this machine, as the quartiles show",
    ),
    Reason(
        "25 files of 16 KB in LangChain, async, against deepagents' download_files",
        None,
        "that is no tool call: it gives bytes to a program, and looks for no secrets",
    ),
    Reason(
        "25 files of 16 KB in LangChain, sync",
        None,
        "in sync code ReadFileTool reads in place, and our call crosses to a background loop and"
        " to the thread that reads",
    ),
    Reason(
        "25 files of 16 KB in LangChain, async, against 25 ReadFileTool",
        None,
        "each side pays LangChain's own cost of a tool call; most of the rest is reading, looking"
        " for secrets (0.6 ms) and measuring 400 KB",
    ),
    Reason(
        "ms for a",
        LARGE_BOUND,
        "of the default walk's 2.0 ms, 1.4 are the walk in the store, 0.4 of them for reading the"
        " rows; the hash of each link and memory that is met is checked, so that damage is told"
        " and not returned; the other 0.6 build and measure twenty records, with the hop to the"
        " thread",
    ),
    Reason(
        "walk against its rows by key",
        None,
        "0.9 ms of the walk are its steps, in which links are read and checked; reading rows by"
        " key checks no links",
    ),
    Reason("statistics at 1,000,000", None, "0.09 against 0.05 ms, for a few look-ups"),
    Reason(
        "64 writers sharing commits",
        None,
        "together they take 0.5 ms each: the wait for the disk is shared, the writes are not",
    ),
    Reason(
        "ms, p99, for a walk over HTTP, 8 clients",
        None,
        "the server answers one walk after another, so that eight clients wait for eight walks,"
        " as the median shows; the clients and other programs had the same two cores",
    ),
    Reason(
        "SQLite: walks per second, two server processes",
        None,
        "two servers and the callers shared two cores",
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
