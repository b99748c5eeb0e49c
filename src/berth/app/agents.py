"""The agents of a process: that of one real host, or those of a simulated fleet."""

import random
from collections.abc import Iterable, Mapping

from berth.agent.audit_rounds import AuditRounds
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.executor.restarts import RestartRule
from berth.agent.instance_casts import InstanceCaster
from berth.agent.pool import Agent, AgentPool, Pace
from berth.agent.vnc_channels import HostConsoles
from berth.app.core import Core
from berth.app.run import Loop
from berth.config.agent_settings import AgentSettings
from berth.config.settings import Settings
from berth.config.virt_settings import AgentDriver
from berth.ports.clock import Clock
from berth.ports.gateway import HostGateway
from berth.ports.observer import Observer
from berth.ports.virt import VirtDriver
from berth.services.gateway.host_queries import serve_queries


def instance_caster(core: Core, hosts: Iterable[str]) -> InstanceCaster | None:
    """Return the caster of the hosts' instance lists, or None when instance tracking is off.

    The caster is subscribed to the follower, which must not have started yet.
    """
    tracking = core.settings.tracking
    if not tracking.track_instance_changes:
        return None
    caster = InstanceCaster(
        hosts,
        core.messaging.bus,
        core.clock,
        core.telemetry,
        random.Random(),  # noqa: S311 - it only spreads the casts of hosts over time
        session=core.ids.uuid(),
        sync_interval_s=tracking.instance_sync_interval_s,
    )
    core.follower.subscribers.append(caster)
    return caster


def agent_loops(
    core: Core, pool: AgentPool, gateway: HostGateway, caster: InstanceCaster | None
) -> list[Loop]:
    """Return the background loops of the agents in a pool."""
    loops: list[Loop] = [("agents", pool.run)]
    # A process without hosts, such as one that serves the API alone, has nothing to audit.
    if pool.agents:
        loops.append(("audits", _rounds(core, pool, gateway).run))
    if caster is not None:
        loops += [("telling", caster.run), ("syncs", caster.sync)]
    # A simulated guest never ends by itself, so the events of the fake driver are ignored.
    if core.settings.agent.driver is not AgentDriver.FAKE:
        loops.append(("hints", pool.listen))
    return loops


def _rounds(core: Core, pool: AgentPool, gateway: HostGateway) -> AuditRounds:
    """Return the rounds in which every host periodically reports itself, and so is audited."""

    async def audit(host: str) -> None:
        await gateway.report(await pool.agents[host].driver.report())

    return AuditRounds(
        pool.agents,
        audit,
        core.clock,
        core.telemetry,
        interval_s=core.settings.agent.audit_interval_s,
        randomness=random.Random(),  # noqa: S311 - it only spreads the audits of hosts over time
    )


def agent_pool(core: Core, gateway: HostGateway, drivers: Mapping[str, VirtDriver]) -> AgentPool:
    """Return the pool of the agents of a process.

    Args:
        core: the parts of the process.
        gateway: reaches the control plane.
        drivers: the driver of each host, by the host's name.
    """
    settings, bus = core.settings, core.messaging.bus
    agents: dict[str, Agent] = {}
    for name, driver in drivers.items():
        # Queries come through the bus, while all other work for a host comes from the feed.
        serve_queries(bus, name, HostConsoles(name, driver, core.clock))
        observer = core.observation.observer
        agents[name] = agent_of(name, driver, gateway, core.clock, settings, observer)
    return AgentPool(agents, gateway, core.clock, core.telemetry, pace_of(settings.agent))


def agent_of(
    name: str,
    driver: VirtDriver,
    gateway: HostGateway,
    clock: Clock,
    settings: Settings,
    observer: Observer,
) -> Agent:
    """Return the agent of a host."""
    stop_grace_s = settings.virt.stop_grace_s
    context = HostContext(name, gateway, driver, clock, stop_grace_s=stop_grace_s)
    return Agent(name, driver, HostExecutor(context, observer))


def pace_of(settings: AgentSettings) -> Pace:
    """Return the intervals and limits in an agent's settings."""
    return Pace(
        report_interval_s=settings.heartbeat_interval_s,
        reconcile_interval_s=settings.reconcile_interval_s,
        restarts=RestartRule(
            settings.restarts_max,
            window_s=settings.restart_window_s,
            pause_s=settings.restart_pause_s,
        ),
    )
