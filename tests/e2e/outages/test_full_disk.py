"""A SQLite ledger on a full disk: requests are refused with the reason until there is room."""

import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Part, Processes, Service
from tests.e2e.outages.cloud import Cloud, check_audit, wait_until
from tests.e2e.outages.tenants import Tenants, check_settled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_HOSTS = 4
_UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder whose disk a test fills and empties."""

    folder: Path
    fill: Callable[[Part], None]
    empty: Callable[[Part], None]


def limited(folder: Path) -> Disk:
    """Return a disk whose `fill` limits the size of the files that the process may write."""

    def fill(part: Part) -> None:
        sizes = [path.stat().st_size for path in folder.iterdir()]
        limit = (max(sizes), resource.RLIM_INFINITY)
        resource.prlimit(part.process.pid, resource.RLIMIT_FSIZE, limit)

    def empty(part: Part) -> None:
        resource.prlimit(part.process.pid, resource.RLIMIT_FSIZE, _UNLIMITED)

    return Disk(folder, fill, empty)


@contextmanager
def mounted(folder: Path) -> Generator[Disk]:
    """Mount a small disk and yield it; skip the test if mounting is not allowed."""
    words = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    ballast = folder / "ballast"

    def fill(_: Part) -> None:
        with ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 65_536):
                    pass
            except OSError:
                return

    try:
        yield Disk(folder, fill, lambda _: ballast.unlink())
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(params=["limit", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Disk]:
    """Yield a disk of each kind."""
    folder = tmp_path / "data"
    folder.mkdir()
    if request.param == "limit":
        yield limited(folder)
    else:
        with mounted(folder) as made:
            yield made


def start(processes: Processes, service: Service, disk: Disk) -> Part:
    """Start all of Berth in one process, and wait until its hosts are registered."""
    address = service.url.removeprefix("http://")
    words = ("--data", str(disk.folder), "--fake-hosts", f"{_HOSTS}")
    part = processes.start("up", "--listen", address, *words)
    service.wait_until(lambda status: status["hosts"]["total"] == _HOSTS, part)
    return part


def test_a_full_disk_is_got_over(disk: Disk, processes: Processes, service: Service) -> None:
    """Requests are refused while the disk is full; no write is partial, even after a restart."""
    part = start(processes, service, disk)
    url = f"sqlite:///{disk.folder / 'berth.sqlite'}"
    try:
        with Tenants(service) as tenants:
            tenants.wait_for(10)
            disk.fill(part)
            wait_until(lambda: tenants.answers[503] > 5, "no request was refused")
            assert part.process.poll() is None
            disk.empty(part)
            tenants.wait_for(len(tenants.uuids) + 10)
            tenants.stop()
            check_settled(Cloud(processes, service, processes.folder, url, None), tenants)
        part.kill()
        part = start(processes, service, disk)
        check_audit(service)
        there = {one["id"] for one in service.get("/v2.1/servers", limit="1000")["servers"]}
        assert there == set(tenants.uuids.values()) - tenants.deleted
    finally:
        part.stop()
    with sqlite3.connect(disk.folder / "berth.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
