"""The examination of servers and processes: replication, queues, versions, assertions, memory."""

import asyncio
from pathlib import Path

import pytest

from berth import __version__
from berth.adapters.ledger import open_ledger
from berth.adapters.ledger.postgres.postgres_servers import Replica, ServerState
from berth.adapters.system import SystemClock
from berth.app import doctor
from berth.app.doctor import Status
from berth.config.settings_reader import read_settings
from berth.config.zone_keys import ZoneKeyFile
from berth.domain.compute.host import Service
from berth.domain.compute.host_identity import HostIdentity
from berth.domain.ledger.write import Put, Unit
from berth.domain.zones.zone import Zone
from berth.ports.ledger import HeartbeatReport
from berth.services.replica.liveness import gateway_id, process_of
from tests.unit.services.wiring import Told

NOW_S = 1_000_000.0
STREAMING = Replica("b", "streaming", "sync")
PRIMARY = ServerState("a:5432", timeline=3, replicas=(STREAMING,))
STANDBY = ServerState("b:5432", is_standby=True, is_receiving=True, lag_s=0.2)


def test_a_pair_of_servers_is_healthy() -> None:
    """The role, the timeline and the standbys of each server are shown."""
    found = list(doctor.server_diagnoses([PRIMARY, STANDBY]))
    assert {one.status for one in found} == {Status.OK}
    assert [one.seen for one in found] == [
        "a:5432 is the primary, timeline 3, standbys: b streaming sync",
        "b:5432 is a standby, 0 s behind",
    ]


def test_a_single_server_needs_no_standby() -> None:
    """A ledger URL with one server promises no failover."""
    (found,) = doctor.server_diagnoses([ServerState("a:5432", timeline=1)])
    assert found.status is Status.OK


@pytest.mark.parametrize(
    ("servers", "status", "words"),
    [
        ([PRIMARY, ServerState("b:5432", "refused")], Status.WARN, "cannot be examined: refused"),
        ([PRIMARY, ServerState("b:5432", is_standby=True)], Status.WARN, "without a connection"),
        (
            [PRIMARY, ServerState("b:5432", is_standby=True, is_receiving=True, lag_s=61.0)],
            Status.WARN,
            "61 s behind",
        ),
        (
            [ServerState("a:5432", timeline=1), ServerState("b:5432", is_standby=True)],
            Status.WARN,
            "standbys: none",
        ),
        (
            [ServerState("a:5432", timeline=3, replicas=(Replica("b", "catchup", "async"),))],
            Status.WARN,
            "b catchup async",
        ),
        ([STANDBY], Status.FAIL, "no server is a primary"),
        (
            [ServerState("a:5432", timeline=3), ServerState("b:5432", timeline=4)],
            Status.FAIL,
            "2 servers are primaries; b:5432 was promoted last",
        ),
        (
            [ServerState("a:5432", timeline=1, idle_slots=(("old", 2**31), ("new", 5)))],
            Status.WARN,
            "keeps more than 1024 MiB of WAL for old",
        ),
    ],
)
def test_broken_replication_is_found(
    servers: list[ServerState], status: Status, words: str
) -> None:
    """The worst result names the server and has advice."""
    bad = [one for one in doctor.server_diagnoses(servers) if one.status is not Status.OK]
    assert any(one.status is status and words in one.seen and one.advice for one in bad), bad


def test_a_queue_of_another_type_is_a_failure() -> None:
    """The advice names the command that removes the queue."""
    (good,) = doctor.queue_diagnoses({})
    assert good.status is Status.OK
    (bad,) = doctor.queue_diagnoses({"berth.scheduler.place": "inequivalent arg 'x-queue-type'"})
    assert bad.status is Status.FAIL
    assert "x-queue-type" in bad.seen
    assert "rabbitmqctl delete_queue berth.scheduler.place" in bad.advice


def report(part: str, version: str, age_s: float = 1.0) -> HeartbeatReport:
    """Return the report of a process that it made some seconds ago."""
    gateway = gateway_id(part, f"uuid-{part}-{version}", version)
    return HeartbeatReport(gateway, int((NOW_S - age_s) * 1000), {})


def test_the_id_of_a_process_tells_its_version() -> None:
    """The ids of earlier versions have no version, and the earliest no kind of process."""
    assert process_of(gateway_id("api", "u", "1.2+local:3")) == ("api", "1.2+local:3")
    assert process_of("scheduler:u") == ("scheduler", "")
    assert process_of("u") == ("", "")


def test_processes_of_one_version_are_healthy() -> None:
    """The number of processes of each kind is shown; a process that ended yesterday is not."""
    reports = [report("api", __version__), report("scheduler", __version__)]
    (found,) = doctor.process_diagnoses([*reports, report("api", "0.0.1", 3_600.0)], NOW_S)
    assert found.status is Status.OK
    assert found.seen == f"running: 1 api ({__version__}), 1 scheduler ({__version__})"


@pytest.mark.parametrize("version", ["0.0.1", ""])
def test_processes_of_several_versions_are_found(version: str) -> None:
    """A process of another version, or of one that does not tell, is to be restarted."""
    reports = [report("up", __version__), report("api", version)]
    (found,) = doctor.process_diagnoses(reports, NOW_S)
    assert (found.status, "finish the upgrade" in found.advice) == (Status.WARN, True)
    assert (version or "an older version") in found.seen


def test_a_missing_scheduler_is_found() -> None:
    """An API alone accepts requests that wait."""
    first, second = doctor.process_diagnoses([report("api", __version__)], NOW_S)
    assert (first.status, first.seen) == (Status.WARN, "no scheduler is running")
    assert second.status is Status.OK


def test_revoked_keys_of_existing_hosts_are_found() -> None:
    """The agent of such a host is refused; a removed host has a revoked key as well."""
    identities = [
        HostIdentity("a", revoked_at_s=5.0),
        HostIdentity("b"),
        HostIdentity("gone", revoked_at_s=5.0),
    ]
    (found,) = doctor.key_revocations(identities, {"a", "b"})
    assert (found.status, found.seen) == (Status.WARN, "the keys of hosts are revoked: a")
    assert not list(doctor.key_revocations(identities, {"b"}))


def test_disabled_hosts_may_be_off() -> None:
    """A host in maintenance is not a silent host."""
    services = [
        Service("a", "1", last_seen_s=NOW_S),
        Service("b", "2", last_seen_s=0.0, disabled=True),
    ]
    (found,) = doctor.host_diagnoses(services, NOW_S, 60.0, 0.5)
    assert found.status is Status.OK
    assert found.seen == "2 hosts, 1 disabled, none of the others silent"


def test_memory_that_caches_use_is_available(tmp_path: Path) -> None:
    """The kernel's estimate counts, not the memory that nothing uses."""
    path = tmp_path / "meminfo"
    path.write_text("MemTotal: 9000000 kB\nMemFree: 20480 kB\nMemAvailable: 4194304 kB\n")
    assert doctor._available_mb(path) == 4096


def test_a_missing_file_of_authorities_is_no_bug(tmp_path: Path) -> None:
    """The result names the server, and the advice the setting."""
    environ = {
        "BERTH_AUTH_MODE": "keystone",
        "BERTH_KEYSTONE_AUTH_URL": "https://127.0.0.1:1",
        "BERTH_KEYSTONE_PASSWORD": "secret",
        "BERTH_KEYSTONE_CA_FILE": str(tmp_path / "missing.pem"),
    }
    only = [one for one in doctor.CHECKS if one[0] == "keystone"]
    settings = read_settings(None, environ, {})
    (found,) = asyncio.run(doctor.run_checks(only, settings, timeout_s=30))
    assert found.status is Status.FAIL
    assert "Keystone cannot be reached: FileNotFoundError" in found.seen
    assert "keystone.ca_file" in found.advice


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer like a zone that does not know the parent's keys."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = "401 Unauthorized" if b"/zones/info" in head else "200 OK"
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode()
    )
    await writer.drain()
    writer.close()


def test_a_child_that_refuses_our_assertions_is_found(
    fresh_sqlite_url: str, tmp_path: Path
) -> None:
    """It answers over HTTP, and rejects what this zone signs."""
    environ = {"BERTH_ZONES_NAME": "root", "BERTH_LEDGER_URL": fresh_sqlite_url}
    environ |= {"BERTH_LEDGER_DATA_DIR": str(tmp_path)}

    async def run() -> list[doctor.Diagnosis]:
        server = await asyncio.start_server(_refuse, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            ledger = await open_ledger(fresh_sqlite_url)
            child = Zone(1, "child", f"http://127.0.0.1:{port}")
            await ledger.commit([Unit((Put(child),))])
            await ledger.close()
            only = [one for one in doctor.CHECKS if one[0] == "hosts"]
            settings = read_settings(None, environ, {})
            return await doctor.run_checks(only, settings, timeout_s=30)

    missing = [one for one in asyncio.run(run()) if one.check == "zones"]
    assert [one.status for one in missing] == [Status.OK, Status.WARN]
    assert not (tmp_path / "zone-keys").exists()
    ZoneKeyFile(tmp_path / "zone-keys", SystemClock(), Told())
    found = [one for one in asyncio.run(run()) if one.check == "zones"]
    assert [one.status for one in found] == [Status.OK, Status.FAIL]
    assert "its copy of this zone's keys" in found[1].advice
