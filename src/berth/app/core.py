"""The parts shared by all processes with a host table, and functions to run such a process."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from berth import __version__
from berth.adapters.bus.signing import MessageSigner
from berth.adapters.ledger import open_ledger
from berth.adapters.system import LogTelemetry, NoMetrics, RandomIds, SystemClock
from berth.app.audit_log import AuditedTelemetry, AuditTrail, open_audit_log
from berth.app.messaging import Messaging, connect, local_messaging
from berth.app.observability import Observation, observe
from berth.app.run import Loop, ledger_url_of, make_data_dir, make_folder, running
from berth.config.agent_settings import AgentSettings
from berth.config.bus_keys import BusKeyFile
from berth.config.policy_source import PolicySource
from berth.config.settings import Settings
from berth.config.telemetry_settings import HealthSettings
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.instance_rules import check_instances_tracked
from berth.services.decisions.decisions import DecisionService
from berth.services.fleet.allocation_ratios import AllocationRatios, RatioSettings
from berth.services.fleet.hosts import Hosts
from berth.services.replica.follower import Follower
from berth.services.replica.liveness import (
    SCHEDULING_PARTS,
    Liveness,
    SilenceRules,
    gateway_id,
)
from berth.services.replica.replica import Replica
from berth.services.replica.scheduler_reports import LAG, CountReader
from berth.services.telemetry.capacity_gauges import CapacityGauges, CapacityRules
from berth.services.telemetry.health import BrokerHealth, HostTableHealth, ProcessHealth

_BUS_KEYS = "bus-keys"


def ratio_settings_of(agent: AgentSettings) -> RatioSettings:
    """Return the allocation ratios in an agent's settings."""
    return RatioSettings(
        own={
            VCPU: agent.cpu_allocation_ratio,
            MEMORY_MB: agent.ram_allocation_ratio,
            DISK_GB: agent.disk_allocation_ratio,
        },
        initial={
            VCPU: agent.initial_cpu_allocation_ratio,
            MEMORY_MB: agent.initial_ram_allocation_ratio,
            DISK_GB: agent.initial_disk_allocation_ratio,
        },
    )


@dataclass(frozen=True, slots=True)
class Core:
    """The parts of a process: the ledger, a replica that follows it, and shared services.

    Each service is built once, because its users share its state: after the scheduler has lost
    claims, `decision_service` chooses among more hosts, and so do dry runs and zone offers.
    """

    settings: Settings
    ledger: Ledger
    replica: Replica
    follower: Follower
    policies: PolicySource
    messaging: Messaging
    clock: SystemClock
    ids: RandomIds
    telemetry: LogTelemetry
    observation: Observation
    health: ProcessHealth
    decision_service: DecisionService
    ratios: AllocationRatios
    hosts: Hosts
    liveness: Liveness
    audit_trail: AuditTrail


@asynccontextmanager
async def open_core(settings: Settings, part: str) -> AsyncGenerator[Core]:
    """Open the parts of a process within the context, and close them at its end.

    Args:
        settings: the settings of the process.
        part: the kind of process (`scheduler`).

    Raises:
        InvalidInputError: a setting is invalid, settings contradict each other, a file cannot be
            used, or a package that the settings need is not installed.
        PolicyError: the policy file is invalid.
        LedgerError: the ledger cannot be opened or migrated.
    """
    clock = SystemClock()
    telemetry = AuditedTelemetry(part, clock)
    policies = _policies_of(settings)
    make_data_dir(settings.ledger)
    _log_changes(policies, telemetry)
    observation = observe(settings, part, clock, telemetry)
    ledger = await open_ledger(
        ledger_url_of(settings.ledger),
        timeout_s=settings.ledger.timeout_s,
        on_batch=observation.on_batch,
        on_failure=partial(telemetry.failure, "ledger_writer_failed"),
    )
    # From here on the ledger is open, so any failure must close it.
    try:
        audit_trail = open_audit_log(settings, ledger, telemetry, clock)
        parts = (clock, telemetry, policies, observation, ledger, audit_trail)
        core = _build(settings, part, *parts)
        core.health.further.append(core.liveness.read)
        core.health.surveys.append(_capacity_gauges_of(core).read)
        try:
            yield core
        finally:
            await audit_trail.finish()
    finally:
        # The ledger is closed first: this flushes commits, whose spans `finish` then sends.
        await ledger.close()
        # `finish` blocks for seconds while the collector is unreachable, so it runs in a thread.
        await asyncio.to_thread(observation.finish)


def _build(  # noqa: PLR0913, PLR0917 - the parts that are already open
    settings: Settings,
    part: str,
    clock: SystemClock,
    telemetry: LogTelemetry,
    policies: PolicySource,
    observation: Observation,
    ledger: Ledger,
    audit_trail: AuditTrail,
) -> Core:
    # The replica subscribes first, because other subscribers may read it when they are called.
    replica, ids, own = Replica(), RandomIds(), ratio_settings_of(settings.agent)
    follower = Follower(ledger, clock, [replica])
    ratios = AllocationRatios(ledger=ledger, replica=replica, settings=own)
    messaging = _messaging_of(settings, part, clock, telemetry, observation)
    observer, rules = observation.observer, _silence_rules(settings, policies)
    parts = (ledger, replica, clock, telemetry, gateway_id(part, ids.uuid(), __version__))
    counts = _count_reader(part, ledger, replica, observation)
    return Core(
        settings=settings,
        ledger=ledger,
        replica=replica,
        follower=follower,
        policies=policies,
        messaging=messaging,
        clock=clock,
        ids=ids,
        telemetry=telemetry,
        observation=observation,
        health=ProcessHealth(
            ledger=ledger,
            follower=follower,
            clock=clock,
            fleet=_table_health_of(replica, policies),
            lag_s_max=settings.health.lag_s_max,
            broker=_broker_of(messaging, settings.health, part),
        ),
        decision_service=DecisionService(replica, policies, clock, observer, telemetry),
        ratios=ratios,
        hosts=Hosts(
            ledger=ledger,
            follower=follower,
            replica=replica,
            ratios=ratios,
            clock=clock,
            ids=ids,
        ),
        liveness=Liveness(*parts, rules=rules, observer=observer, counts=counts),
        audit_trail=audit_trail,
    )


def _count_reader(
    part: str, ledger: Ledger, replica: Replica, observation: Observation
) -> CountReader:
    """Return the reader of what this process reports about itself if it schedules."""

    async def read() -> Mapping[str, int]:
        if part not in SCHEDULING_PARTS:
            return {}
        lag = max(0, await ledger.version() - replica.hosts.version)
        return {LAG: lag} | observation.scheduling_counts()

    return read


def _capacity_gauges_of(core: Core) -> CapacityGauges:
    policies = core.policies
    rules = CapacityRules(
        service_down_time_s=lambda: policies.policy.service_down_time_s,
        default_zone=lambda: policies.policy.default_availability_zone,
        flavors=core.settings.metrics.flavors,
    )
    return CapacityGauges(core.replica, core.decision_service, core.clock, rules)


def _policies_of(settings: Settings) -> PolicySource:
    path = settings.policy.path
    # Without instance tracking a policy must not read instances. The source repeats this check
    # whenever it reloads the policy.
    tracks = settings.tracking.track_instance_changes
    policies = PolicySource(path) if tracks else PolicySource(path, check=check_instances_tracked)
    _check_zone(settings, policies)
    return policies


def _log_changes(policies: PolicySource, telemetry: Telemetry) -> None:
    """Log each change of the policy, and each change of its file that is invalid."""

    def changed(policy: Policy, digest: str) -> None:
        telemetry.event("policy_changed", policy=policy.name, digest=digest)

    def refused(reason: str) -> None:
        telemetry.warning("policy_refused", path=str(policies.path), error=reason)

    policies.on_change, policies.on_refused = changed, refused


def _messaging_of(
    settings: Settings,
    part: str,
    clock: SystemClock,
    telemetry: LogTelemetry,
    observation: Observation,
) -> Messaging:
    if settings.bus.url is None:
        return local_messaging(telemetry)
    path = settings.bus.key_file
    if path is None:
        make_folder(settings.ledger.data_dir)
        path = settings.ledger.data_dir / _BUS_KEYS
    keys = BusKeyFile(path, clock, telemetry)
    if settings.bus.accepts_unsigned:
        telemetry.event("bus_accepts_unsigned", key_file=str(path))
    return connect(
        settings.bus,
        part,
        telemetry,
        observation.metrics or NoMetrics(),
        MessageSigner(keys, accepts_unsigned=settings.bus.accepts_unsigned, now_s=clock.now_s),
        notifies=part in {"up", "scheduler"},
    )


def _silence_rules(settings: Settings, policies: PolicySource) -> SilenceRules:
    share_max = settings.health.silent_share_max
    return SilenceRules(lambda: policies.policy.service_down_time_s, share_max)


def _table_health_of(replica: Replica, policies: PolicySource) -> HostTableHealth:
    return HostTableHealth(replica, policies, lambda: policies.policy.service_down_time_s)


def _broker_of(messaging: Messaging, health: HealthSettings, part: str) -> BrokerHealth | None:
    """Return the health source of the broker, or None if there is no broker.

    Unless the settings say otherwise, only schedulers and agents need the broker to be ready.
    """
    if messaging.is_up is None:
        return None
    needs = health.needs_broker
    return BrokerHealth(messaging.is_up, part in {"scheduler", "agent"} if needs is None else needs)


def _check_zone(settings: Settings, policies: PolicySource) -> None:
    shown, kept = settings.api.default_availability_zone, policies.policy.default_availability_zone
    if shown != kept:
        raise InvalidInputError(
            "api.default_availability_zone",
            f"is {shown!r}, but the policy's AvailabilityZoneFilter or driver uses {kept!r}; set "
            "both to the same zone",
        )


def common_loops(core: Core) -> list[Loop]:
    """Return the background loops that every process with a `Core` runs.

    Raises:
        InvalidInputError: the address for metrics is in use, or is not an address of this machine.
    """

    async def watch_policy() -> None:
        await core.policies.watch(core.clock, core.settings.policy.watch_interval_s)

    loops: list[Loop] = [
        ("follower", core.follower.run),
        ("heartbeats", core.liveness.run),
        ("policy", watch_policy),
    ]
    loops += [*core.audit_trail.loops, *core.messaging.loops]
    return [*loops, *core.observation.loops(core.health)]


@asynccontextmanager
async def running_core(core: Core, loops: Sequence[Loop]) -> AsyncGenerator[None]:
    """Run loops within the context; SIGHUP reloads the policy immediately."""
    async with running(loops, core.clock, core.telemetry):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, core.policies.reload)
        yield


def stop_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set; they no longer end the process by themselves."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped
