"""Why rows fall short of our own goals, as RESULTS.md says it."""

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
        "in one shuffled run seven calls took 10.0 ms, of which the client and the pipes take 1.0,"
        " as ready-made replies show. The wanted ratios left 6.2 ms for the server, and the same"
        " calls took 7.2 in process, without any protocol: parts of that are looking for secrets,"
        " opening the files that are left in each call, to know their sizes, and the way to a"
        " thread and back, without which a slow disk would stop everything. Of the 2 that stdio"
        " adds the protocol has 0.6, as seven pings and the writing of seven answers show; between"
        " two calls processors sleep, and caches are others'. Set `max_response_bytes` higher if"
        " your client takes longer replies",
    ),
    Reason(
        "25 files of 16 KB over MCP",
        LARGE_BOUND,
        "of 3.3 ms the client and the pipe take 1.0, as ready-made replies show. The wanted ratios"
        " leave 0.9 and 1.1 ms for the server, whose work alone takes 1.8 at best, on one thread"
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
        "as with 25 files of 16 KB: of 6.3 ms for five calls the client and the pipes take 0.7,"
        " the server's work alone 4.1 at best, and one read_multiple_files 4.8",
    ),
    Reason(
        "25 real sources over MCP",
        LARGE_BOUND,
        "of 2.9 ms the client and the pipe take 0.8; the wanted ratio leaves 1.1 ms for the server,"
        " whose work alone takes 1.7 at best",
    ),
    Reason("20,000 characters of each", None, "as with 25 files of 16 KB"),
    Reason(
        "safe reader against a bare loop",
        None,
        "of 13 microseconds per file of 1 KB, the bare loop takes 1.2, because system calls are"
        " very cheap on this machine; looking for secrets takes 4, and 1.4 ms per MB in larger"
        " files, all of it in the engine; the rest is 42 short calls of Python functions: two roots"
        " that are opened and watched for stalls, status, the package's own files, the deny list,"
        " the range, decoding and the record. The ratio without the search stands beside",
    ),
    Reason(
        "20 linked memories of",
        None,
        "the wanted ratio leaves 0.7 ms for a request. In processor time the same walk takes 1.1 ms"
        " in process, as a call of this package with its checks, hashes and JSON; and an address"
        " that does not exist takes the server 0.4, for HTTP, the guard and the routes",
    ),
    Reason(
        "ms for a search and a tag",
        None,
        "the reply says exactly how many memories match. 40,000 have the tag, and 67 of 100"
        " memories the searched letters, so that the search index is of no help: each memory with"
        " the tag is looked up and its text read and folded, in 7 microseconds",
    ),
    Reason(
        "ms for a search of two characters",
        None,
        "the search index holds all namespaces, and most of its matches are others': so the texts"
        " of the 2,000 memories are read and folded, in 5 microseconds each",
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
        "in processor time the hop to the thread and back takes 0.05 to 0.15 ms, a tenth of the"
        " work; the rest is the thread's wait for a core that other programs held: calls for files"
        " of 1 KB do the same at both bounds, and differ all the same",
    ),
    Reason(
        "25 files of 16 KB in LangChain, async, against deepagents' download_files",
        None,
        "that is no tool call: it gives bytes to a program, and looks for no secrets",
    ),
    Reason(
        "25 files of 16 KB in LangChain, async, against 25 ReadFileTool",
        None,
        "the least tool that hides secrets, which reads without any check and joins the texts, is"
        " 8.1 times as fast in processor time: it takes 0.9 ms, 0.65 of them to look for secrets."
        " Ours takes 1.9: beyond that, 0.5 to open safely and to make records, 0.2 for the text,"
        " 0.1 for the hop to the thread",
    ),
    Reason(
        "25 files of 16 KB in LangChain, sync",
        None,
        "the least tool, as with async calls, is 5.0 times as fast as 25 calls of ReadFileTool;"
        " ours also crosses to a background loop",
    ),
    Reason(
        "ms for a",
        LARGE_BOUND,
        "in processor time, a default walk takes 1.0 ms among 10,000 memories, in parts that are"
        " 0.8 if each is run alone: 0.15 in SQLite for the links of twenty memories, 0.06 to check"
        " the hashes of the 52 links that are looked at, 0.05 to hand them over, 0.13 to choose"
        " and to arrange, 0.17 to read twenty rows and to check their hashes, so that damage is"
        " told and not returned, 0.16 to build and to measure their records, 0.05 for the way to"
        " the thread and back, and 0.04 for the rest. Among 1,000,000 memories another 0.3 go into"
        " pages that are read anew, because fifty such walks are more than the cache of 16 MiB;"
        " walks from any memory gain nothing by a larger one",
    ),
    Reason(
        "walk against its rows by key",
        None,
        "in the walk's steps links are read, checked and chosen; reading rows by key needs none of"
        " that",
    ),
    Reason(
        "statistics at 1,000,000",
        None,
        "five look-ups, which take 0.030 against 0.029 ms if the same were made just before; the"
        " rest is reading pages of deeper trees anew, which other reads have pushed out of the"
        " cache",
    ),
    Reason(
        "64 writers sharing commits",
        None,
        "a write among them takes 0.41 ms of processor time, of 0.49 in all; they share the wait"
        " for the disk, which is short here: where it was 2 ms, they were 4.0 times as fast",
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
        "two cores allow 1.94 at best: beside each second of the servers, the callers take 0.03;"
        " other programs had the same cores",
    ),
    Reason(
        "25 real sources in LangChain",
        None,
        "of 1.8 ms of processor time, the least tool, as with 25 files of 16 KB, takes 0.7; the"
        " wanted ratio leaves 0.6 for all that ours does beyond that",
    ),
    Reason(
        "walks per second, 64 callers",
        None,
        "the same walks take 0.7 ms of processor time inline, and 1.0 through the thread even if"
        " only one caller asks: 0.04 to 0.06 for the snapshot, for memories that expire, for the"
        " deadline and for the way there and back, if nothing is done there, and the rest because"
        " two threads in turn work with caches that the other one has used. Many callers share that"
        " one thread",
    ),
    Reason(
        "PostgreSQL: walks per second, two server processes",
        None,
        "one server and its database keep two cores busy for 67 of 100 parts of the time already,"
        " and two servers for 93: two cores allow 1.5 at best",
    ),
    Reason(
        "tokens of 11 tasks with the tools all",
        None,
        "a model reads the list of tools in every round, and that of all seventeen is longer than"
        " those of both official servers together; the same tasks with `lean` are in the next row."
        " The client's specifications name ten of the tools, so `all` stays the default",
    ),
)


def list_reasons(short: list[Measured]) -> list[str]:
    """Return the reasons of rows that fall short, as lines of a Markdown list."""
    return [format_reason(reason) for reason in REASONS if any(map(reason.explains, short))]


def format_reason(reason: Reason) -> str:
    """Return a reason as a line of a Markdown list."""
    at = f", at {reason.bound:,}" if reason.bound else ""
    return f"- {reason.beginning}{at}: {reason.why}."
