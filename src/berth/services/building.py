"""Building: what a compute agent does with the instances of its host, and what it reports.

The instance's task in the ledger is the command, and it stays there until its outcome is
committed. So an agent that dies and comes back finds what it still has to do.
"""

from dataclasses import replace
from typing import NamedTuple

from berth.domain.errors import BuildError
from berth.domain.instance import Fault, Instance, Status, Task
from berth.domain.record import PendingRequest
from berth.domain.request import Operation, Request
from berth.domain.revising import revised
from berth.domain.write import Add, Committed, Free, Put, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.virt import Driver
from berth.services.failed_builds import FailedBuilds

_BUILD_FAILED = 500


class _Result(NamedTuple):
    """What to write down, and whether a build failed that counts; None when none was tried."""

    unit: Unit
    has_failed: bool | None = None


class Building:
    """Carries out the tasks of instances on one host through its driver."""

    def __init__(
        self, *, ledger: Ledger, driver: Driver, clock: Clock, attempts_max: int = 3
    ) -> None:
        self._ledger = ledger
        self._driver = driver
        self._clock = clock
        self._attempts_max = attempts_max
        self._failed_builds = FailedBuilds(ledger, clock)

    async def carry_out(self, instance: Instance, *, in_doubt: bool = False) -> int:
        """Do what is to be done with an instance of this host, until it is done and recorded.

        An active instance is made to run. The instance is read again when the ledger refuses
        the outcome, so a delete that comes during a build is carried out after it, and what was
        started for an instance that is gone, or is elsewhere by now, is stopped.

        Args:
            instance: as it was last heard of; it may be out of date.
            in_doubt: an earlier try may have been recorded, so read the instance first.

        Returns:
            The revision at which the instance is done with.

        Raises:
            BuildError: an active instance cannot be made to run.
            UnavailableError: the ledger cannot be reached; the task is still there.
        """
        latest = await self._read(instance) if in_doubt else instance
        while latest is not None and latest.host == instance.host:
            result = await self._work_on(latest)
            if result is None:
                break
            (outcome,) = await self._ledger.commit([result.unit])
            if isinstance(outcome, Committed):
                if result.has_failed is not None:
                    name = instance.host or ""
                    await self._failed_builds.note(name, has_failed=result.has_failed)
                return latest.revision + 1
            latest = await self._read(instance)
        if latest is None or latest.host != instance.host or latest.status is Status.DELETED:
            await self._driver.destroy(instance.uuid)
        return instance.revision if latest is None else latest.revision

    async def _read(self, instance: Instance) -> Instance | None:
        return await self._ledger.get(Instance, instance.uuid)

    async def _work_on(self, instance: Instance) -> _Result | None:
        match instance.task:
            case Task.SPAWNING:
                return await self._spawn(instance)
            case Task.DELETING:
                return _Result(await self._destroy(instance))
            case _:
                if instance.status is Status.ACTIVE:
                    await self._driver.spawn(instance)
                return None

    async def _spawn(self, instance: Instance) -> _Result:
        try:
            await self._driver.spawn(instance)
        except BuildError as error:
            counts = True if error.blames_host else None
            return _Result(self._failed(instance, error), has_failed=counts)
        now_s = self._clock.now_s()
        built = revised(
            instance,
            status=Status.ACTIVE,
            task=None,
            fault=None,
            launched_at_s=now_s,
            updated_at_s=now_s,
        )
        return _Result((Put(built),), has_failed=False)

    async def _destroy(self, instance: Instance) -> Unit:
        await self._driver.destroy(instance.uuid)
        now_s = self._clock.now_s()
        gone = replace(
            instance, status=Status.DELETED, task=None, updated_at_s=now_s, terminated_at_s=now_s
        )
        return (Free(instance.uuid), Put(gone))

    def _failed(self, instance: Instance, error: BuildError) -> Unit:
        """Free the room, and have another host tried while attempts are left."""
        now_s = self._clock.now_s()
        here = (instance.host or "", instance.node or "")
        retried = (*instance.retried, here)
        tried = "the host that was asked for" if instance.forced else _count(len(retried))
        # What the driver says may name hosts, which owners of instances must not learn.
        details = f"{instance.host}: {error}"
        fault = Fault(_BUILD_FAILED, f"The build failed on {tried}.", now_s, details)
        homeless = replace(
            instance,
            host=None,
            node=None,
            assignment=None,
            retried=retried,
            fault=fault,
            updated_at_s=now_s,
        )
        if instance.forced or len(retried) >= self._attempts_max:
            return (Free(instance.uuid), Put(replace(homeless, status=Status.ERROR, task=None)))
        pending = PendingRequest(_retry_of(homeless), accepted_at_s=now_s)
        return (Free(instance.uuid), Put(replace(homeless, task=Task.SCHEDULING)), Add(pending))


def _count(hosts: int) -> str:
    return "1 host" if hosts == 1 else f"{hosts} hosts"


def _retry_of(instance: Instance) -> Request:
    """Make the request that places one instance anew, sparing where its build has failed."""
    return Request(
        request_id=f"{instance.request_id}.{instance.launch_index}.{len(instance.retried)}",
        instance_uuids=(instance.uuid,),
        flavor=instance.flavor,
        project_id=instance.project_id,
        user_id=instance.user_id,
        image=instance.image,
        availability_zone=instance.requested_zone,
        hints=instance.hints,
        group_uuid=instance.group_uuid,
        retried=instance.retried,
        alternates=tuple(one for one in instance.alternates if one not in instance.retried),
        operation=Operation.RETRY,
    )
