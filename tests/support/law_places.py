"""Where the law is tried: stores, each with two processes that use it, and the command line."""

import asyncio
import io
import pickle
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self, get_args
from unittest.mock import patch
from uuid import UUID, uuid4

from click.testing import Result

from abilities import Abilities, Settings
from abilities.declarations.refusals import Code
from abilities.declarations.values import JsonObject
from abilities.helpers.memory import helper
from abilities.helpers.store.sqlite import search
from tests.support import postgres
from tests.support.forked import Forked
from tests.support.law_model import Moment
from tests.support.surfaces import run


class Clock:
    """Gives each call its time and its id, so that two stores can be compared byte for byte."""

    def __init__(self) -> None:
        self._time = datetime(2026, 1, 1, tzinfo=UTC)
        self._ids = random.Random(1)

    def tick(self, milliseconds: int) -> Moment:
        self._time += timedelta(milliseconds=milliseconds)
        now = self._time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Moment(now, self.make_id())

    def make_id(self) -> str:
        return str(UUID(int=self._ids.getrandbits(128), version=4))


class Call(NamedTuple):
    """A call as a surface hands it to the registry, and the moment at which it happens."""

    namespace: str
    name: str
    arguments: JsonObject
    moment: Moment


_moment: ContextVar[Moment] = ContextVar("moment")
_ids: ContextVar[Iterator[str]] = ContextVar("ids")


def make_ids(moment: Moment) -> Iterator[str]:
    """Return the ids of the memories that a call may create, one for each of its operations."""
    return (str(UUID(int=number)) for number in count(UUID(moment.new_id).int))


_TODAY = property(lambda _: date.fromisoformat(_moment.get().now[:10]))


class Wave(NamedTuple):
    """Calls for one application, which are begun together or one after another."""

    calls: Sequence[Call]
    together: bool


class LocalApplication:
    """An application in this process."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self._abilities: Abilities | None = None
        self._views: dict[str, Abilities] = {}

    def open(self, settings: Settings) -> None:
        self.close()
        opening = self._open.enter_async_context(Abilities.open(settings))
        self._abilities = self._runner.run(opening)

    def call(self, wave: Wave) -> list[JsonObject]:
        with (
            patch.object(helper, "utc_now", lambda: _moment.get().now),
            patch.object(helper, "uuid4", lambda: next(_ids.get())),
            patch.object(helper.MemoryHelper, "today", _TODAY),
        ):
            return self._runner.get_loop().run_until_complete(self._reply_to_all(wave))

    def close(self) -> None:
        self._runner.run(self._open.aclose())
        self._abilities = None
        self._views.clear()

    def end(self) -> None:
        self.close()
        self._runner.close()

    async def _reply_to_all(self, wave: Wave) -> list[JsonObject]:
        if wave.together:
            return await asyncio.gather(*(self._reply(call) for call in wave.calls))
        return [await self._reply(call) for call in wave.calls]

    async def _reply(self, call: Call) -> JsonObject:
        _moment.set(call.moment)
        _ids.set(make_ids(call.moment))
        reply = await self._get_view(call.namespace).reply(call.name, call.arguments)
        return reply.payload

    def _get_view(self, namespace: str) -> Abilities:
        assert self._abilities is not None
        if namespace not in self._views:
            self._views[namespace] = self._abilities.for_namespace(namespace)
        return self._views[namespace]


class RemoteApplication:
    """An application in a process of its own, which is told by pickles what to do."""

    def __init__(self, process: Forked) -> None:
        self._requests = io.BufferedWriter(process.stdin)
        self._answers = io.BufferedReader(process.stdout)

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[Self]:
        process = Forked("from tests.support import law_places; law_places.serve_pipes()")
        try:
            yield cls(process)
            process.communicate()
        finally:
            process.kill()
        assert process.returncode == 0

    def open(self, settings: Settings) -> None:
        self._ask(settings)

    def call(self, wave: Wave) -> list[JsonObject]:
        payloads = self._ask(wave)
        assert isinstance(payloads, list)
        return payloads

    def close(self) -> None:
        self._ask(None)

    def _ask(self, request: object) -> object:
        pickle.dump(request, self._requests)
        self._requests.flush()
        return pickle.load(self._answers)


Application = LocalApplication | RemoteApplication


class Place:
    """A store, the two applications that use it, and the folder for its files."""

    def __init__(
        self, settings: Settings, folder: Path, applications: tuple[Application, ...]
    ) -> None:
        self.settings = settings
        self.folder = folder
        self._applications = applications
        self.open()

    @property
    def is_file(self) -> bool:
        return self.settings.store_path is not None

    def open(self) -> None:
        self.close()
        for application in self._applications:
            application.open(self.settings)

    def close(self) -> None:
        for application in self._applications:
            application.close()

    def call(self, calls: Sequence[Call], through: int) -> list[JsonObject]:
        """Return the payloads of the replies of one of the two applications.

        A file takes the changes of a namespace in the order in which they were begun, so that
        calls that are begun together have an order; a server's connections keep none.
        """
        application = self._applications[through % len(self._applications)]
        return application.call(Wave(calls, together=self.is_file))

    def run(self, *words: str | Path, store_url: str | None = None) -> Result:
        more = {} if store_url is None else {"ABILITIES_STORE_URL": store_url}
        return run(self.settings, *map(str, words), **more)


CODES = frozenset(get_args(Code)) - {"INTERNAL_ERROR"}


class Reading(NamedTuple):
    """What reads a place: one of its applications, at a moment, in a namespace."""

    place: Place
    through: int
    moment: Moment
    namespace: str

    def call(self, name: str, **arguments: object) -> JsonObject:
        """Return an ability's payload."""
        call = Call(self.namespace, name, arguments, self.moment)
        (payload,) = self.place.call([call], self.through)
        return payload


def check_refusal(payload: JsonObject) -> str:
    """Return the reason of a refusal, which must be one that callers may be given."""
    assert "error" in payload, f"it must be refused: {payload}"
    fault = payload["error"]
    assert fault["code"] in CODES, fault
    assert len(fault["message"]) <= 120, fault
    return str(fault["reason"])


def complete(reading: Reading, record: JsonObject) -> JsonObject:
    """Fetch what was cut off a record's content, and return the record whole.

    One of `memory_get` goes on by its own request, any other by the item that reads on.
    """
    truncation = record.pop("truncation", None)
    request = record.pop("next_request", None)

    while truncation is not None:
        if request is None:
            rest = reading.call("memory_read_bulk", targets=[truncation["next"]])
            (part,) = rest["results"]
        else:
            assert truncation["next"] == request
            part = reading.call("memory_get", **request)
            request = part.get("next_request")

        record["data"]["content"] += part["data"]["content"]
        truncation = part.get("truncation")
    return record


class Stores:
    """Opens new stores of some kinds for each trial, and removes those of the one before."""

    def __init__(self, folder: Path, kinds: Sequence[str], server: str | None) -> None:
        self._folder = folder
        self._kinds = kinds
        self._server = server
        self._applications = ExitStack()
        self._databases = ExitStack()
        self._pairs = [self._make_applications() for _ in kinds]

    def open(self, settings: JsonObject) -> list[Place]:
        self._remove()
        places: list[Place] = []

        for kind, pair in zip(self._kinds, self._pairs, strict=True):
            folder = self._folder / uuid4().hex
            folder.mkdir()
            url = f"sqlite:///{folder}/memory.db"
            if kind == "postgres":
                assert self._server is not None
                url = self._databases.enter_context(postgres.database(self._server))
            chosen = Settings(
                agent_dir=self._folder, workspace_dir=self._folder, store_url=url, **settings
            )
            places.append(Place(chosen, folder, pair))
        return places

    def end(self) -> None:
        self._remove()
        self._applications.close()

    def _make_applications(self) -> tuple[LocalApplication, RemoteApplication]:
        local = LocalApplication()
        self._applications.callback(local.end)
        return local, self._applications.enter_context(RemoteApplication.start())

    def _remove(self) -> None:
        for local, remote in self._pairs:
            local.close()
            remote.close()
        self._databases.close()
        for folder in self._folder.iterdir():
            shutil.rmtree(folder)


def serve_pipes() -> None:
    """Do what is asked on stdin until no more is: open (settings), close (None), or call (a wave).

    Stores as small as these would never ask their search index.
    """
    search._SCAN_LIMIT = 0
    application = LocalApplication()

    with suppress(EOFError):
        while True:
            request = pickle.load(sys.stdin.buffer)
            answer: list[JsonObject] | None = None
            if request is None:
                application.close()
            elif isinstance(request, Settings):
                application.open(request)
            else:
                answer = application.call(request)
            pickle.dump(answer, sys.stdout.buffer)
            sys.stdout.buffer.flush()

    application.end()
