"""The policy in force."""

from berth.api.berth.schemas.status import PolicyAnswer, ReloadAnswer, WeigherName
from berth.api.errors import HttpError
from berth.api.parts import Policies
from berth.api.routing import Answer, Call


async def show_policy(call: Call) -> Answer:
    """Show the policy in force."""
    return Answer(_answer(call.parts.policies))


async def reload_policy(call: Call) -> Answer:
    """Read the policy again; a wrong one changes nothing and is answered with the reason."""
    policies = call.parts.policies
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
        weighers=[WeigherName(name=w.name, multiplier=w.multiplier) for w in policy.weighers],
        last_error=policies.last_error,
    )
