"""The examination of an installation: each check with a good and a bad case, and broken checks."""

import asyncio
import json
import os
import time
from email.utils import formatdate
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from berth.adapters.ledger import open_ledger
from berth.adapters.ledger.examination import Examination
from berth.app import doctor
from berth.app.doctor import Diagnosis, Status
from berth.cli.main import main
from berth.config import control_keys
from berth.config.settings import BusSettings, GatewaySettings, LedgerSettings, Settings
from berth.config.settings_reader import read_settings
from berth.domain.compute.host import Service
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put, Unit
from berth.domain.zones.zone import Zone
from berth.ports.ledger import HeartbeatReport

_SAFE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
}


def statuses(found: list[Diagnosis]) -> dict[str, Status]:
    """Return the worst status of each check."""
    order = [Status.OK, Status.WARN, Status.FAIL]
    worst: dict[str, Status] = {}
    for one in found:
        worst[one.check] = max(worst.get(one.check, Status.OK), one.status, key=order.index)
    return worst


def diagnosed(settings: Settings) -> dict[str, Status]:
    """Return the worst status of each check of an installation."""
    return statuses(asyncio.run(doctor.diagnose(settings)))


def test_a_sqlite_ledger_is_healthy(fresh_sqlite_url: str, tmp_path: Path) -> None:
    """Schema, a write and modes of a new ledger are in order; the file is not changed."""
    path = tmp_path / "ledger.db"
    path.chmod(0o600)
    before = path.read_bytes()
    settings = Settings(ledger=LedgerSettings(url=fresh_sqlite_url, data_dir=tmp_path))
    found = diagnosed(settings)
    assert [found[name] for name in ("schema", "ledger", "permissions")] == [Status.OK] * 3
    assert path.read_bytes()[100:] == before[100:]


def test_a_missing_ledger_is_not_created(tmp_path: Path) -> None:
    """A ledger that does not exist yet is a warning."""
    settings = Settings(ledger=LedgerSettings(data_dir=tmp_path))
    assert diagnosed(settings)["ledger"] is Status.WARN
    assert not list(tmp_path.iterdir())


def test_a_ledger_that_is_no_database_fails(tmp_path: Path) -> None:
    """A file of another kind is a failure with the path."""
    path = tmp_path / "berth.sqlite"
    path.write_text("nonsense" * 1000)
    settings = Settings(ledger=LedgerSettings(data_dir=tmp_path))
    assert diagnosed(settings)["ledger"] is Status.FAIL


def test_modes_and_log_of_a_sqlite_file(tmp_path: Path) -> None:
    """Access of other users and a large write-ahead log are warnings."""
    path = tmp_path / "ledger.db"
    path.touch(0o600)
    (good,) = doctor.sqlite_diagnoses(path)
    assert good.status is Status.OK
    path.chmod(0o640)
    wal = tmp_path / "ledger.db-wal"
    wal.touch(0o600)
    os.truncate(wal, 2**30)
    mode, size = doctor.sqlite_diagnoses(path)
    assert (mode.status, mode.advice) == (Status.WARN, f"run chmod 600 {path}")
    assert (size.status, "1024 MiB" in size.seen) == (Status.WARN, True)


def test_a_safe_server_is_healthy() -> None:
    """Durable commits, free connections and equal clocks are in order."""
    facts = Examination("PostgreSQL 15", "", 0.1, _SAFE, 10)
    found = list(doctor.store_diagnoses(facts))
    assert {one.check for one in found} == {"ledger", "durability", "connections", "clock"}
    assert {one.status for one in found} == {Status.OK}


@pytest.mark.parametrize(
    ("facts", "check", "status"),
    [
        (Examination("P", "read-only", 0.0, _SAFE, 1), "ledger", Status.FAIL),
        (Examination("P", "", 0.0, {**_SAFE, "fsync": "off"}, 1), "durability", Status.FAIL),
        (Examination("P", "", 0.0, _SAFE, 81), "connections", Status.WARN),
        (Examination("P", "", -3.0, _SAFE, 1), "clock", Status.FAIL),
        (Examination("P", "", 3.0, _SAFE, 1), "clock", Status.FAIL),
    ],
)
def test_an_unsafe_server_is_found(facts: Examination, check: str, status: Status) -> None:
    """Exactly the one check fails that the fact concerns, with advice."""
    found = list(doctor.store_diagnoses(facts))
    (bad,) = [one for one in found if one.status is not Status.OK]
    assert (bad.check, bad.status, bool(bad.advice)) == (check, status, True)


def test_old_keys_are_to_be_rotated(tmp_path: Path) -> None:
    """A file of keys that was not changed for more than a year is a warning with the command."""
    path = tmp_path / "control"
    control_keys.create(path)
    settings = Settings(
        gateway=GatewaySettings(key_file=path), ledger=LedgerSettings(data_dir=tmp_path)
    )
    (good,) = doctor.key_diagnoses(settings, time.time())
    assert (good.status, good.seen[:1]) == (Status.OK, "1")
    (old,) = doctor.key_diagnoses(settings, time.time() + 366 * 86_400)
    assert (old.status, old.advice) == (
        Status.WARN,
        f"run `berth control-keys rotate --file {path}`",
    )


class _Usage(NamedTuple):
    """The space of a file system in bytes, as `shutil.disk_usage` returns it."""

    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("free_mb", "status"), [(200, Status.FAIL), (900, Status.WARN), (5_000, Status.OK)]
)
def test_free_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_mb: int, status: Status
) -> None:
    """Less than a tenth is a warning, and less than 512 MiB a failure."""
    usage = _Usage(10_000 * 2**20, 0, free_mb * 2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert doctor.disk_diagnosis(tmp_path).status is status


def test_the_limit_on_open_files() -> None:
    """A limit below twice the number of connections is a warning with the value to set."""
    assert doctor.files_diagnosis(None, 4096).status is Status.OK
    assert doctor.files_diagnosis(8192, 4096).status is Status.OK
    low = doctor.files_diagnosis(1024, 4096)
    assert (low.status, "LimitNOFILE=8192" in low.advice) == (Status.WARN, True)


def test_free_memory() -> None:
    """Little free memory is a warning."""
    assert doctor.memory_diagnosis(4096).status is Status.OK
    assert doctor.memory_diagnosis(100).status is Status.WARN


def test_mistakes_in_named_files_are_failures(tmp_path: Path) -> None:
    """A policy file that does not exist fails the check of the settings."""
    file = tmp_path / "berth.toml"
    file.write_text('[policy]\npath = "missing.toml"\n[ledger]\ndata_dir = "."\n')
    assert diagnosed(read_settings(file, {}, {}))["settings"] is Status.FAIL


def test_an_unreachable_broker_fails_without_its_password(tmp_path: Path) -> None:
    """Nothing listens on the port; the result does not have the password."""
    settings = Settings(
        bus=BusSettings(url="amqp://u:hunter2@127.0.0.1:1/"),
        ledger=LedgerSettings(data_dir=tmp_path),
    )
    found = asyncio.run(doctor.diagnose(settings))
    (broker,) = [one for one in found if one.check == "broker"]
    assert broker.status is Status.FAIL
    assert "hunter2" not in broker.seen + broker.advice


def test_an_unreachable_keystone_fails(tmp_path: Path) -> None:
    """Nothing listens on the port of keystone.auth_url."""
    environ = {
        "BERTH_AUTH_MODE": "keystone",
        "BERTH_KEYSTONE_AUTH_URL": "http://127.0.0.1:1",
        "BERTH_KEYSTONE_PASSWORD": "secret",
        "BERTH_LEDGER_DATA_DIR": str(tmp_path),
    }
    assert diagnosed(read_settings(None, environ, {}))["keystone"] is Status.FAIL


def test_a_broken_or_hanging_check_reports_itself() -> None:
    """The other checks still run, and a thread that hangs does not delay the end."""
    hang = Event()

    async def broken(_: Settings) -> list[Diagnosis]:
        raise ZeroDivisionError("oh")

    async def refused(_: Settings) -> list[Diagnosis]:
        raise UnavailableError("postgresql://u:hunter2@h/d is away; start it")

    async def hanging(_: Settings) -> list[Diagnosis]:
        await doctor._in_thread(hang.wait)
        return []

    async def good(_: Settings) -> list[Diagnosis]:
        return [Diagnosis("good", Status.OK, "fine")]

    checks = [("broken", broken), ("refused", refused), ("hanging", hanging), ("good", good)]
    began_s = time.monotonic()
    found = asyncio.run(doctor.run_checks(checks, Settings(), timeout_s=0.2))
    assert time.monotonic() - began_s < 10
    hang.set()
    assert [(one.check, one.status) for one in found] == [
        ("broken", Status.FAIL),
        ("refused", Status.FAIL),
        ("hanging", Status.FAIL),
        ("good", Status.OK),
    ]
    assert "ZeroDivisionError: oh" in found[0].seen
    assert (found[1].seen, found[1].advice) == ("postgresql://***@h/d is away", "start it")
    assert "no answer within 0.2 s" in found[2].seen


def test_the_command_exits_with_1_on_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A healthy machine exits with 0, and one with a missing policy file with 1."""
    file = tmp_path / "berth.toml"
    file.write_text('[ledger]\ndata_dir = "."\n')
    assert main(["doctor", "--config", str(file), "--json"]) == 0
    names = {one["check"] for one in json.loads(capsys.readouterr().out)["checks"]}
    assert names >= {"settings", "ledger", "broker", "keystone", "keys", "disk", "limits"}
    file.write_text('[ledger]\ndata_dir = "."\n[policy]\npath = "missing.toml"\n')
    assert main(["doctor", "--config", str(file)]) == 1
    assert "fail  settings: policy.path: " in capsys.readouterr().out


NOW_S = 1_000_000.0


def services(**seen_s: float) -> list[Service]:
    """Return a service for each host with the time of its last heartbeat."""
    return [Service(host, f"id-{host}", last_seen_s=at_s) for host, at_s in seen_s.items()]


def test_the_newest_heartbeat_of_all_gateways_counts() -> None:
    """A report of any gateway, or the record itself, may have the newest heartbeat."""
    reports = [
        HeartbeatReport("g1", 1, {"a": 5.0, "b": 9.0}),
        HeartbeatReport("g2", 1, {"a": 7.0, "gone": 1.0}),
    ]
    found = doctor.with_heartbeats(services(a=1.0, b=10.0, c=3.0), reports)
    assert {one.host: one.last_seen_s for one in found} == {"a": 7.0, "b": 10.0, "c": 3.0}


@pytest.mark.parametrize(
    ("ages_s", "check", "status"),
    [
        ({"a": 0, "b": 59, "c": 10}, "hosts", Status.OK),
        ({"a": 0, "b": 61, "c": 10}, "hosts", Status.WARN),
        ({"a": 0, "b": 61, "c": 99}, "hosts", Status.FAIL),
        ({"a": 0, "b": -5, "c": 10}, "clock", Status.FAIL),
    ],
)
def test_silent_hosts_are_found(ages_s: dict[str, float], check: str, status: Status) -> None:
    """Some silent hosts are a warning, most of them a failure, as is a clock that is ahead."""
    seen_s = {host: NOW_S - age_s for host, age_s in ages_s.items()}
    found = list(doctor.host_diagnoses(services(**seen_s), NOW_S, 60.0, 0.5))
    worst = found[0]
    assert (worst.check, worst.status) == (check, status)
    assert bool(worst.advice) == (status is not Status.OK)


def test_many_silent_hosts_are_not_all_listed() -> None:
    """Five names are shown, and the number of the others."""
    (found,) = doctor.host_diagnoses(services(**{f"h{n}": 0.0 for n in range(9)}), NOW_S, 60.0, 0.5)
    assert found.seen == "9 of 9 hosts are silent: h0, h1, h2, h3, h4 and 4 more"


def test_hosts_and_zones_of_the_ledger_are_checked(fresh_sqlite_url: str, tmp_path: Path) -> None:
    """A silent host and a child zone that nothing serves are found through the ledger."""

    async def fill() -> None:
        ledger = await open_ledger(fresh_sqlite_url)
        child = Zone(1, "child", "http://127.0.0.1:1")
        away = Zone(2, "away", "http://127.0.0.1:1", is_removed=True)
        hosts = [Put(one) for one in services(a=time.time(), b=0.0)]
        await ledger.commit([Unit((*hosts, Put(child), Put(away)))])
        await ledger.close()

    asyncio.run(fill())
    settings = Settings(ledger=LedgerSettings(url=fresh_sqlite_url, data_dir=tmp_path))
    found = asyncio.run(doctor.diagnose(settings))
    (hosts,) = [one for one in found if one.check == "hosts"]
    assert (hosts.status, hosts.seen) == (Status.WARN, "1 of 2 hosts are silent: b")
    (zone,) = [one for one in found if one.check == "zones"]
    assert (zone.status, zone.seen[:10]) == (Status.FAIL, "zone child")


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request as a server whose clock is an hour behind."""
    await reader.readuntil(b"\r\n\r\n")
    date = formatdate(time.time() - 3600, usegmt=True)
    head = f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    await writer.drain()
    writer.close()


def test_a_reachable_server_with_a_wrong_clock_is_found() -> None:
    """Keystone answers, and the clock in its answer is an hour behind."""

    async def run() -> list[Diagnosis]:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            environ = {
                "BERTH_AUTH_MODE": "keystone",
                "BERTH_KEYSTONE_AUTH_URL": f"http://127.0.0.1:{port}",
                "BERTH_KEYSTONE_PASSWORD": "secret",
            }
            only = [one for one in doctor.CHECKS if one[0] == "keystone"]
            settings = read_settings(None, environ, {})
            return await doctor.run_checks(only, settings, timeout_s=30)

    reached, clock = asyncio.run(run())
    assert (reached.status, reached.seen) == (Status.OK, "Keystone responds with 200")
    assert (clock.status, "s behind this machine's" in clock.seen) == (Status.FAIL, True)
