"""A tree of real zones whose connections can be cut, and its invariants after each fault."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from berth.adapters.ledger import open_ledger
from berth.adapters.virt.fake import FakeHost
from berth.domain.errors import UnavailableError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.zones.zone import RemoteInstanceStage, Zone
from berth.lab.zone_process import ZoneProcess, ZoneSpec
from berth.lab.zone_snapshots import faults_of, read_snapshots
from berth.lab.zone_tree import ZoneTree, made_tree
from tests.e2e.zones.gate import Gate, gate_to
from tests.forks import Fork, forks

WITHIN_S = 90.0
"""The longest wait; on an idle machine everything happens far sooner."""
HOLD_S = 3.0
SETTINGS: Mapping[str, object] = {
    "zones.poll_interval_s": 0.3,
    "zones.poll_timeout_s": 3.0,
    "zones.poll_pause_max_s": 1.0,
    "zones.failures_to_offline": 2,
    "zones.offer_hold_s": HOLD_S,
    "zones.offer_life_s": 30.0,
    "zones.held_share_max": 1.0,
    "zones.select_timeout_s": 4.0,
    "zones.build_timeout_s": 5.0,
    "zones.settle_s": 60.0,
}
_BUSY = frozenset({"BUILD", "UNKNOWN"})


def launch_fork(words: Sequence[str], environ: Mapping[str, str], log: Path) -> Fork:
    """Start `berth WORDS…` as a fork of a process that has Berth loaded; see `Launch`."""
    return forks().start(words, environ, log.parent, log)


def zone(name: str, vcpus: int, *children: ZoneSpec, offset: float = 0.0) -> ZoneSpec:
    """Return a zone of two hosts, or of none without VCPUs, with short intervals."""
    totals = {VCPU: vcpus // 2, MEMORY_MB: 1_000_000, DISK_GB: 10_000}
    ratios = {VCPU: 1.0, MEMORY_MB: 1.0, DISK_GB: 1.0}
    hosts = [FakeHost(f"{name}-{number}", totals, ratios) for number in range(2 if vcpus else 0)]
    return ZoneSpec(name, hosts, children, SETTINGS, weight_offset=offset)


def wait_until(is_so: Callable[[], object], what: str, within_s: float = WITHIN_S) -> None:
    """Wait until `is_so` returns something true.

    Raises:
        AssertionError: it has not done so within the time; `what` is the message.
    """
    deadline_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


@dataclass
class Ask:
    """A request for servers, in progress or complete.

    `reservation_id` is empty until the request is answered. If `is_forgotten`, some of the servers
    may have been deleted.
    """

    name: str
    count: int
    thread: threading.Thread | None = None
    reservation_id: str = ""
    is_forgotten: bool = False


@dataclass
class FaultyTree:
    """Zones, the gates to the children of the root, and the requests to the root so far."""

    zones: ZoneTree
    gates: Mapping[str, Gate]
    asks: list[Ask] = field(default_factory=list[Ask])

    @property
    def root(self) -> ZoneProcess:
        """The root, which gets all requests."""
        return self.zones.root

    def __getitem__(self, name: str) -> ZoneProcess:
        return self.zones[name]

    @property
    def vcpus(self) -> int:
        """The VCPUs of all zones together; each server uses one."""
        return sum(host.totals[VCPU] for zone in self.zones for host in zone.spec.hosts)

    # ---- asking ---------------------------------------------------------------------------

    def begin(self, name: str, count: int) -> Ask:
        """Request servers in a thread and return the request immediately."""
        ask = Ask(name, count)
        ask.thread = threading.Thread(target=self._ask, args=(ask,), name=name)
        self.asks.append(ask)
        ask.thread.start()
        return ask

    def create(self, name: str, count: int) -> set[str]:
        """Request servers, wait until they are settled, and return their statuses."""
        ask = self.begin(name, count)
        return self.statuses(ask)

    def statuses(self, ask: Ask) -> set[str]:
        """Wait until the servers of a request are settled; return their statuses."""
        assert ask.thread is not None
        ask.thread.join(WITHIN_S)
        assert ask.reservation_id, f"no answer to {ask.name}"
        found: set[str] = set()

        def is_over() -> bool:
            nonlocal found
            servers = self.servers(reservation_id=ask.reservation_id)
            found = {one["status"] for one in servers}
            return len(servers) == ask.count and not found & _BUSY

        wait_until(is_over, f"{ask.name} is not over")
        return found

    def _ask(self, ask: Ask) -> None:
        server = {"name": ask.name, "flavorRef": "small", "networks": "none"}
        body = {"server": {**server, "num_instances": ask.count}}
        try:
            with self.root.client(self.root.tenant) as http:
                answer = http.post("/zones/servers", json=body)
        except httpx.TransportError:
            return  # the root was killed
        if answer.is_success:
            ask.reservation_id = answer.json()["reservation_id"]

    def servers(self, **params: str) -> list[dict[str, Any]]:
        """Return the servers of the tenant, as the root lists them."""
        with self.root.client(self.root.tenant) as http:
            answer = http.get("/v2.1/servers/detail", params=params).raise_for_status()
        servers: list[dict[str, Any]] = answer.json()["servers"]
        return servers

    # ---- invariants -----------------------------------------------------------------------

    def places(self) -> dict[str, dict[str, int]]:
        """Wait until the invariants hold; return the instances per zone, by request.

        The invariants: nothing is pending, every remote instance is settled, the audits find
        nothing, no instance is in two zones, and each request is placed as a whole or not at all.
        """
        for ask in self.asks:
            if ask.thread is not None:
                ask.thread.join(WITHIN_S)
        faults: list[str] = ["nothing was read"]
        found: dict[str, dict[str, int]] = {}

        def is_well() -> bool:
            nonlocal faults, found
            try:
                found, faults = self._read()
            except (UnavailableError, httpx.HTTPError) as error:
                faults = [str(error)]
            return not faults

        deadline_s = time.monotonic() + WITHIN_S
        while not is_well():
            assert time.monotonic() < deadline_s, faults
            time.sleep(0.1)
        return found

    def _read(self) -> tuple[dict[str, dict[str, int]], list[str]]:
        faults: list[str] = []
        for one in self.zones:
            with one.client() as http:
                status = http.get("/berth/v1/status").raise_for_status().json()
            if status["pending_requests"]:
                faults.append(f"{one.name} has pending requests")
            stages = errands_of(one)
            faults += [f"{one.name} has errands {stage}" for stage in stages if stage != "there"]
        books = read_snapshots(self.zones)
        counts: dict[str, Counter[str]] = {ask.name: Counter() for ask in self.asks}
        reservations: Counter[str] = Counter()
        for name, book in books.items():
            for instance in book.instances.values():
                counts[instance.name.partition("-")[0]][name] += 1
                reservations[instance.reservation_id] += 1
                if instance.task is not None:
                    faults.append(f"{instance.name} is still {instance.task} in {name}")
        faults += faults_of(books.values(), reservations)
        for ask in self.asks:
            if not ask.is_forgotten and counts[ask.name].total() not in {0, ask.count}:
                faults.append(f"{ask.name} has {counts[ask.name]} of {ask.count}")
        return {name: dict(count) for name, count in counts.items()}, faults

    def clear(self) -> None:
        """Delete all servers, wait until none is left in any zone, and forget the requests."""
        deadline_s = time.monotonic() + WITHIN_S
        # The root does not list the servers of a child that it has not reached again yet.
        while left := self._instances():
            assert time.monotonic() < deadline_s, f"{left} instances are left"
            with self.root.client(self.root.tenant) as http:
                for one in self.servers():
                    http.delete(f"/v2.1/servers/{one['id']}")
            time.sleep(0.1)
        self.places()
        self.asks.clear()

    def _instances(self) -> int:
        """Return the number of instances in the ledgers of all zones."""
        return sum(len(book.instances) for book in read_snapshots(self.zones).values())

    def check_room(self) -> None:
        """Check that the whole capacity of the tree can be used, so no hold was left behind."""
        self.clear()
        deadline_s = time.monotonic() + WITHIN_S
        number = 0
        while self.create(f"all{number}", self.vcpus) != {"ACTIVE"}:
            assert time.monotonic() < deadline_s, "some capacity does not become free"
            number += 1
        assert sum(self.places()[f"all{number}"].values()) == self.vcpus
        self.clear()

    @contextmanager
    def hasty_root(self) -> Generator[None]:
        """Let the root try only briefly to settle a build, while the body runs."""
        file = self.root.folder / "berth.toml"
        patient = file.read_text()
        try:
            self._restart_root(patient.replace("settle_s = 60.0", "settle_s = 0.1"))
            yield
        finally:
            self._restart_root(patient)

    def _restart_root(self, settings: str) -> None:
        self.root.stop()
        (self.root.folder / "berth.toml").write_text(settings)
        self.root.start()
        self.zones.wait_until_active(WITHIN_S)

    def mend(self) -> None:
        """Open all gates and start the zones that do not run."""
        for gate in self.gates.values():
            gate.delay_s, gate.loses_answer_of = 0.0, None
            gate.open()
        for one in self.zones:
            if one.pid is None:
                one.start()
        self.zones.wait_until_active(WITHIN_S)


def errands_of(one: ZoneProcess) -> list[RemoteInstanceStage]:
    """Return the stages of a zone's remote instances, read from its ledger.

    Those of a removed child are left out, because they stay until the child is added again.
    """

    async def read() -> list[RemoteInstanceStage]:
        ledger = await open_ledger(f"sqlite:///{one.folder / 'data' / 'berth.sqlite'}")
        try:
            removed = {zone.zone_id for zone in await ledger.all(Zone) if zone.is_removed}
            errands = await ledger.remote_instances()
            return [one.stage for one in errands if one.zone_id not in removed]
        finally:
            await ledger.close()

    return asyncio.run(read())


@contextmanager
def faulty_tree(spec: ZoneSpec, folder: Path) -> Generator[FaultyTree]:
    """Run a tree with a gate to each child of the root, and yield it."""
    with made_tree(spec, folder, launch_fork) as zones, ExitStack() as stack:
        gates = {
            child.name: stack.enter_context(gate_to(child.url))
            for child in zones.children_of(zones.root)
        }
        zones.start(WITHIN_S)
        for one in zones:
            if one.parent is not None:
                gate = gates.get(one.name) if one.parent is zones.root else None
                one.parent.adopt(one, api_url=None if gate is None else gate.url)
        zones.wait_until_active(WITHIN_S)
        with zones.root.client() as http:
            flavor = {"id": "small", "name": "small", "vcpus": 1, "ram": 512, "disk": 1}
            http.post("/v2.1/flavors", json={"flavor": flavor}).raise_for_status()
        yield FaultyTree(zones, gates)
