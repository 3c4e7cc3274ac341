"""Files: read, list and search them in the roots of one namespace, confined and bounded.

A name in several roots is listed once, from the root that it would be read from.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from abilities.declarations.limits import MAX_READ_CHARS
from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.documents.documents import AT_ONCE, Converting, Text
from abilities.helpers.files.confinement import Policy, parse_path
from abilities.helpers.files.file_walk import (
    MAX_BYTES,
    MAX_LISTED,
    MENDABLE,
    FileWalk,
    FolderMemory,
    Listing,
    ListingRequest,
    PathNames,
    list_files,
)
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.reader import FileText, LinesOfFiles, ReadingSession, Root
from abilities.helpers.files.searcher import SearchRequest, SearchResult, SearchSession
from abilities.helpers.threads.workers import CALL_SECONDS, Call, ItemT, ResultT, Worker, WorkerPool


class Files:
    """The one way to files. Holds no descriptor between calls.

    Lists and searches do not enter folders behind links. A file behind a link is found if it may be
    read. ``absent`` is the refusal for a file that no root has.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        policy: Policy,
        workers: WorkerPool,
        *,
        absent: Reason = "not_found",
    ) -> None:
        self._roots = roots
        self._policy = policy
        self._workers = workers
        self._absent: Reason = absent
        self._memory = FolderMemory()

    @property
    def has_workspace(self) -> bool:
        """Whether there is a workspace besides the agent directory."""
        return any(root.name == "workspace" for root in self._roots)

    def for_root(self, source: str) -> "Files":
        """Return the files of one root alone."""
        roots = [root for root in self._roots if root.name == source]
        return Files(roots, self._policy, self._workers, absent=self._absent)

    def open_session(
        self, worker: Worker, known_lines: LinesOfFiles | None = None
    ) -> ReadingSession:
        """Return a session for one thread of a batch; a context manager."""
        return ReadingSession(self._roots, self._policy, worker, self._absent, known_lines)

    async def read(self, paths: Sequence[object], max_chars: int) -> list[FileText | Exception]:
        """Read each path separately: one outcome per path, in order; duplicates are read again.

        An outcome is a FileText, a Refused, or an unexpected exception, for this path alone.
        """

        def read_path(session: ReadingSession, path: object) -> FileText:
            return session.read(parse_path(path), max_chars)

        return await self.map(read_path, paths)

    async def read_one(self, path: object, max_chars: int = MAX_READ_CHARS) -> FileText:
        """Read one path, up to ``max_chars`` characters. Raises Refused."""
        return _take_only(await self.read([path], max_chars))

    async def map(
        self,
        function: Callable[[ReadingSession, ItemT], ResultT],
        items: Sequence[ItemT],
        known_lines: LinesOfFiles | None = None,
    ) -> list[ResultT | Exception]:
        """Apply a function to every item in one session, as `WorkerPool.map` does.

        Items that are documents are tried again when these have been converted, until the call
        ends; the threads do not wait for that. The lines that are found in files are kept in
        ``known_lines`` for the call's next step.
        """
        open_session = partial(self.open_session, known_lines=known_lines)
        end = time.monotonic() + CALL_SECONDS
        outcomes = await self._workers.map(open_session, function, items)
        waiting = [place for place, each in enumerate(outcomes) if isinstance(each, Converting)]

        while waiting:
            # The others wait for a document that is converted now.
            tried = waiting[: 2 * AT_ONCE]
            running = [cast(Converting, outcomes[place]).text for place in tried]
            if not await _wait_for_any(running, end - time.monotonic()):
                for place in waiting:
                    outcomes[place] = Refused("timeout")
                break

            again = [items[place] for place in tried]
            results = await self._workers.map(open_session, function, again)
            for place, result in zip(tried, results, strict=True):
                outcomes[place] = result

            waiting = [place for place in waiting if isinstance(outcomes[place], Converting)]

        return outcomes

    async def list_files(self, request: ListingRequest) -> Listing:
        """List the files that match, as far as the limit and the time allow.

        Raises Refused: timeout, root_unavailable, access_denied, resource_exhausted.
        """
        open_walk = partial(FileWalk, self._roots, self._policy, self._memory)
        return _take_only(await self._workers.map(open_walk, list_files, [request]))

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search the files, as far as the limit and the time allow.

        Raises Refused: too_short, too_long, invalid_format, invalid_pattern; timeout,
        root_unavailable, access_denied, resource_exhausted.
        """
        open_session = partial(SearchSession, self._roots, self._policy)
        return _take_only(await self._workers.map(open_session, SearchSession.search, [request]))

    async def suggest_paths(
        self,
        paths: Sequence[str],
        outcomes: Sequence[object],
        name_glob: Callable[[str], str],
    ) -> dict[int, Refused]:
        """Return refusals that suggest a path to send instead, by the indices of the outcomes.

        ``name_glob`` returns how the caller's ability requests the files of a pattern. All paths
        are compared with one listing, of up to `MAX_LISTED` files.
        """
        suggestions: dict[int, Refused] = {}
        refusals: dict[int, Refused] = {}
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Refused) and outcome.reason in MENDABLE:
                refusals[index] = outcome

        if not refusals:
            return suggestions

        try:
            listing = await self.list_files(ListingRequest(Glob("**"), "", MAX_LISTED))
        except Refused:
            return suggestions

        paths_of_files = [file.path for file in listing.files]
        names = PathNames(paths_of_files, self._policy.documents, name_glob)
        for index, refusal in refusals.items():
            sent = paths[index]
            find = names.find_folder if refusal.reason == "is_directory" else names.find
            meant = find(sent)
            if meant is not None and meant != sent and len(meant.encode()) <= MAX_BYTES:
                suggestions[index] = Refused(
                    refusal.reason, refusal.field, expected=refusal.expected, did_you_mean=meant
                )

        return suggestions


def _take_only(outcomes: Sequence[ResultT | Exception]) -> ResultT:
    """Return the only outcome, or raise it if it is an exception."""
    (outcome,) = outcomes
    if isinstance(outcome, Exception):
        raise outcome

    return outcome


async def _wait_for_any(texts: Sequence[Text], seconds: float) -> bool:
    """Wait until a text is done; return False if none is after some seconds."""
    call: Call[None, None] = Call(None)
    for text in texts:
        text.add_done_callback(lambda _: call.settle(None))

    try:
        async with asyncio.timeout(seconds):
            await call.wait()
    except TimeoutError:
        return False

    return True
