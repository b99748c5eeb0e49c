"""What this process says about itself."""

import numpy as np

from berth import __version__
from berth.api.berth.schemas.status import HostCounts, InstanceCounts, StatusAnswer
from berth.api.microversion import MAX, MIN, text_of
from berth.api.parts import ApiParts
from berth.api.routing import Answer, Call
from berth.domain.instance import Status
from berth.ports.ledger import InstanceQuery

_ERRORS_MAX = 1000
_NS_PER_S = 1_000_000_000


async def show_status(call: Call) -> Answer:
    """Show versions, counts, and how far the replica is behind the ledger."""
    parts = call.parts
    ledger_version = await parts.ledger.version()
    replica_version = parts.follower.version
    policy = parts.policies.policy
    return Answer(
        StatusAnswer(
            version=__version__,
            api_version_min=text_of(MIN),
            api_version_max=text_of(MAX),
            ledger_version=ledger_version,
            replica_version=replica_version,
            lag=max(0, ledger_version - replica_version),
            uptime_s=(parts.clock.ticks_ns() - parts.started_ns) / _NS_PER_S,
            hosts=_hosts(parts),
            instances=await _instances(parts),
            pending_requests=len(parts.replica.pending),
            policy_name=policy.name,
            policy_hash=policy.hash,
            policy_error=parts.policies.last_error,
        )
    )


def _hosts(parts: ApiParts) -> HostCounts:
    table = parts.replica.hosts
    age_s = np.abs(parts.clock.now_s() - table.last_seen_s)
    fresh = ~table.forced_down & (age_s <= parts.service_down_time_s)
    enabled = table.alive & table.enabled
    total = int(np.count_nonzero(table.alive))
    up = int(np.count_nonzero(enabled & fresh))
    disabled = total - int(np.count_nonzero(enabled))
    return HostCounts(total=total, up=up, down=total - up - disabled, disabled=disabled)


async def _instances(parts: ApiParts) -> InstanceCounts:
    table = parts.replica.hosts
    alive = table.alive
    placed = int(table.num_instances[alive].sum())
    building = int(table.num_io_ops[alive].sum())
    waiting = sum(len(p.request.instance_uuids) for p in parts.replica.pending.values())
    query = InstanceQuery(status=Status.ERROR, limit=_ERRORS_MAX)
    errors = len(await parts.ledger.instances(query))
    return InstanceCounts(build=building + waiting, active=placed - building, error=errors)
