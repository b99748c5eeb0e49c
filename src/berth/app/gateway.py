"""The gateway of a process, through which the agents of hosts reach the ledger."""

from berth.adapters.system import NoMetrics
from berth.app.core import Core
from berth.services.gateway.alternates import Alternates
from berth.services.gateway.gateway import Gateway
from berth.services.gateway.host_notices import HostNotices
from berth.services.gateway.host_reports import HostReports
from berth.services.gateway.outcomes import Outcomes
from berth.services.gateway.self_audit import SelfAudit


def host_gateway(core: Core) -> Gateway:
    """Return the gateway of a process that has access to the ledger."""
    metrics = core.observation.metrics or NoMetrics()
    notices = HostNotices(
        ledger=core.ledger,
        replica=core.replica,
        clock=core.clock,
        telemetry=core.telemetry,
        metrics=metrics,
    )
    audits = SelfAudit(
        ledger=core.ledger,
        replica=core.replica,
        reports=HostReports(core.hosts, core.replica, core.ratios),
        notices=notices,
        clock=core.clock,
        telemetry=core.telemetry,
        metrics=metrics,
        service_down_time_s=lambda: core.policies.policy.service_down_time_s,
    )
    outcomes = Outcomes(
        ledger=core.ledger,
        clock=core.clock,
        attempts_max=core.settings.scheduler.build_attempts_max,
        alternates=Alternates(
            follower=core.follower,
            replica=core.replica,
            clock=core.clock,
            service_down_time_s=lambda: core.policies.policy.service_down_time_s,
            default_zone=lambda: core.policies.policy.default_availability_zone,
        ),
        half_life_s=core.settings.agent.build_failure_half_life_s,
    )
    return Gateway(
        ledger=core.ledger,
        clock=core.clock,
        hosts=core.hosts,
        outcomes=outcomes,
        audits=audits,
        notices=notices,
    )
