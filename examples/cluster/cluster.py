"""Two PostgreSQL nodes under Patroni, with etcd, and two servers, all on loopback.

    apt-get install postgresql patroni etcd-server
    pip install 'agent-abilities[http,mcp,postgres]'
    python examples/cluster/cluster.py

It runs until Ctrl-C, and leaves nothing behind. To see what it is for, end the leader with the
`kill -9` that it prints, and go on writing: the other node leads within half a minute, and the lost
one is started again and follows. In production, give each node a machine of its own, and etcd
three.
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
        self.port, self._rest = find_free_port(), find_free_port()
        self._data = cluster.folder / name
        self._cluster = cluster
        self._patroni: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Patroni, which creates the data, follows the leader, or becomes the leader."""
        values = {
            "NAME": self.name,
            "ETCD3_HOST": f"127.0.0.1:{self._cluster.etcd_port}",
            "RESTAPI_LISTEN": f"127.0.0.1:{self._rest}",
            "RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{self._rest}",
            "POSTGRESQL_LISTEN": f"127.0.0.1:{self.port}",
            "POSTGRESQL_CONNECT_ADDRESS": f"127.0.0.1:{self.port}",
            "POSTGRESQL_DATA_DIR": str(self._data),
            "POSTGRESQL_BIN_DIR": str(find_newest_programs()),
            "POSTGRESQL_PGPASS": str(self._cluster.folder / f"{self.name}.pgpass"),
            "SUPERUSER_USERNAME": "postgres",
            "SUPERUSER_PASSWORD": self._cluster.password,
            "REPLICATION_USERNAME": "replicator",
            "REPLICATION_PASSWORD": self._cluster.password,
        }
        environment = {f"PATRONI_{name}": value for name, value in values.items()}
        command = ["patroni", str(self._cluster.folder / "patroni.yml")]
        self._patroni = self._cluster.run(command, f"{self.name}.log", environment, USER)

    def list_processes(self) -> list[int]:
        """Return the running processes: Patroni, which would restart the others, comes first."""
        processes: list[int] = []

        if self.is_running() and self._patroni is not None:
            processes.append(self._patroni.pid)

        with suppress(FileNotFoundError):
            parent = int((self._data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            processes += [parent, *map(int, children)]

        return processes

    def is_running(self) -> bool:
        """Return whether Patroni runs."""
        return self._patroni is not None and self._patroni.poll() is None

    def kill(self) -> None:
        """End all of its processes with kill -9, as a machine that loses its power."""
        for process in self.list_processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

        if self._patroni is not None:
            self._patroni.wait()

    def read_role(self) -> str:
        """Ask Patroni for the node's role: leader, sync_standby, replica, or an empty text."""
        with (
            suppress(URLError, OSError),
            urlopen(f"http://127.0.0.1:{self._rest}/cluster", timeout=2) as answer,
        ):
            members: list[dict[str, Any]] = json.load(answer)["members"]
            for member in members:
                is_ready = member["state"] in ("running", "streaming")
                if is_ready and member["name"] == self.name:
                    return str(member["role"])

        return ""


class Cluster:
    """The nodes, etcd and the servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.password = secrets.token_hex(16)
        self.etcd_port = find_free_port()
        self.nodes = [Node("one", self), Node("two", self)]
        self.servers: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def store_url(self) -> str:
        """The URL that the servers use: it names every node, whichever of them leads."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        database = "abilities?target_session_attrs=read-write"
        return f"postgresql://abilities:{self.password}@{hosts}/{database}"

    def find_leader(self) -> Node | None:
        """Return the node that takes writes, if there is one."""
        return next((node for node in self.nodes if node.read_role() == "leader"), None)

    def is_whole(self) -> bool:
        """Return whether one node leads and the other has all that it has."""
        return sorted(node.read_role() for node in self.nodes) == ["leader", "sync_standby"]

    def start(self, say: Callable[[str], None]) -> None:
        """Start everything and wait until it is whole."""
        shutil.copy(HERE / "patroni.yml", self.folder)
        say("Starting etcd and two PostgreSQL nodes under Patroni ...")
        self._start_etcd()
        for node in self.nodes:
            node.start()

        wait_until(self.is_whole, "one node leads and the other follows")
        leader = self.find_leader()
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
        """Start a program whose output goes to a log in the cluster's folder."""
        output: IO[bytes]
        with (self.folder / log).open("ab") as output:
            return subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment},
                start_new_session=True,  # so that Ctrl-C reaches only this program
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{find_free_port()}"
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
        port = find_free_port()
        command = [sys.executable, "-m", "abilities", "serve", "--port", str(port)]
        environment = {"ABILITIES_STORE_URL": self.store_url}
        for name in ("agent", "workspace"):
            (self.folder / name).mkdir(exist_ok=True)
            environment[f"ABILITIES_{name.upper()}_DIR"] = str(self.folder / name)
        self._processes.append(self.run(command, f"server-{number}.log", environment))

        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(address), "the server answers")
        return address


@contextmanager
def cluster(say: Callable[[str], None] = print) -> Iterator[Cluster]:
    """Run a cluster in a folder of its own, which is deleted in the end."""
    missing = [name for name in ("patroni", "etcd") if shutil.which(name) is None]
    if missing or not find_newest_programs().exists():
        sys.exit(
            "PostgreSQL, Patroni and etcd are needed: "
            "apt-get install postgresql patroni etcd-server"
        )

    with tempfile.TemporaryDirectory(
        prefix="abilities-cluster-", ignore_cleanup_errors=True
    ) as folder:
        if USER is not None:
            owner = pwd.getpwnam(USER)
            os.chown(folder, owner.pw_uid, owner.pw_gid)

        started = Cluster(Path(folder))
        try:
            started.start(say)
            yield started
        finally:
            started.stop()


def find_newest_programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs, as Debian installs them."""
    return max(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda path: int(path.parent.name),
        default=Path("none"),
    )


def find_free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def is_ready(address: str) -> bool:
    """Return whether a server answers and reaches its store."""
    with suppress(URLError, OSError), urlopen(f"{address}/readyz", timeout=2) as answer:
        return bool(answer.status == 200)

    return False


def wait_until(is_true: Callable[[], bool], condition: str, seconds: float = 120) -> None:
    """Wait for a condition. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s: {condition}")

        time.sleep(0.2)


def main() -> None:
    """Start a cluster, say where everything is, and wait for Ctrl-C."""
    with cluster() as started:
        print(f"\nServers:  {'  '.join(started.servers)}")
        print(f"Store:    {started.store_url}")
        print(f"Logs:     {started.folder}")
        print("\nCtrl-C stops it.")
        with suppress(KeyboardInterrupt):
            watch(started)


def watch(started: Cluster) -> None:
    """Say who leads whenever that changes, and start a lost node again when another one leads."""
    known_leader: Node | None = None

    while True:
        leader = started.find_leader()
        if leader is not known_leader:
            say_who_leads(leader)
        known_leader = leader

        for node in started.nodes:
            if leader and not node.is_running():
                print(f"{time.strftime('%H:%M:%S')}  {node.name} is started again")
                node.start()

        time.sleep(1)


def say_who_leads(leader: Node | None) -> None:
    """Print the leader, and the command that ends it."""
    words = "nobody leads"
    if leader is not None:
        processes = " ".join(map(str, leader.list_processes()))
        words = f"{leader.name} leads; to lose it: kill -9 {processes}"

    print(f"{time.strftime('%H:%M:%S')}  {words}")


if __name__ == "__main__":
    main()
