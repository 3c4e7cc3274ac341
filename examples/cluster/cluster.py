"""Two PostgreSQL nodes under Patroni, with etcd and two servers, on loopback of this machine.

    apt-get install postgresql patroni etcd-server
    pip install 'agent-abilities[http,mcp,postgres]'
    python examples/cluster/cluster.py

The cluster runs until Ctrl-C and leaves nothing behind. To see what it is for, kill the leader with
the `kill -9` that the program prints, and keep writing. The other node leads within half a minute,
and the lost one is started again and follows. In production, give each node a machine of its own,
and etcd three.
"""

import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.error import URLError
from urllib.request import urlopen

import psycopg

HERE = Path(__file__).parent
USER = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root


class Node:
    """One PostgreSQL under one Patroni."""

    def __init__(self, name: str, cluster: "Cluster") -> None:
        self.name = name
        self.port, self._rest = free_port(), free_port()
        self._data = cluster.folder / name
        self._cluster = cluster
        self._patroni: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Patroni, which makes the data, or follows the leader, or becomes it."""
        given = {
            "NAME": self.name,
            "ETCD3_HOST": f"127.0.0.1:{self._cluster.etcd_port}",
            "RESTAPI_LISTEN": f"127.0.0.1:{self._rest}",
            "RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{self._rest}",
            "POSTGRESQL_LISTEN": f"127.0.0.1:{self.port}",
            "POSTGRESQL_CONNECT_ADDRESS": f"127.0.0.1:{self.port}",
            "POSTGRESQL_DATA_DIR": str(self._data),
            "POSTGRESQL_BIN_DIR": str(newest_programs()),
            "POSTGRESQL_PGPASS": str(self._cluster.folder / f"{self.name}.pgpass"),
            "SUPERUSER_USERNAME": "postgres",
            "SUPERUSER_PASSWORD": self._cluster.password,
            "REPLICATION_USERNAME": "replicator",
            "REPLICATION_PASSWORD": self._cluster.password,
        }
        environment = {f"PATRONI_{name}": value for name, value in given.items()}
        command = ["patroni", str(self._cluster.folder / "patroni.yml")]
        self._patroni = self._cluster.run(command, f"{self.name}.log", environment, USER)

    def processes(self) -> list[int]:
        """Patroni, which would start the others again, and PostgreSQL's; those that run."""
        found: list[int] = []
        if self.runs() and self._patroni is not None:
            found.append(self._patroni.pid)
        with suppress(FileNotFoundError):
            parent = int((self._data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            found += [parent, *map(int, children)]
        return found

    def runs(self) -> bool:
        """Whether Patroni runs."""
        return self._patroni is not None and self._patroni.poll() is None

    def kill(self) -> None:
        """End all of its processes with kill -9, as a machine that loses its power."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if self._patroni is not None:
            self._patroni.wait()

    def role(self) -> str:
        """Return its role in Patroni: leader, sync_standby, replica, or an empty text."""
        with (
            suppress(URLError, OSError),
            urlopen(f"http://127.0.0.1:{self._rest}/cluster", timeout=2) as answer,
        ):
            members: list[dict[str, Any]] = json.load(answer)["members"]
            ready = (member for member in members if member["state"] in ("running", "streaming"))
            return next(
                (str(member["role"]) for member in ready if member["name"] == self.name), ""
            )
        return ""


class Cluster:
    """The whole cluster: nodes, etcd and servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.password = secrets.token_hex(16)
        self.etcd_port = free_port()
        self.nodes = [Node("one", self), Node("two", self)]
        self.servers: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def store_url(self) -> str:
        """The store's URL for the servers: it names every node, because any of them may lead."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://abilities:{self.password}@{hosts}/abilities?target_session_attrs=read-write"

    def leader(self) -> Node | None:
        """The node that takes writes, if there is one."""
        return next((node for node in self.nodes if node.role() == "leader"), None)

    def is_whole(self) -> bool:
        """Whether one node leads and the other has all that it has."""
        return sorted(node.role() for node in self.nodes) == ["leader", "sync_standby"]

    def start(self, say: Callable[[str], None]) -> None:
        """Start everything and wait until it is whole."""
        shutil.copy(HERE / "patroni.yml", self.folder)
        say("Starting etcd and two PostgreSQL nodes under Patroni ...")
        self._start_etcd()
        for node in self.nodes:
            node.start()
        wait_until(self.is_whole, "one node leads and the other follows")
        leader = self.leader()
        assert leader is not None
        self._make_database(leader)
        say("Starting two servers ...")
        self.servers = [self._start_server(n) for n in range(2)]

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self._processes):
            process.terminate()
        for node in self.nodes:
            node.kill()
        for process in self._processes:
            process.wait(timeout=30)

    def run(
        self, command: list[str], log: str, environment: dict[str, str], user: str | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a program whose words go to a log in the cluster's folder."""
        said: IO[bytes]
        with (self.folder / log).open("ab") as said:
            return subprocess.Popen(
                command,
                stdout=said,
                stderr=said,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment},
                start_new_session=True,  # Ctrl-C is for this program, which stops them in order
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{free_port()}"
        options = {
            "data-dir": str(self.folder / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        command = ["etcd", *(f"--{name}={value}" for name, value in options.items())]
        self._processes.append(self.run(command, "etcd.log", {}, USER))

    def _make_database(self, leader: Node) -> None:
        url = f"postgresql://postgres:{self.password}@127.0.0.1:{leader.port}/postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE abilities LOGIN PASSWORD '{self.password}'".encode())
            connection.execute("CREATE DATABASE abilities OWNER abilities")

    def _start_server(self, number: int) -> str:
        port = free_port()
        command = [sys.executable, "-m", "abilities", "serve", "--port", str(port)]
        given = {"ABILITIES_STORE_URL": self.store_url}
        for name in ("agent", "workspace"):
            (self.folder / name).mkdir(exist_ok=True)
            given[f"ABILITIES_{name.upper()}_DIR"] = str(self.folder / name)
        self._processes.append(self.run(command, f"server-{number}.log", given))
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(address), "the server answers")
        return address


@contextmanager
def cluster(say: Callable[[str], None] = print) -> Iterator[Cluster]:
    """Run a cluster in a folder of its own, which is deleted at the end."""
    missing = [name for name in ("patroni", "etcd") if shutil.which(name) is None]
    if missing or not newest_programs().exists():
        sys.exit("A program is missing; run: apt-get install postgresql patroni etcd-server")
    with tempfile.TemporaryDirectory(
        prefix="abilities-cluster-", ignore_cleanup_errors=True
    ) as folder:
        if USER is not None:
            os.chown(folder, pwd.getpwnam(USER).pw_uid, pwd.getpwnam(USER).pw_gid)
        made = Cluster(Path(folder))
        try:
            made.start(say)
            yield made
        finally:
            made.stop()


def newest_programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs, as Debian installs them."""
    return max(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda path: int(path.parent.name),
        default=Path("none"),
    )


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def is_ready(address: str) -> bool:
    """Return whether a server answers and reaches its store."""
    with suppress(URLError, OSError), urlopen(f"{address}/readyz", timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait until a condition holds. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.2)


def main() -> None:
    """Start a cluster, print where everything is, and wait for Ctrl-C."""
    with cluster() as started:
        print(f"\nServers:  {'  '.join(started.servers)}")
        print(f"Store:    {started.store_url}")
        print(f"Logs:     {started.folder}")
        print("\nCtrl-C stops it.")
        with suppress(KeyboardInterrupt):
            watch(started)


def watch(started: Cluster) -> None:
    """Print who leads whenever that changes; start a lost node again when another one leads."""
    known: Node | None = None
    while True:
        leader = started.leader()
        if leader is not known:
            said = "nobody leads"
            if leader:
                processes = " ".join(map(str, leader.processes()))
                said = f"{leader.name} leads; to kill it: kill -9 {processes}"
            print(f"{time.strftime('%H:%M:%S')}  {said}")
        known = leader
        for node in started.nodes:
            if leader and not node.runs():
                print(f"{time.strftime('%H:%M:%S')}  {node.name} is started again")
                node.start()
        time.sleep(1)


if __name__ == "__main__":
    main()
