"""The decisions about an instance, and the decision to which an id refers."""

from typing import Final

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import build_retry_id, order_item_id
from berth.ports.ledger import InstanceQuery, RecordReader

# A history is read for one page of output. It covers the newest actions on the instance.
_ACTIONS_MAX: Final = 100


async def decisions_about(ledger: RecordReader, instance: Instance) -> list[Decision]:
    """Return the stored decisions about an instance, newest first.

    These are the decisions on its creation, on its moves, and on further attempts after failures.
    The ledger keeps decisions for a limited time, and a move to an alternate has no decision of its
    own.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    created = instance.request_id
    # A create's further decisions may concern its other instances, so the ids are given in full.
    keys = [created, order_item_id(created, instance.launch_index), instance.decision_id or created]
    keys += [
        build_retry_id(created, instance.launch_index, failures)
        for failures in range(1, len(instance.retried) + 1)
    ]
    found: dict[str, Decision] = {}
    for key in dict.fromkeys(keys):
        decision = await ledger.get(Decision, key)
        if decision is not None:
            found[key] = decision
    for action in (await ledger.actions(instance.uuid))[:_ACTIONS_MAX]:
        if action.request_id != created:
            found |= {one.request_id: one for one in await ledger.decisions(action.request_id)}
    return sorted(found.values(), key=lambda one: one.decided_at_s, reverse=True)


async def decision_called(ledger: RecordReader, key: str) -> Decision | None:
    """Return the decision to which an id refers, or None if there is none.

    Args:
        ledger: the ledger.
        key: the id of a decision; the UUID of an instance, which refers to the newest decision
            about it; or the id of a caller's request, which refers to the newest decision on it,
            even if a parent zone sent it.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    decision = await ledger.get(Decision, key)
    if decision is not None:
        return decision
    instance = await ledger.get(Instance, key)
    if instance is not None:
        return next(iter(await decisions_about(ledger, instance)), None)
    derived = await ledger.decisions(key)
    if derived:
        return derived[0]
    # The instances that a parent sent are placed one by one, under the ids of their offers.
    sent = await ledger.instances(InstanceQuery(request_id=key, deleted=None, limit=1))
    if not sent or sent[0].decision_id is None:
        return None
    return await ledger.get(Decision, sent[0].decision_id)
