"""A private PostgreSQL primary with a streaming replica, made from the distribution's packages."""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from berth.lab import loopback

_BINARIES: Final = "/usr/lib/postgresql/*/bin/initdb"
_SLOT: Final = "replica"
_UP_S: Final = 60.0
_POLL_S: Final = 0.05
# A tenth of the buffers and connections that a server has by default is enough for a test.
_SETTINGS: Final = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 32MB
max_connections = 60
wal_keep_size = 256MB
"""


@dataclass
class Server:
    """One PostgreSQL server with its own folder and port."""

    binaries: Path
    folder: Path
    port: int = field(default_factory=loopback.free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """The URL of the maintenance database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        words = [str(self.binaries / "postgres"), "-D", str(self.folder), "-p", f"{self.port}"]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, **_postgres_user())
        self.wait_for("SELECT true")

    def wait_for(self, condition: str) -> None:
        """Wait until the answer to a query is true."""
        ends_s = time.monotonic() + _UP_S
        while (said := self.ask(condition, check=False)) != "t":
            assert time.monotonic() < ends_s, (condition, said)
            time.sleep(_POLL_S)

    def ask(self, query: str, *, database: str = "postgres", check: bool = True) -> str:
        """Return the answer of psql to a query."""
        url = f"{self.url.rpartition('/')[0]}/{database}"
        words = [str(self.binaries / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", url, "-c", query]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def set(self, name: str, value: str) -> None:
        """Change a setting that needs no restart."""
        self.ask(f"ALTER SYSTEM SET {name} = '{value}'")
        self.ask("SELECT pg_reload_conf()")
        self.wait_for(f"SELECT current_setting('{name}') = '{value}'")

    def kill(self) -> None:
        """Kill the server and its processes with SIGKILL, as abruptly as a power cut."""
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
        for one in (pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self.process.wait()
        self.process = None

    @contextmanager
    def small_disk(self) -> Generator[Path]:
        """Mount a disk of a few MB for this server, and stop the server before unmounting it."""
        disk = self.folder.parent / "disk"
        disk.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(disk)]
        if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("no disk can be mounted here")
        shutil.chown(disk, "postgres")
        try:
            yield disk
        finally:
            self.stop()
            subprocess.run(["umount", str(disk)], check=True)

    def stop(self) -> None:
        """Stop the server, if it runs, without waiting for its clients."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
            self.process = None


@dataclass
class Pair:
    """A primary and its replica, with an empty database `berth`."""

    primary: Server
    replica: Server

    @property
    def url(self) -> str:
        """The URL of the ledger on whichever server is the primary."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self.primary, self.replica))
        return f"postgresql://postgres@{hosts}/berth"

    def replicate_synchronously(self) -> None:
        """Let the primary acknowledge a commit only once the replica has it on disk."""
        self.primary.set("synchronous_standby_names", _SLOT)
        self.primary.wait_for("SELECT sync_state = 'sync' FROM pg_stat_replication")

    def wait_for_replica(self) -> None:
        """Wait until the replica has everything that the primary has committed."""
        position = self.primary.ask("SELECT pg_current_wal_lsn()")
        self.replica.wait_for(f"SELECT pg_last_wal_replay_lsn() >= '{position}'")

    def cut_off_replica(self) -> None:
        """Let the replica receive nothing more, so that a failover loses what is committed now."""
        self.replica.set("primary_conninfo", "")
        self.primary.wait_for("SELECT count(*) = 0 FROM pg_stat_replication")

    def promote(self) -> None:
        """Make the replica a primary; wait until it accepts writes."""
        self.replica.ask("SELECT pg_promote(wait => true)")


@contextmanager
def running_pair() -> Generator[Pair]:
    """Start a primary and its replica, and yield them; skip the test without the packages."""
    found = sorted(Path("/").glob(_BINARIES.removeprefix("/")))
    if not found:
        pytest.skip("the PostgreSQL server is not installed (apt-get install postgresql)")
    binaries = found[-1].parent
    if os.geteuid() == 0 and not _has_postgres_user():
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    # The folder of pytest can be read by its owner only, which is not the user postgres.
    folder = Path(tempfile.mkdtemp(prefix="berth-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    primary, replica = Server(binaries, folder / "a"), Server(binaries, folder / "b")
    try:
        _run(Path("/bin/cp"), "-a", str(_empty_cluster(binaries)), str(primary.folder))
        with (primary.folder / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
        primary.start()
        primary.ask("CREATE DATABASE berth")
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={_SLOT}"
        copy = ("--no-sync", "-d", source, "-D", str(replica.folder), "-R", "-C", "-S", _SLOT)
        _run(binaries / "pg_basebackup", *copy, "-c", "fast")
        replica.start()
        yield Pair(primary, replica)
    finally:
        primary.stop()
        replica.stop()
        shutil.rmtree(folder)


@cache
def _empty_cluster(binaries: Path) -> Path:
    """Return the folder of a new cluster, to be copied, because to create one takes seconds."""
    folder = Path(tempfile.mkdtemp(prefix="berth-pg-empty-"))
    atexit.register(shutil.rmtree, folder)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    cluster = folder / "cluster"
    # Tests kill servers, not machines, so the files need not be on the disk before they start.
    new = ("--no-sync", "-A", "trust", "-U", "postgres", "-D", str(cluster))
    _run(binaries / "initdb", *new)
    return cluster


def _run(program: Path, *words: str) -> None:
    done = subprocess.run(
        [str(program), *words], capture_output=True, text=True, check=False, **_postgres_user()
    )
    assert done.returncode == 0, done.stderr


def _postgres_user() -> Any:  # noqa: ANN401 - differs by who runs the tests
    """Return the arguments that run a program as `postgres`, because servers refuse to be root."""
    if os.geteuid():
        return {}
    return {"user": "postgres", "group": "postgres", "extra_groups": [], "cwd": "/"}


def _has_postgres_user() -> bool:
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        return False
    return True
