"""Hosts and the compute service that runs on each."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from berth.domain.compute.build_failure import FailureCount
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.numa import NumaCell, check_cells
from berth.domain.hardware.pci import PciPool, check_pools
from berth.domain.inventory.resources import RATIO_MAX

UNKNOWN_LEVEL = "unknown"
"""The level of a machine that is not attested, or no longer (nova-behaviour.md 2.6)."""


NOTICES_MAX: Final = 20
"""Notes of each sort that are kept of one host, the newest."""


METRICS_MAX = 1_000
"""Most metrics that one host may report."""


@dataclass(frozen=True, slots=True)
class Attestation:
    """The level of one machine (`trusted`, `untrusted`, ...), until `valid_until_s`, Unix seconds.

    Machines do not speak for themselves here: only who asks the attestation service writes it.
    """

    level: str
    valid_until_s: float

    def __post_init__(self) -> None:
        """Refuse an end that is no time.

        Raises:
            InvalidInputError: naming the field.
        """
        if not math.isfinite(self.valid_until_s):
            raise InvalidInputError("valid_until_s", f"{self.valid_until_s} is not a finite number")

    def level_at(self, now_s: float) -> str:
        """Return the level that counts at a time: `unknown` when it has run out."""
        return self.level if now_s <= self.valid_until_s else UNKNOWN_LEVEL


@dataclass(frozen=True, slots=True)
class HostNotice:
    """One thing that an agent has found, or has mended.

    `code` is a discrepancy's, or the name of what only an agent can see: `orphan_guest`,
    `orphan_files`, `orphan_disks`. `key` is the uuid that it is about. `at_s` is Unix seconds.
    """

    code: str
    key: str
    text: str
    at_s: float


@dataclass(frozen=True, slots=True)
class HostAudit:
    """What the agent of a host tells of its audits.

    `found` is what is there still, and only the agent can see; `found_total` counts those that
    are left out, too. `mended` is what it has mended last, newest first.
    """

    found: tuple[HostNotice, ...] = ()
    found_total: int = 0
    mended: tuple[HostNotice, ...] = ()


NO_AUDIT: Final = HostAudit()
"""Of a host whose agent has found nothing."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine that runs instances, as its agent reports it.

    The pair (name, node) is its identity, since one service host may manage many nodes. `uuid`
    is also the uuid of its root provider, which holds its inventories and traits. `stats` is any
    further attribute that the capability filter may read.
    """

    uuid: str
    name: str
    node: str
    hypervisor_type: str = "fake"
    hypervisor_version: int = 0
    host_ip: str = ""
    cpu_info: Mapping[str, object] = field(default_factory=dict[str, object])
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    """(architecture, hypervisor type, vm mode) triples that the host can run."""
    stats: Mapping[str, str] = field(default_factory=dict[str, str])
    cell: str = ""
    """The part of the fleet that instances better do not leave; empty when there are none."""
    numa_cells: tuple[NumaCell, ...] = ()
    """Its NUMA cells; without any it takes no guest that asks for a topology."""
    pci_pools: tuple[PciPool, ...] = ()
    """The PCI devices that it may hand to guests, by kind."""
    child_uuids: tuple[str, ...] = ()
    """The child providers that its agent has reported; others may have been added beside."""
    allocation_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Its own allocation ratios by resource class; 0 inherits (see `domain.ratios`)."""
    forced_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the settings of its agent say instead, at each report."""
    operator_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """What an operator has set while it runs; the agent's report does not say them."""
    initial_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Those that it was first registered with; the agent's report does not say them."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the host measures of itself, by name (`cpu.percent`)."""

    def __post_init__(self) -> None:
        """Refuse metrics that are no numbers, or very many of them, and impossible hardware.

        Raises:
            InvalidInputError: naming the metric, cell or pool.
        """
        for ratios in _ratios_of(self):
            for name, ratio in ratios.items():
                if not 0 <= ratio <= RATIO_MAX:
                    reason = f"{ratio} must be 0 to {RATIO_MAX}"
                    raise InvalidInputError(f"allocation_ratios.{name[:80]}", reason)
        check_cells(self.numa_cells)
        check_pools(self.pci_pools)
        if len(self.metrics) > METRICS_MAX:
            reason = f"{len(self.metrics)} are too many; report at most {METRICS_MAX}"
            raise InvalidInputError("metrics", reason)
        for name, value in self.metrics.items():
            if not math.isfinite(value):
                raise InvalidInputError(f"metrics.{name[:80]}", f"{value} is not a finite number")


def _ratios_of(host: Host) -> tuple[Mapping[str, float], ...]:
    return (
        host.allocation_ratios,
        host.forced_ratios,
        host.operator_ratios,
        host.initial_ratios,
    )


@dataclass(frozen=True, slots=True)
class Service:
    """The compute service of one host: whether it may get new instances.

    `host` is its key. `last_seen_s` is the agent's last heartbeat in Unix seconds.
    `failed_builds` counts the builds that failed on the host since one last succeeded, and
    `failed_at_s` says when the newest did; only the agent changes them (nova-behaviour.md 5.2).
    It also
    keeps `build_failures`, by cause and tenant, and says in `failure_level` how much they speak
    against the host now, at least 0.
    `attestations` is what an attestation service says of each node of the host, by its name.
    `audit` is what the agent has found and mended.
    """

    host: str
    service_id: str
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    last_seen_s: float = 0.0
    created_at_s: float = 0.0
    failed_builds: int = 0
    failed_at_s: float = 0.0
    attestations: Mapping[str, Attestation] = field(default_factory=dict[str, Attestation])
    audit: HostAudit = NO_AUDIT
    build_failures: tuple[FailureCount, ...] = ()
    failure_level: float = 0.0

    def is_up(self, now_s: float, service_down_time_s: float) -> bool:
        """Tell whether the last heartbeat is fresh and nobody forced the service down."""
        return not self.forced_down and abs(now_s - self.last_seen_s) <= service_down_time_s
