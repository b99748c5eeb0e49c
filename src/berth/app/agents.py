"""The agents of a process: one real host, or a simulated fleet."""

import random
from collections.abc import Iterable, Mapping

from berth.adapters.system import NoMetrics
from berth.agent.audit_rounds import AuditRounds
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.executor.alternates import Alternates
from berth.agent.executor.restarts import RestartRule
from berth.agent.host_notices import HostNotices
from berth.agent.host_reports import HostReports
from berth.agent.instance_casts import InstanceCaster
from berth.agent.pool import Agent, AgentPool, Pace
from berth.agent.self_audit import SelfAudit
from berth.app.core import Core
from berth.app.run import Loop
from berth.config.virt_settings import AgentDriver
from berth.ports.virt import VirtDriver
from berth.services.servers.consoles import serve_console


def instance_teller(core: Core, hosts: Iterable[str]) -> InstanceCaster | None:
    """Return the caster of the hosts' instance lists, or None when instance tracking is off.

    The caster is subscribed to the follower, which must not have started yet.
    """
    tracking = core.settings.tracking
    if not tracking.track_instance_changes:
        return None
    teller = InstanceCaster(
        hosts,
        core.messaging.bus,
        core.clock,
        core.telemetry,
        random.Random(),  # noqa: S311 - it only spreads the casts of hosts over time
        session=core.ids.uuid(),
        sync_interval_s=tracking.instance_sync_interval_s,
    )
    core.follower.subscribers.append(teller)
    return teller


def agent_loops(core: Core, pool: AgentPool, teller: InstanceCaster | None) -> list[Loop]:
    """Return the background loops of the agents in a pool."""
    loops: list[Loop] = [("agents", pool.run)]
    # A process without hosts, such as one that serves the API alone, has nothing to audit.
    if pool.agents:
        loops.append(("audits", _rounds(core, pool).run))
    if teller is not None:
        loops += [("telling", teller.run), ("syncs", teller.sync)]
    # A simulated guest never ends by itself, so the events of the fake driver are ignored.
    if core.settings.agent.driver is not AgentDriver.FAKE:
        loops.append(("hints", pool.listen))
    return loops


def _rounds(core: Core, pool: AgentPool) -> AuditRounds:
    """Return the audit rounds, in which every host periodically reports and audits itself."""
    auditing = SelfAudit(
        ledger=core.ledger,
        replica=core.replica,
        reports=HostReports(core.hosts, core.replica, core.ratios),
        notices=pool.notices or _notices(core),
        clock=core.clock,
        telemetry=core.telemetry,
        metrics=core.observation.metrics or NoMetrics(),
        service_down_time_s=lambda: core.policies.policy.service_down_time_s,
    )

    async def audit(host: str) -> None:
        await auditing.audit(host, pool.agents[host].driver)

    return AuditRounds(
        pool.agents,
        audit,
        core.clock,
        core.telemetry,
        interval_s=core.settings.agent.audit_interval_s,
        randomness=random.Random(),  # noqa: S311 - it only spreads the audits of hosts over time
    )


def _notices(core: Core) -> HostNotices:
    return HostNotices(
        ledger=core.ledger,
        replica=core.replica,
        clock=core.clock,
        telemetry=core.telemetry,
        metrics=core.observation.metrics or NoMetrics(),
    )


def agent_pool(core: Core, drivers: Mapping[str, VirtDriver]) -> AgentPool:
    """Return the pool of the agents of a process.

    Args:
        core: the parts of the process.
        drivers: the driver of each host, by the host's name.
    """
    paced = core.settings.agent
    attempts_max = core.settings.scheduler.build_attempts_max
    stop_grace_s = core.settings.virt.stop_grace_s

    alternates = Alternates(
        follower=core.follower,
        replica=core.replica,
        clock=core.clock,
        service_down_time_s=lambda: core.policies.policy.service_down_time_s,
        default_zone=lambda: core.policies.policy.default_availability_zone,
    )

    def agent(name: str, driver: VirtDriver) -> Agent:
        # Consoles are read through the bus, while all other work for a host comes from the ledger.
        serve_console(core.messaging.bus, name, driver)
        context = HostContext(
            name,
            core.ledger,
            driver,
            core.clock,
            attempts_max=attempts_max,
            stop_grace_s=stop_grace_s,
            alternates=alternates,
            half_life_s=paced.build_failure_half_life_s,
        )
        return Agent(name, driver, HostExecutor(context, core.observation.observer))

    return AgentPool(
        {name: agent(name, driver) for name, driver in drivers.items()},
        core.hosts,
        core.clock,
        core.telemetry,
        Pace(
            report_interval_s=paced.heartbeat_interval_s,
            reconcile_interval_s=paced.reconcile_interval_s,
            restarts=RestartRule(
                paced.restarts_max, window_s=paced.restart_window_s, pause_s=paced.restart_pause_s
            ),
        ),
        _notices(core),
    )
