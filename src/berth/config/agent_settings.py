"""The settings of compute hosts and of the tracking of their instances."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from berth.config.setting_values import Amount, Ratio, Seconds
from berth.config.urls import check_server_url
from berth.config.virt_settings import AgentDriver
from berth.domain.compute.build_failure import HALF_LIFE_S
from berth.domain.errors import InvalidInputError


class InstanceSource(StrEnum):
    """The source from which schedulers learn which instances each host has."""

    FEED = "feed"
    CASTS = "casts"


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The compute hosts of this process: one host, several fake ones, or those in a file."""

    # Nova's `report_interval` has the same default (nova-behaviour.md 5.5).
    heartbeat_interval_s: Seconds = 10.0
    """Seconds between two heartbeats of a host; keep it well below `service_down_time_s` of the
    policy."""
    # The driver reports changes immediately, so the full comparison only catches lost events.
    reconcile_interval_s: Seconds = 600.0
    """Seconds between two full comparisons of a host's guests with its instances, in addition to
    the events of the driver."""
    isolated_pause_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """Seconds without the control plane after which guests are paused; 0 keeps them running."""
    restarts_max: Annotated[int, Meta(ge=0, le=1_000)] = 5
    """Number of restarts of a crashed guest within `restart_window_s`; with 0 it is not
    restarted."""
    restart_window_s: Seconds = 1_800.0
    """Seconds in which the restarts of a guest are counted."""
    restart_pause_s: Seconds = 10.0
    """Seconds between the first two restarts of a guest; the pause doubles each time."""
    build_failure_half_life_s: Seconds = HALF_LIFE_S
    """Seconds in which the weight of a failed build against its host, by cause and tenant,
    halves."""
    audit_interval_s: Seconds = 60.0
    """Seconds between two reports of a host, each with a check of its records."""
    driver: AgentDriver = AgentDriver.FAKE
    """The virtualisation driver: `fake` simulates guests; `libvirt` and `qemu` run real ones on the
    single host that `agent.host` names."""
    host: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """The name of the host."""
    gateway_url: str | None = field(default=None, repr=False)  # it may contain a password
    """URL through which the agent reaches the control plane: `https://HOST:PORT` of an API, or
    `amqps://HOST:PORT/VIRTUAL-HOST` of a broker; `http` and `amqp` on loopback only."""
    gateway_ca_file: Path | None = None
    """File of CA certificates that verify `gateway_url`, which replace the system's."""
    gateway_password_file: Path | None = None
    """File with the host's password at the broker, or a folder with a file `HOST.password` for each
    simulated host; read at each connection."""
    key_file: Path = Path("berth-agent.key")
    """File of the host's private key, which `berth agent-enroll` creates, in a folder that the
    agent may write, because a rotation replaces it; or a folder with a file `HOST.key` for each
    simulated host."""
    fake_hosts: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """Number of simulated hosts to manage in place of a real one."""
    fleet: Path | None = None
    """JSON list of simulated hosts to manage in place of a real one."""
    vcpus: Amount = 32
    """CPUs of each simulated host."""
    memory_mb: Amount = 131_072
    """Memory of each simulated host, in MiB."""
    disk_gb: Amount = 2_000
    """Disk of each simulated host, in GiB."""
    cpu_allocation_ratio: Ratio = 0.0
    """CPU allocation ratio of all hosts, which overrides their own ratios; 0 keeps those."""
    ram_allocation_ratio: Ratio = 0.0
    """Memory allocation ratio of all hosts, which overrides their own ratios; 0 keeps those."""
    disk_allocation_ratio: Ratio = 0.0
    """Disk allocation ratio of all hosts, which overrides their own ratios; 0 keeps those."""
    initial_cpu_allocation_ratio: Ratio = 4.0
    """CPU allocation ratio of a host that reports none at its first registration; later changes of
    the setting do not affect the host."""
    initial_ram_allocation_ratio: Ratio = 1.0
    """Likewise the memory allocation ratio."""
    initial_disk_allocation_ratio: Ratio = 1.0
    """Likewise the disk allocation ratio."""

    def __post_init__(self) -> None:
        """Reject a malformed URL; the error does not quote it, because it may contain a password.

        Raises:
            InvalidInputError: the error names the key and the valid forms.
        """
        if self.gateway_url is not None:
            is_broker = self.gateway_url.startswith("amqp")
            schemes = {"amqp", "amqps"} if is_broker else {"http", "https"}
            form = "amqps://HOST:PORT/VIRTUAL-HOST" if is_broker else "https://HOST:PORT"
            check_server_url(self.gateway_url, "agent.gateway_url", schemes, form)


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """The tracking of each host's instances; see docs/adr/0020-instance-information.md."""

    track_instance_changes: bool = True
    """Agents broadcast the instances of their hosts, and schedulers listen; rules about instances
    require this."""
    # Nova's `scheduler_instance_sync_interval` has the same default.
    instance_sync_interval_s: Annotated[float, Meta(ge=1, le=86_400)] = 120.0
    """Seconds between an agent's full instance lists; the same in all agents and schedulers."""
    instance_information: InstanceSource = InstanceSource.FEED
    """`feed` reads instances from the ledger and verifies them; `casts` uses agents' reports."""

    def __post_init__(self) -> None:
        """Reject casts as the source if agents do not send any.

        Raises:
            InvalidInputError: the error names the key and the remedy.
        """
        if self.instance_information is InstanceSource.CASTS and not self.track_instance_changes:
            raise InvalidInputError(
                "tracking.instance_information",
                "casts requires tracking.track_instance_changes; turn that on, or use feed",
            )
