"""The agents of many hosts: their keys, and what the results say."""

from bench.floors import judge, load_floors
from bench.host_driver import host_name, key_of, public_bytes
from bench.hosts import HostTimes, IdleTimes, host_lines, host_measures


def idle(hosts: int, transactions_per_s: float) -> IdleTimes:
    """Return a window."""
    return IdleTimes(hosts, 1.5, 20.0, transactions_per_s, 6, 0.1, hosts / 10)


TIMES = HostTimes(
    tls=True,
    idle=[idle(20, 2.8), idle(10_000, 3.1)],
    heartbeat_cpu_us=83.0,
    memory_kb=34.4,
    push_p50_ms=13.5,
    push_p95_ms=20.1,
    back_s=32.5,
    back_peak_per_s=900,
    builds=1_000,
    build_s=9.5,
)


def test_both_processes_derive_the_same_keys() -> None:
    """The process that enrols hosts knows the keys of those that the driver holds."""
    names = [host_name(number) for number in range(3)]
    assert len({public_bytes(name) for name in names}) == 3
    for name in names:
        key = key_of(name).public_key()
        key.verify(key_of(name).sign(b"nonce"), b"nonce")
        assert key.public_bytes_raw() == public_bytes(name)


def test_every_floor_of_agents_has_its_measure() -> None:
    """The floors judge the figures of both runs; a missed one fails."""
    plain = HostTimes(tls=False, idle=[idle(10_000, 3.0)], memory_kb=5.6)
    measures = host_measures(TIMES) | host_measures(plain)
    floors = [one for one in load_floors() if one.measure.startswith("hosts.")]
    assert len(floors) == 8
    assert all(one.met for one in judge(floors, measures))
    (missed,) = [one for one in judge(floors, measures | {"hosts.tls.back_s": 61.0}) if not one.met]
    assert missed.floor.measure == "hosts.tls.back_s"


def test_the_report_names_what_was_measured() -> None:
    """A part that was not measured has no line."""
    text = "\n".join(host_lines(TIMES))
    assert "10,000 idle agents with TLS: 3.10 ledger transactions/s over 6 connections" in text
    assert "1,000 builds on 1,000 hosts took 9.5 s" in text
    assert "32.5 s after the control plane was killed" in text
    assert "builds" not in "\n".join(host_lines(HostTimes(tls=False)))
