"""Hosts, the compute service of each, and what attestation and self-audits report about them."""

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
"""The trust level of a machine whose attestation is missing or expired (nova-behaviour.md 2.6)."""


NOTICES_MAX: Final = 20
"""Maximum number of findings, and of repairs, that are kept for a host: the newest ones."""


METRICS_MAX = 1_000
"""Maximum number of metrics that one host may report."""


@dataclass(frozen=True, slots=True)
class Attestation:
    """The trust level of one machine (`trusted`, `untrusted`, ...), valid until `valid_until_s`.

    `valid_until_s` is Unix seconds. The record comes from the attestation service only; a machine
    cannot attest itself.
    """

    level: str
    valid_until_s: float

    def __post_init__(self) -> None:
        """Reject an expiry time that is not finite.

        Raises:
            InvalidInputError: `valid_until_s` is not finite.
        """
        if not math.isfinite(self.valid_until_s):
            raise InvalidInputError(
                "valid_until_s", f"{self.valid_until_s} must be a finite number"
            )

    def level_at(self, now_s: float) -> str:
        """Return the trust level at `now_s` (Unix seconds): `unknown` after `valid_until_s`."""
        return self.level if now_s <= self.valid_until_s else UNKNOWN_LEVEL


@dataclass(frozen=True, slots=True)
class HostNotice:
    """One fault of a host that its agent or the gateway found, or repaired.

    `code` is a `DiscrepancyCode`, including those that only an agent can detect: `orphan_guest`,
    `orphan_files`, `orphan_disks`. `key` is the UUID concerned. `at_s` is Unix seconds.
    """

    code: str
    key: str
    text: str
    at_s: float


@dataclass(frozen=True, slots=True)
class HostAudit:
    """The results of an agent's self-audits (docs/adr/0022-agents-audit-themselves.md).

    `found` contains the newest current faults that only the agent can detect, at most NOTICES_MAX
    of them, and `found_total` is the number of all such faults. `mended` contains the latest
    repairs, newest first.
    """

    found: tuple[HostNotice, ...] = ()
    found_total: int = 0
    mended: tuple[HostNotice, ...] = ()


NO_AUDIT: Final = HostAudit()
"""The audit of a host without findings or repairs."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine that runs instances, as its agent reports it.

    The pair (name, node) identifies the host, since one service host may manage several nodes.
    `uuid` is also the UUID of the host's root provider, which has the inventories and traits.
    `stats` are further attributes that the capability filter may read.
    """

    uuid: str
    name: str
    node: str
    hypervisor_type: str = "fake"
    hypervisor_version: int = 0
    host_ip: str = ""
    cpu_info: Mapping[str, object] = field(default_factory=dict[str, object])
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    """(architecture, hypervisor type, VM mode) triples that the host can run."""
    stats: Mapping[str, str] = field(default_factory=dict[str, str])
    cell: str = ""
    """The part of the fleet that moved instances prefer to stay in; empty if the fleet has no
    cells."""
    numa_cells: tuple[NumaCell, ...] = ()
    """The NUMA cells of the host. A host without any cannot take guests that request a topology."""
    pci_pools: tuple[PciPool, ...] = ()
    """The PCI devices that the host may pass through to guests, in pools of equal devices."""
    child_uuids: tuple[str, ...] = ()
    """The child providers that the agent reported; clients of the Placement API may have added
    others."""
    allocation_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Allocation ratios reported by the host, by resource class; 0 means "not set"
    (`ratios.py`)."""
    forced_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Ratios from the `agent.*_allocation_ratio` settings of the process that the agent reports to.
    They override all others except those of aggregates."""
    operator_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Ratios set by an operator at run time. Reports of the agent leave them unchanged."""
    initial_ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Ratios set when the host was first registered. Reports of the agent leave them unchanged."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Measurements of the host by name (`cpu.percent`)."""

    def __post_init__(self) -> None:
        """Reject ratios out of range, contradictory hardware, and invalid or too many metrics.

        Raises:
            InvalidInputError: a value is invalid; the error names the ratio, metric, NUMA cell or
                pool.
        """
        for field_name, ratios in _ratios_of(self).items():
            for name, ratio in ratios.items():
                if not 0 <= ratio <= RATIO_MAX:
                    reason = f"{ratio} must be between 0 and {RATIO_MAX}"
                    raise InvalidInputError(f"{field_name}.{name[:80]}", reason)
        check_cells(self.numa_cells)
        check_pools(self.pci_pools)
        if len(self.metrics) > METRICS_MAX:
            reason = f"{len(self.metrics)} metrics are too many; report at most {METRICS_MAX}"
            raise InvalidInputError("metrics", reason)
        for name, value in self.metrics.items():
            # JSON has neither NaN nor infinity, so either value would stop every follower of the
            # change feed.
            if not math.isfinite(value):
                raise InvalidInputError(f"metrics.{name[:80]}", f"{value} must be a finite number")


def _ratios_of(host: Host) -> dict[str, Mapping[str, float]]:
    """Return the ratios by the name of their field."""
    return {
        "allocation_ratios": host.allocation_ratios,
        "forced_ratios": host.forced_ratios,
        "operator_ratios": host.operator_ratios,
        "initial_ratios": host.initial_ratios,
    }


@dataclass(frozen=True, slots=True)
class Service:
    """The compute service of one host: its availability for new instances and its health.

    `host` is the key. `last_seen_s` is the time of the agent's last heartbeat; the ledger's copy
    changes only when the host is registered, while replicas add the later heartbeats. `failed_at_s`
    is the time of the newest failed build. Both are Unix seconds. `failed_builds` counts the failed
    builds since the last successful one (nova-behaviour.md 5.2); `build_failures` counts them by
    cause and tenant, and `failure_level` is their weight against the host when it was last
    computed, at least 0. `attestations` maps each node name to the attestation of the node. `audit`
    contains the findings and repairs of the agent.
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
        """Return whether the last heartbeat is recent and the service is not forced down.

        Args:
            now_s: Unix seconds.
            service_down_time_s: maximum difference between `now_s` and the last heartbeat, in
                seconds.
        """
        # The absolute difference tolerates a host whose clock is slightly ahead, but not one whose
        # clock is far ahead.
        return not self.forced_down and abs(now_s - self.last_seen_s) <= service_down_time_s
