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
    """Return the caster of the hosts' instances, or None when instance tracking is off.

    It is subscribed to the follower, so that it follows the feed from the start.
    """
    tracking = core.settings.tracking
    if not tracking.track_instance_changes:
        return None
    teller = InstanceCaster(
        hosts,
        core.messaging.bus,
        core.clock,
        core.telemetry,
        random.Random(),  # noqa: S311 - it only keeps hosts from going in step
        session=core.ids.uuid(),
        sync_interval_s=tracking.instance_sync_interval_s,
    )
    core.follower.subscribers.append(teller)
    return teller


def agent_loops(core: Core, pool: AgentPool, teller: InstanceCaster | None) -> list[Loop]:
    """Return the background loops of agents; simulated hosts have no changes to report."""
    loops: list[Loop] = [("agents", pool.run)]
    # A process without hosts, such as one that serves the API alone, has nothing to audit.
    if pool.agents:
        loops.append(("audits", _rounds(core, pool).run))
    if teller is not None:
        loops += [("telling", teller.run), ("syncs", teller.sync)]
    # A simulated guest never dies by itself, so the fake driver has no hints.
    if core.settings.agent.driver is not AgentDriver.FAKE:
        loops.append(("hints", pool.listen))
    return loops


def _rounds(core: Core, pool: AgentPool) -> AuditRounds:
    """Return the loop that has every host report itself and audit its records, again and again."""
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
        randomness=random.Random(),  # noqa: S311 - it only keeps agents from going in step
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
    """Return the agents of hosts, each with its driver."""
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
        # Consoles are served on the bus under the host's name, beside the tasks that the ledger
        # carries.
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
        # Each agent has an executor of its own, so a slow host does not delay the others.
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
