"""Launches: what the history of an instance keeps of the first one."""

from berth.agent.executor.host_context import Bench
from berth.domain.compute.instance import Instance, creation_of, is_kept
from berth.domain.ledger.write import Put, Unit


async def creation_kept(bench: Bench, instance: Instance) -> Unit:
    """Return what keeps the creation of an instance that is about to be launched anew.

    The creation stands in the instance's own record, and ended when that was launched first. So
    before it is launched a second time that becomes an action like the others, once.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    if instance.launched_at_s is None:
        return ()
    if is_kept(instance, await bench.ledger.actions(instance.uuid)):
        return ()
    return (Put(creation_of(instance)),)
