"""A gateway on the parts of a test's process, wired as in `berth.app.gateway`."""

from berth.adapters.system import NoMetrics
from berth.domain.compute.build_failure import HALF_LIFE_S
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Metrics, Telemetry
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.hosts import Hosts
from berth.services.gateway.alternates import Alternates
from berth.services.gateway.gateway import Gateway
from berth.services.gateway.host_notices import HostNotices
from berth.services.gateway.host_reports import HostReports
from berth.services.gateway.in_progress import InstancesInProgress
from berth.services.gateway.outcomes import Outcomes
from berth.services.gateway.self_audit import SelfAudit
from berth.services.replica.follower import Follower
from berth.services.replica.liveness import Liveness
from berth.services.replica.replica import Replica
from berth.testing.builders import make_uuid

DOWN_S = 60.0


def make_gateway(  # noqa: PLR0913 - the parts of a process, and what tests vary
    *,
    ledger: Ledger,
    clock: Clock,
    hosts: Hosts,
    replica: Replica,
    telemetry: Telemetry,
    metrics: Metrics | None = None,
    attempts_max: int = 3,
    alternates: Alternates | None = None,
    half_life_s: float = HALF_LIFE_S,
    liveness: Liveness | None = None,
    in_progress: InstancesInProgress | None = None,
) -> Gateway:
    """Return a gateway; without alternates, a scheduler chooses the host for each retry."""
    metrics = metrics or NoMetrics()
    notices = HostNotices(
        ledger=ledger, replica=replica, clock=clock, telemetry=telemetry, metrics=metrics
    )
    ratios = AllocationRatios(ledger=ledger, replica=replica)
    audits = SelfAudit(
        ledger=ledger,
        replica=replica,
        reports=HostReports(hosts, replica, ratios),
        notices=notices,
        clock=clock,
        telemetry=telemetry,
        metrics=metrics,
        service_down_time_s=lambda: DOWN_S,
    )
    outcomes = Outcomes(
        ledger=ledger,
        clock=clock,
        attempts_max=attempts_max,
        alternates=alternates,
        half_life_s=half_life_s,
        service_of=replica.service,
        in_progress=in_progress or InstancesInProgress(),
    )
    gateway = make_uuid("gateway", 1)
    liveness = liveness or Liveness(ledger, replica, clock, telemetry, gateway=gateway)
    return Gateway(
        ledger=ledger,
        clock=clock,
        hosts=hosts,
        liveness=liveness,
        outcomes=outcomes,
        audits=audits,
        notices=notices,
    )


def make_alternates(follower: Follower, replica: Replica, clock: Clock) -> Alternates:
    """Return alternates whose hosts are down after a minute of silence."""
    return Alternates(
        follower=follower,
        replica=replica,
        clock=clock,
        service_down_time_s=lambda: DOWN_S,
        default_zone=lambda: "nova",
    )
