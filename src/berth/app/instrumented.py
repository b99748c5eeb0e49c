"""The services of a process, plain or, where somebody looks, counted and traced."""

from dataclasses import replace

from berth.adapters.system import NoMetrics
from berth.agent.executor import Bench, HostWork
from berth.agent.executor.instrumented_executor import MeasuredWork, TracedWork
from berth.api.parts import ApiParts
from berth.app.observability import Observation
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import Ledger
from berth.services.decisions.decisions import Deciding, PolicyInForce
from berth.services.fleet.allocation_ratios import Ratios
from berth.services.fleet.hosts import Hosts
from berth.services.placement.placement import Placing
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.telemetry.health import Vitals
from berth.services.telemetry.instrumentation import (
    MeasuredHosts,
    MeasuredPlacing,
    TracedDeciding,
    TracedPlacing,
)


def seen_parts(seen: Observation, parts: ApiParts, vitals: Vitals) -> ApiParts:
    """Return what the API is built from, with what it shows of the process."""
    return replace(parts, checks=vitals, page=seen.page(parts.auth), tracer=seen.tracer)


def deciding_of(
    seen: Observation, replica: Replica, policies: PolicyInForce, clock: Clock
) -> Deciding:
    """Return who decides."""
    if seen.tracer is None:
        return Deciding(replica, policies, clock)
    return TracedDeciding(replica, policies, clock, seen.tracer)


def placing_of(
    seen: Observation,
    *,
    ledger: Ledger,
    follower: Follower,
    replica: Replica,
    deciding: Deciding,
    attempts_max: int,
) -> Placing:
    """Return who places."""
    kind = Placing
    if seen.tracer is not None:
        kind = TracedPlacing
    elif seen.metrics is not None:
        kind = MeasuredPlacing
    placing = kind(
        ledger=ledger,
        follower=follower,
        replica=replica,
        deciding=deciding,
        clock=seen.clock,
        attempts_max=attempts_max,
    )
    if isinstance(placing, MeasuredPlacing):
        placing.metrics = seen.metrics or NoMetrics()
    if isinstance(placing, TracedPlacing) and seen.tracer is not None:
        placing.tracer = seen.tracer
    return placing


def hosts_of(
    seen: Observation,
    *,
    ledger: Ledger,
    follower: Follower,
    replica: Replica,
    ratios: Ratios,
    ids: Ids,
) -> Hosts:
    """Return use cases about hosts."""
    kind = Hosts if seen.metrics is None else MeasuredHosts
    hosts = kind(
        ledger=ledger,
        follower=follower,
        replica=replica,
        ratios=ratios,
        clock=seen.clock,
        ids=ids,
    )
    if isinstance(hosts, MeasuredHosts) and seen.metrics is not None:
        hosts.metrics = seen.metrics
    return hosts


def work_of(seen: Observation, bench: Bench) -> HostWork:
    """Return who carries out the tasks of a host."""
    if seen.tracer is not None:
        return TracedWork(bench, seen.metrics or NoMetrics(), seen.tracer)
    return HostWork(bench) if seen.metrics is None else MeasuredWork(bench, seen.metrics)
