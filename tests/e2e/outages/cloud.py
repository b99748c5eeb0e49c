"""A cloud of processes, each with its own proxies to the ledger and to the broker."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.e2e.conftest import Part, Processes, Service
from tests.forks import run_berth
from tests.relay import Relay, relaying

HOSTS: Final = 4
PARTS: Final = ("api", "scheduler", "agent")
TIMEOUT_S: Final = 1.0
"""The time after which a process here gives up waiting for the ledger."""

_READY_S: Final = 120.0
_AUDIT_S: Final = 30.0
_POLL_S: Final = 0.5
_PORT_OF_POSTGRES: Final = 5432
_PORT_OF_RABBITMQ: Final = 5672
_VERBS: Final = ("spawn", "destroy", "hand_over", "fetch_disks", "stop")
_GROWTH_MAX_BYTES: Final = 32 * 1024 * 1024
_FILES_MORE_MAX: Final = 20
_CLOCK_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Cost:
    """The processor time that a process has used, and its present memory and open files."""

    cpu_s: float
    memory_bytes: int
    files: int


@dataclass
class Cloud:
    """An API, a scheduler and the agent of some hosts, with proxies to ledger and broker.

    Attributes:
        timeout_s: the setting `ledger.timeout_s` of the processes.
        delay_s: duration of each operation of the fake hosts.
        ledgers: the proxy of each process to the ledger, by the name of the process; empty for
            SQLite.
        brokers: the proxies to the broker, likewise; empty without a broker.
    """

    processes: Processes
    service: Service
    folder: Path
    ledger: str
    broker: RabbitBroker | None
    timeout_s: float = TIMEOUT_S
    delay_s: float = 0.2
    ledgers: dict[str, Relay] = field(default_factory=dict[str, Relay])
    brokers: dict[str, Relay] = field(default_factory=dict[str, Relay])
    parts: dict[str, Part] = field(default_factory=dict[str, Part])

    def start(self, name: str) -> Part:
        """Start or restart a process and return it."""
        words = [name, "--config", str(self._settings(name))]
        if name == "api":
            words += ["--listen", self.service.url.removeprefix("http://")]
        if name == "agent":
            fleet = self.folder / "fleet.json"
            faults = {"delay_s": dict.fromkeys(_VERBS, self.delay_s)}
            hosts = [{"name": f"host-{n}", "faults": faults} for n in range(HOSTS)]
            fleet.write_text(json.dumps(hosts))
            words += ["--fleet", str(fleet)]
        part = self.parts[name] = self.processes.start(*words)
        return part

    def start_all(self) -> None:
        """Start all processes, and wait until the hosts are registered and the broker connected."""
        self.start("api")
        self.service.wait_until(lambda status: True, self.parts["api"])
        for name in PARTS[1:]:
            self.start(name)
        self.service.wait_until(
            lambda status: status["hosts"]["total"] == HOSTS, self.parts["agent"]
        )
        for name in self.brokers:
            self.parts[name].wait_for_log("broker_connected")

    def wait_for_reconnect(self, name: str) -> None:
        """Wait until a process has connected to the broker a second time."""
        log = self.parts[name].log
        wait_until(lambda: log.read_text("utf-8", "replace").count("broker_connected") > 1, name)

    def used(self) -> dict[str, int]:
        """Return the used amounts of all hosts together, by resource class."""
        total: dict[str, int] = {}
        for host in self.service.get("/berth/v1/hosts")["hosts"]:
            for name, inventory in host["inventories"].items():
                total[name] = total.get(name, 0) + inventory["used"]
        return total

    def costs(self) -> dict[str, Cost]:
        """Return the costs of each process, by name, and check that all processes are alive."""
        assert [name for name, one in self.parts.items() if one.process.poll() is not None] == []
        return {name: cost_of(part.process.pid) for name, part in self.parts.items()}

    def _settings(self, name: str) -> Path:
        path = self.folder / f"{name}.toml"
        url = self.ledgers[name].url(self.ledger) if name in self.ledgers else self.ledger
        lines = [
            f'ledger.url = "{url}"',
            f"ledger.timeout_s = {self.timeout_s}",
            "agent.heartbeat_interval_s = 0.5",
            "agent.reconcile_interval_s = 2.0",
        ]
        if self.broker is not None:
            bus = self.brokers[name].url(self.broker.url)
            lines += [f'bus.url = "{bus}"', f'bus.prefix = "{self.broker.prefix}"']
        path.write_text("\n".join(lines))
        return path


@contextmanager
def cloud(
    processes: Processes,
    service: Service,
    ledger: str,
    broker: RabbitBroker | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    delay_s: float = 0.2,
) -> Generator[Cloud]:
    """Start a cloud and yield it; stop its processes at the end."""
    with ExitStack() as stack:
        made = Cloud(processes, service, processes.folder, ledger, broker, timeout_s, delay_s)
        for name in PARTS:
            if ledger.startswith("postgresql"):
                way = relaying(ledger, _PORT_OF_POSTGRES)
                made.ledgers[name] = stack.enter_context(way)
            if broker is not None:
                way = relaying(broker.url, _PORT_OF_RABBITMQ)
                made.brokers[name] = stack.enter_context(way)
        # The proxies outlive the processes, which close their connections properly.
        stack.callback(processes.stop_all)
        made.start_all()
        yield made


def cost_of(pid: int) -> Cost:
    """Return the costs of a process."""
    proc = Path(f"/proc/{pid}")
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    pages = int((proc / "statm").read_text().split()[1])
    files = len(list((proc / "fd").iterdir()))
    return Cost((user + system) / _CLOCK_TICK, pages * _PAGE_BYTES, files)


def check_costs(
    before: Mapping[str, Cost], after: Mapping[str, Cost], idle_s: float | None = None
) -> None:
    """Check that no process gathered much memory or many files during an outage, or kept busy.

    Args:
        before: costs of each process before the outage.
        after: costs of each process after it.
        idle_s: duration of an outage in which the processes had nothing to do; None skips the
            check of processor time.
    """
    for name, was in before.items():
        now = after[name]
        assert idle_s is None or now.cpu_s - was.cpu_s < idle_s / 2, name
        assert now.memory_bytes - was.memory_bytes < _GROWTH_MAX_BYTES, name
        assert now.files - was.files < _FILES_MORE_MAX, name


def check_audit(service: Service) -> None:
    """Check that `berth audit`, which ignores no recent record, soon finds no discrepancy.

    A request whose server was deleted early is pending until the scheduler tries it again.
    """
    ages = ("--grace", "0", "--task-age", "0", "--request-age", "0")
    ends_s = time.monotonic() + _AUDIT_S
    while (done := berth(service, "audit", *ages)).returncode and time.monotonic() < ends_s:
        time.sleep(_POLL_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no discrepancies" in done.stdout


def berth(service: Service, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run `berth WORDS…` against a service and return the completed process."""
    return run_berth(*words, environment={**os.environ, "BERTH_URL": service.url})


def wait_until(true: Callable[[], bool], what: object) -> None:
    """Wait until `true` returns True; if it never does, `what` is the message."""
    deadline_s = time.monotonic() + _READY_S
    while not true():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)
