"""Fixtures: the sample files, settings that point at them, surfaces and servers."""

import gc
import os
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import cache, partialmethod
from inspect import signature
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from abilities import Abilities, Settings
from abilities.adapters import mcp
from abilities.helpers.store import store
from abilities.helpers.tokens import TokenFile
from abilities.server import app
from tests.support import postgres
from tests.support.places import ENGINES, DatabasePlace, FilePlace, StorePlace
from tests.support.remembered import RememberedRoutes, check_schema, find_version
from tests.support.sample_files import SampleFiles, build_samples, lock_samples, make_roots
from tests.support.serving import LocalServer, serving, serving_locally
from tests.support.surfaces import SURFACES, Through, calls_through
from tests.support.tier import MEMORY, QUICK, choose_quick_tier, has_room_in_memory, size

collect_ignore = ["adapters"]  # make adapters runs these, each where its framework is
if "ABILITIES_TEST_BROWSER" not in os.environ:
    collect_ignore.append("browser")  # needs what only make browser installs

NOBODY = 65534

EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid != pg_backend_pid();
DROP SCHEMA IF EXISTS abilities, abilities_data CASCADE;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$
"""

hypothesis_settings.register_profile(
    "at any speed",
    max_examples=size("ABILITIES_EXAMPLES", quick=40, full=100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("at any speed")

gc.set_threshold(100_000, 20, 20)  # cycles are few: looking for them takes a twelfth of the time

if QUICK and has_room_in_memory():
    os.environ.setdefault("TMPDIR", MEMORY)
    tempfile.tempdir = None  # pytest has asked already, to capture output


def _join_streams(result: Result) -> str:
    return result.stdout + result.stderr


# Since click 8.2 a runner keeps stderr apart, and has no argument for that; the output is of both.
if "mix_stderr" in signature(CliRunner).parameters:
    separate = partialmethod(CliRunner.__init__, mix_stderr=False)
    CliRunner.__init__ = separate  # type: ignore[method-assign, assignment]
    Result.output = property(_join_streams)  # type: ignore[method-assign, assignment]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the quick tier does not run."""
    if not QUICK:
        return

    chosen = choose_quick_tier(items)
    names = {item.nodeid for item in chosen}
    left_out = [item for item in items if item.nodeid not in names]

    items[:] = chosen
    config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and tests, which are there until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _remembered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (app, mcp):
            patch.setattr(module, "version", find_version)
        for name in ("add_ability_routes", "add_memories"):
            patch.setattr(app, name, RememberedRoutes(getattr(app, name)))
        # Files wait for what is remembered about them, however slow the machine is.
        patch.setattr(store, "ABOUT_SECONDS", 60.0)
        patch.setattr("jsonschema.Draft202012Validator.check_schema", check_schema)
        # Each client of httpx would read all certificates anew; no test uses any.
        patch.setattr("ssl.create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session")
def _homes() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="abilities-homes-") as homes:
        os.chmod(homes, 0o755)
        yield homes


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, _homes: str) -> None:
    """Keep each test from the settings and files of whoever runs it, and of other tests."""
    home = tempfile.mkdtemp(dir=_homes)
    os.chmod(home, 0o755)
    monkeypatch.setenv("HOME", home)

    for name in list(os.environ):
        if name.startswith("ABILITIES_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def world() -> Iterator[SampleFiles]:
    """The sample files, in a folder that every user can reach; for tests that only read.

    They are built once per run.
    """
    base = Path(tempfile.mkdtemp(prefix="abilities-"))
    base.chmod(0o755)

    samples = build_samples(base)
    lock_samples(samples)
    yield samples

    shutil.rmtree(base)


@pytest.fixture
def settings(world: SampleFiles) -> Settings:
    """Settings for the sample files, with a store that no other test has opened."""
    return Settings(
        agent_dir=world.agent,
        workspace_dir=world.workspace,
        store_url=f"sqlite:///{world.base}/store/{uuid4().hex}.db",
        detail="full",  # on every surface, so that their payloads can be compared
    )


@pytest.fixture(params=SURFACES)
def through(request: pytest.FixtureRequest) -> Through:
    """Call abilities through one surface, and compare each payload with Python's."""
    return calls_through(request.param)


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Run the test as a user whom permissions bind, because root may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)

    yield

    os.seteuid(user)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL server; each test makes a database of its own there."""
    with postgres.server() as url:
        yield url


@pytest.fixture
def served(roots: Settings, tmp_path: Path) -> Iterator[str]:
    """The address of a server for the roots, in a process of its own."""
    with serving(roots, tmp_path) as server:
        yield server.address
        server.stop()


@pytest.fixture
async def local(roots: Settings) -> AsyncIterator[LocalServer]:
    """A server for the roots at a port, in this process."""
    async with serving_locally(roots) as server:
        yield server


@pytest.fixture
def roots(tmp_path: Path) -> Settings:
    """Settings for two empty roots that a test may fill."""
    return make_roots(tmp_path)


@pytest.fixture
async def abilities(roots: Settings) -> AsyncIterator[Abilities]:
    """An application for the two roots, which are empty when it is opened."""
    async with Abilities.open(roots) as opened:
        yield opened


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """The file of tokens, which does not exist yet."""
    return TokenFile(tmp_path / "tokens.json")


@pytest.fixture
def private(roots: Settings, tokens: TokenFile) -> Settings:
    """Settings for two empty roots that all namespaces share, and the file of tokens."""
    return roots.model_copy(update={"tokens_file": tokens.path, "shared_files": True})


@pytest.fixture
def apart(tmp_path: Path, tokens: TokenFile) -> Settings:
    """Settings whose namespaces have folders of their own; those of two of them are there."""
    for name in ("ada", "bob"):
        for place in ("agents", "work"):
            (tmp_path / place / name).mkdir(parents=True)
        (tmp_path / "work" / name / "whose.txt").write_text(name)

    return Settings(
        agent_dir=tmp_path / "agents" / "{namespace}",
        workspace_dir=tmp_path / "work" / "{namespace}",
        store_url=f"sqlite:///{tmp_path}/memory.db",
        tokens_file=tokens.path,
        namespace="ada",
        detail="full",  # on every surface, so that their payloads can be compared
    )


@pytest.fixture(scope="session")
def _database(server: str) -> Iterator[str]:
    with postgres.database(server) as url:
        yield url


@pytest.fixture
def url(_database: str) -> Iterator[str]:
    """An empty database; making one anew for each test would take longer than most tests do."""
    yield _database
    with psycopg.connect(_database, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(EMPTY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder that is not that of the store."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture
def file_place(tmp_path: Path) -> FilePlace:
    """A place for a store that is a file."""
    return FilePlace(tmp_path / "m.db")


@pytest.fixture
def database_place(url: str, tmp_path: Path) -> DatabasePlace:
    """A place for a store in an empty database."""
    return DatabasePlace(url, tmp_path)


PLACES = {"sqlite": "file_place", "postgres": "database_place"}


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest) -> StorePlace:
    """A place for a store of each engine."""
    chosen: StorePlace = request.getfixturevalue(PLACES[request.param])
    return chosen


@pytest.fixture(params=ENGINES)
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new store of each engine."""
    chosen: StorePlace = request.getfixturevalue(PLACES[request.param])
    return chosen.url
