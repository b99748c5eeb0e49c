"""The fake driver: a host that exists only in memory, for demos, tests and load."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from berth.domain.errors import BuildError
from berth.domain.host import Host
from berth.domain.instance import Instance
from berth.domain.numa import NumaCell
from berth.domain.pci import PciPool
from berth.domain.provider import Provider
from berth.domain.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.ports.clock import Clock
from berth.ports.virt import ChildReport, Report

_NAMESPACE = uuid.UUID("0d7a2a50-3b0e-5d3c-8f6b-0c2e6a1b9e77")


@dataclass(frozen=True, slots=True)
class FakeHost:
    """What a fake host is to have: totals by resource class, in the unit of the class.

    `spawn_s` is how long a build takes. Builds fail on this host when `fails` is set. `metrics`
    are what it says to measure of itself, `children` its parts with inventories of their own,
    `numa_cells` and `pci_pools` its hardware.
    """

    name: str
    totals: Mapping[str, int] = field(
        default_factory=lambda: {VCPU: 64, MEMORY_MB: 262_144, DISK_GB: 2_000}
    )
    ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    traits: frozenset[str] = frozenset()
    host_ip: str = "127.0.0.1"
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    children: tuple[ChildReport, ...] = ()
    numa_cells: tuple[NumaCell, ...] = ()
    pci_pools: tuple[PciPool, ...] = ()
    spawn_s: float = 0.0
    fails: bool = False


class FakeDriver:
    """Keeps a set of running instances; see the port `Driver`.

    Instances vanish with the process, as a machine's do when it loses power; the agent then
    starts what the ledger says should run.
    """

    def __init__(self, fake: FakeHost, clock: Clock) -> None:
        self._fake = fake
        self._clock = clock
        self._running: set[str] = set()

    async def report(self) -> Report:
        """Return the host that the settings describe; its uuid depends on its name alone."""
        host_uuid = str(uuid.uuid5(_NAMESPACE, self._fake.name))
        host = Host(
            uuid=host_uuid,
            name=self._fake.name,
            node=self._fake.name,
            hypervisor_type="fake",
            hypervisor_version=1_000_000,
            host_ip=self._fake.host_ip,
            metrics=self._fake.metrics,
            cpu_info={"arch": "x86_64", "vendor": "fake", "model": "fake"},
            supported_instances=(("x86_64", "fake", "hvm"), ("x86_64", "kvm", "hvm")),
            numa_cells=self._fake.numa_cells,
            pci_pools=self._fake.pci_pools,
        )
        inventories = {
            name: Inventory(total=total, allocation_ratio=self._fake.ratios.get(name, 1.0))
            for name, total in self._fake.totals.items()
        }
        provider = Provider(
            uuid=host_uuid,
            name=self._fake.name,
            inventories=inventories,
            traits=self._fake.traits,
        )
        return Report(host, provider, self._fake.children)

    async def spawn(self, instance: Instance) -> None:
        """Start an instance; one that runs goes on."""
        if instance.uuid in self._running:
            return
        if self._fake.spawn_s:
            await self._clock.sleep(self._fake.spawn_s)
        if self._fake.fails:
            raise BuildError(f"the fake host {self._fake.name} is set to fail")
        self._running.add(instance.uuid)

    async def destroy(self, instance_uuid: str) -> None:
        """Stop an instance."""
        self._running.discard(instance_uuid)

    async def running(self) -> Sequence[str]:
        """Return the uuids of the instances that run."""
        return sorted(self._running)
