"""Handlers for the policy in force and the status of the answering process."""

from berth import __version__
from berth.api.berth.schemas.status import (
    HostCounts,
    InstanceCounts,
    PolicyAnswer,
    ReloadAnswer,
    StatusAnswer,
    WeigherName,
)
from berth.api.errors import HttpError
from berth.api.microversion import MAX, MIN, text_of
from berth.api.parts import ApiParts, Policies
from berth.api.routing import Answer, Call
from berth.services.replica.stats import count_hosts, count_instances


async def show_policy(call: Call) -> Answer:
    """Show the policy in force."""
    return Answer(_answer(call.parts.policies))


async def reload_policy(call: Call) -> Answer:
    """Reload the policy; an invalid one is refused with the reason and changes nothing.

    Raises:
        HttpError: 400 when the policy file is invalid; the message gives the reason.
    """
    policies = call.parts.policies
    # The file is also watched; this operation applies a change immediately and reports its errors.
    changed = policies.reload()
    if policies.last_error is not None:
        raise HttpError(400, policies.last_error)
    return Answer(ReloadAnswer(changed=changed, policy=_answer(policies)))


def _answer(policies: Policies) -> PolicyAnswer:
    policy = policies.policy
    return PolicyAnswer(
        name=policy.name,
        hash=policy.hash,
        driver=policy.driver.name,
        host_subset_size=policy.host_subset_size,
        contended_subset_size=policy.contended_subset_size,
        shuffle_best_same_weighed_hosts=policy.shuffle_best_same_weighed_hosts,
        runners_up=policy.runners_up,
        filters=[rule.name for rule in policy.filters],
        weighers=[
            WeigherName(name=w.name, multiplier=w.configured_multiplier) for w in policy.weighers
        ],
        last_error=policies.last_error,
    )


_NS_PER_S = 1_000_000_000


async def show_status(call: Call) -> Answer:
    """Show versions, counts, and how far the replica is behind the ledger."""
    parts = call.parts
    # The replica does not catch up first, since its lag is one of the values to show.
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
            # The replica may have passed the ledger's version since that version was read.
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
    found = count_hosts(parts.replica.hosts, parts.clock.now_s(), parts.service_down_time_s)
    silence = parts.liveness.silence
    return HostCounts(
        total=found.total,
        up=found.up,
        down=found.down,
        disabled=found.disabled,
        uncertain=len(silence.at_once) if silence.is_uncertain else 0,
    )


async def _instances(parts: ApiParts) -> InstanceCounts:
    found = await count_instances(parts.replica, parts.ledger)
    return InstanceCounts(build=found.building, active=found.placed, error=found.errors)
