"""The description of a fake host, and its injected faults."""

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
    """Delays and failure rates of a driver's methods, by the method's name.

    `delay_s` is in seconds; `share` is the fraction of calls that fail, in [0, 1]. The seed, the
    host's name and the number of earlier calls determine which calls fail.
    """

    delay_s: Mapping[str, float] = field(default_factory=dict[str, float])
    share: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: int = 0

    def strikes(self, verb: str, host: str, number: int) -> bool:
        """Return whether a call to a driver's method fails.

        Args:
            verb: the name of the method.
            host: the name of the host.
            number: the index of the call among all calls of the host's driver.
        """
        share = self.share.get(verb, 0.0)
        if share <= 0:
            return False
        # Each call creates a generator, since a stored one takes more memory than the rest of the
        # host.
        return random.Random(f"{self.seed}/{host}/{verb}/{number}").random() < share  # noqa: S311 - faults are not secret


_NO_FAULTS = DriverFaults()


@dataclass(frozen=True, slots=True)
class FakeHost:
    """The description of a fake host.

    `totals` are the amounts and `ratios` the allocation ratios of its inventories, by resource
    class. `metrics` are its reported metrics, `children` its nested providers, `numa_cells` and
    `pci_pools` its hardware. A build takes `spawn_s` seconds, and always fails if `fails` is set;
    `faults` applies to all methods. The driver does not support the features in `lacks`.
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
    """Return the report of a fake host, whose uuid is derived from its name."""
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
