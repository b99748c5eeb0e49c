"""What a fake host is to be, and what goes wrong there."""

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.compute.host import Host
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.ports.virt import ChildReport, DriverFeature, HostReport

_NAMESPACE = uuid.UUID("0d7a2a50-3b0e-5d3c-8f6b-0c2e6a1b9e77")


@dataclass(frozen=True, slots=True)
class DriverFaults:
    """How long the methods of a driver take, and how often they fail, by the method's name.

    `share` is the share of calls that fail, in [0, 1]. Which calls these are follows from the
    seed, the host's name, and how many calls there were before.
    """

    delay_s: Mapping[str, float] = field(default_factory=dict[str, float])
    share: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: int = 0

    def strikes(self, verb: str, host: str, number: int) -> bool:
        """Tell whether a call fails."""
        share = self.share.get(verb, 0.0)
        if share <= 0:
            return False
        # A generator for each call: one that is kept takes more memory than all of the host.
        return random.Random(f"{self.seed}/{host}/{verb}/{number}").random() < share  # noqa: S311 - faults are no secret


_NO_FAULTS = DriverFaults()


@dataclass(frozen=True, slots=True)
class FakeHost:
    """What a fake host is to have: totals by resource class, in the unit of the class.

    `spawn_s` is how long a build takes. Builds fail on this host when `fails` is set; `faults`
    has more of that kind, for all methods. `lacks` is what its driver cannot do. `metrics` are
    what it says to measure of itself, `children` its parts with inventories of their own,
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
    faults: DriverFaults = _NO_FAULTS
    lacks: frozenset[DriverFeature] = frozenset()


def report_of(fake: FakeHost) -> HostReport:
    """Return the host that the settings describe; its uuid depends on its name alone."""
    host_uuid = str(uuid.uuid5(_NAMESPACE, fake.name))
    host = Host(
        uuid=host_uuid,
        name=fake.name,
        node=fake.name,
        hypervisor_type="fake",
        hypervisor_version=1_000_000,
        host_ip=fake.host_ip,
        metrics=fake.metrics,
        cpu_info={"arch": "x86_64", "vendor": "fake", "model": "fake"},
        supported_instances=(("x86_64", "fake", "hvm"), ("x86_64", "kvm", "hvm")),
        numa_cells=fake.numa_cells,
        pci_pools=fake.pci_pools,
    )
    inventories = {
        name: Inventory(total=total, allocation_ratio=fake.ratios.get(name, 1.0))
        for name, total in fake.totals.items()
    }
    provider = Provider(uuid=host_uuid, name=fake.name, inventories=inventories, traits=fake.traits)
    return HostReport(host, provider, fake.children)
