"""Walks in an SQLite store, in a snapshot of the caller."""

import heapq
import math
import sqlite3
from collections.abc import Collection, Container, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.memory import Direction
from abilities.helpers.stores.model import LinkRecord
from abilities.helpers.stores.protocol import WalkResult
from abilities.helpers.stores.sqlite.ranking import BestLinks
from abilities.helpers.stores.sqlite.reads import read
from abilities.helpers.walk import (
    LinkRequest,
    Walk,
    WalkLimits,
    WalkLink,
    WalkOutcome,
)


def walk(
    connection: sqlite3.Connection,
    namespace: str,
    key: str,
    limits: WalkLimits,
    direction: Direction = "out",
) -> WalkResult:
    """Walk from a memory. Raises Refused if it is missing or damaged itself.

    Links tell nothing about an invalid score of a memory: that is seen when the walk's memories are
    read. The walk is then repeated without the memories that have one.
    """
    invalid: set[str] = set()
    while True:
        pages = _LinkPages(connection, namespace, direction, invalid)
        outcome = _run_walk(Walk(key, limits), pages)
        memories = read(connection, namespace, [step.key for step in outcome.steps])
        if isinstance(memories[0], Exception):  # the memory that the walk begins with
            raise memories[0]

        newly_invalid: set[str] = set()
        for step, memory in zip(outcome.steps, memories, strict=True):
            if isinstance(memory, Refused) and memory.reason == "invalid_stored_value":
                newly_invalid.add(step.key)

        if not newly_invalid:
            return WalkResult(outcome, tuple(memories))
        invalid |= newly_invalid


Place = tuple[float, float, str, str]
"""What a link is ordered by among the links of a memory; lower places come first."""

_FEW_LINKS = 8
"""Links of a memory that are read in turn faster than some of them are looked up."""

_FIRST_PLACE: Place = (-math.inf, 0.0, "", "")


class _PlacedLink(NamedTuple):
    place: Place
    link: WalkLink


class _LinkPages:
    """Answers a walk's requests for links, in pages that grow.

    ``invalid`` holds memories that the walk must not enter.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        namespace: str,
        direction: Direction,
        invalid: Container[str],
    ) -> None:
        self._best: list[tuple[BestLinks, bool]] = []
        if direction != "in":
            self._best.append((BestLinks(connection, namespace, "target"), False))
        if direction != "out":
            self._best.append((BestLinks(connection, namespace, "source"), True))

        self._invalid = invalid
        self._streams: dict[str, Iterator[WalkLink]] = {}

    def read(self, request: LinkRequest) -> list[WalkLink]:
        """Return the next links of a memory, best first; none if it has no more."""
        stream = self._streams.get(request.key)
        if stream is None:
            stream = self._streams[request.key] = self._stream(request)

        if request.among is not None:
            return self._read_rest(stream, request, request.among)

        return list(islice(stream, request.needed))

    def _read_rest(
        self, stream: Iterator[WalkLink], request: LinkRequest, among: Collection[str]
    ) -> list[WalkLink]:
        """Return a memory's links to some others and to absent ones."""
        links = list(islice(stream, _FEW_LINKS))
        if len(links) < _FEW_LINKS:
            return links  # all that were not sent yet

        for best, incoming in self._best:
            for record in best.read_rest(request.key, among, request.needed):
                links.append(record.to_walk_link(self._invalid, incoming=incoming))

        return links

    def _stream(self, request: LinkRequest) -> Iterator[WalkLink]:
        """Return a memory's links in the walk's direction, best first."""
        streams: list[Iterator[WalkLink]] = []
        for best, incoming in self._best:
            # One more than is needed tells whether these are all.
            records = best.stream(request.key, request.needed + 1)
            to_link = partial(LinkRecord.to_walk_link, invalid=self._invalid, incoming=incoming)
            streams.append(map(to_link, records))

        if len(streams) == 1:
            return streams[0]

        # Of links in the same place, those of the first stream come first.
        merged = heapq.merge(*map(_place_links, streams), key=lambda placed: placed.place)
        return (placed.link for placed in merged)


def _place_links(links: Iterable[WalkLink]) -> Iterator[_PlacedLink]:
    """Yield a memory's links with their places."""
    place = _FIRST_PLACE
    for link in links:
        # A damaged link stays behind the one before it, whatever its values are now.
        if link.state != "invalid":
            place = (-link.rank, -link.weight, link.key, link.type)

        yield _PlacedLink(place, link)


def _run_walk(walk: Walk, pages: _LinkPages) -> WalkOutcome:
    """Answer a walk's requests until it is done."""
    conversation = walk.run()
    try:
        request = next(conversation)
        while True:
            request = conversation.send(pages.read(request))
    except StopIteration as end:
        outcome: WalkOutcome = end.value
        return outcome
