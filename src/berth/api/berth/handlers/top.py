"""Handler for the load of the fleet, which `berth top` shows."""

from collections.abc import Mapping

from berth.api.berth.schemas.top import (
    AmountsView,
    HostLoadView,
    HostStateCounts,
    QueueView,
    SchedulerView,
    TopAnswer,
    TopQuery,
)
from berth.api.parts import ApiParts
from berth.api.routing import Answer, Call
from berth.services.fleet.fleet_load import Amounts, FleetLoad, HostLoad, LoadQuery, fleet_load
from berth.services.replica.scheduler_reports import LAG, LOST, PLACED, REFUSED, SchedulerReport


async def show_top(call: Call) -> Answer:
    """Show the load of the fleet, the queue, the schedulers, and the hosts with the most load.

    Everything but the ledger's version is read from memory, so the operation may be polled.

    Raises:
        InvalidInputError: the query names an order or an availability zone that does not exist.
    """
    parts, query = call.parts, call.query(TopQuery)
    # The replica does not catch up first, since its lag is one of the values to show.
    ledger_version = await parts.ledger.version()
    now_s = parts.clock.now_s()
    found = fleet_load(
        parts.replica.hosts,
        LoadQuery(query.sort, query.availability_zone, query.limit),
        now_s=now_s,
        down_time_s=parts.service_down_time_s,
        default_zone=parts.default_zone,
    )
    return Answer(_answer(parts, found, ledger_version, now_s))


def _answer(parts: ApiParts, found: FleetLoad, ledger_version: int, now_s: float) -> TopAnswer:
    replica_version = parts.follower.version
    return TopAnswer(
        at_s=now_s,
        ledger_version=ledger_version,
        replica_version=replica_version,
        # The replica may have passed the ledger's version since that version was read.
        lag=max(0, ledger_version - replica_version),
        hosts=HostStateCounts(
            total=found.total, up=found.up, down=found.down, disabled=found.disabled
        ),
        instances=found.instances,
        tasks=found.tasks,
        resources=_amounts(found.resources),
        queue=_queue(parts, now_s),
        schedulers=[_scheduler(one) for one in parts.liveness.scheduler_reports()],
        busiest=[_host(one) for one in found.hosts],
    )


def _queue(parts: ApiParts, now_s: float) -> QueueView:
    pending = parts.replica.pending.values()
    oldest_s = min((one.accepted_at_s for one in pending), default=None)
    return QueueView(
        requests=len(pending),
        instances=sum(len(one.request.instance_uuids) for one in pending),
        oldest_s=None if oldest_s is None else max(now_s - oldest_s, 0.0),
    )


def _scheduler(report: SchedulerReport) -> SchedulerView:
    counts, per_s = report.counts, report.per_s
    return SchedulerView(
        id=report.scheduler,
        part=report.part,
        age_s=report.age_s,
        lag=counts.get(LAG),
        placed=counts.get(PLACED),
        refused=counts.get(REFUSED),
        lost=counts.get(LOST),
        placed_per_s=per_s.get(PLACED),
        refused_per_s=per_s.get(REFUSED),
        lost_per_s=per_s.get(LOST),
    )


def _host(load: HostLoad) -> HostLoadView:
    return HostLoadView(
        name=load.name,
        node=load.node,
        zones=list(load.zones),
        state=load.state,
        instances=load.instances,
        tasks=load.tasks,
        resources=_amounts(load.resources),
    )


def _amounts(found: Mapping[str, Amounts]) -> dict[str, AmountsView]:
    return {name: AmountsView(**one._asdict()) for name, one in found.items()}
