"""Work on a host that is counted, and may be traced, task by task."""

from berth.agent.executor.executor import HostExecutor
from berth.agent.executor.host_context import HostContext, TaskResult
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.errors import BerthError
from berth.domain.ledger.write import Put
from berth.ports.measures import FAILED_BUILDS, TASK_SECONDS, TASKS
from berth.ports.telemetry import Metrics, Tracer

_NS_PER_S = 1_000_000_000
_NOTHING = "starting"


class MeasuredWork(HostExecutor):
    """Carries out tasks as `HostExecutor` does, and counts how they end.

    Args:
        bench: one host, and what its agent works with.
        metrics: where tasks are counted.
    """

    def __init__(self, bench: HostContext, metrics: Metrics) -> None:
        super().__init__(bench)
        self._clock = bench.clock
        self._metrics = metrics

    async def _work_on(self, instance: Instance, migration: Migration | None) -> TaskResult | None:
        task = _name_of(instance, migration)
        began_ns = self._clock.ticks_ns()
        try:
            result = await super()._work_on(instance, migration)
        except BerthError:
            self._count(task, "error", began_ns)
            raise
        if result is not None:
            self._count(task, "failed" if _has_failed(result, instance) else "done", began_ns)
            if result.cause is not None:
                self._metrics.add(FAILED_BUILDS, (result.cause,))
        return result

    def _count(self, task: str, outcome: str, began_ns: int) -> None:
        seconds = (self._clock.ticks_ns() - began_ns) / _NS_PER_S
        self._metrics.add(TASKS, (task, outcome))
        self._metrics.observe(TASK_SECONDS, seconds, (task,))


class TracedWork(MeasuredWork):
    """Carries out each task in a span.

    Args:
        bench: one host, and what its agent works with.
        metrics: where tasks are counted.
        tracer: where spans go.
    """

    def __init__(self, bench: HostContext, metrics: Metrics, tracer: Tracer) -> None:
        super().__init__(bench, metrics)
        self._tracer = tracer

    async def carry_out(self, instance: Instance, *, in_doubt: bool = False) -> int:
        """See `HostExecutor.carry_out`."""
        task = instance.task or _NOTHING
        with self._tracer.span(f"agent {task}", request_id=instance.decision_id) as span:
            span.note("berth.instance", instance.uuid)
            span.note("berth.host", self.host)
            return await super().carry_out(instance, in_doubt=in_doubt)


def _name_of(instance: Instance, migration: Migration | None) -> str:
    """Return the stage of the move that an instance is in the midst of, or else its task."""
    if migration is not None and migration.turn is not None:
        return migration.stage
    return instance.task or _NOTHING


def _has_failed(result: TaskResult, before: Instance) -> bool:
    """Tell whether what is written down is a failure: a fault that was not there before."""
    if result.has_failed is not None:
        return result.has_failed
    written = [write.record for write in result.unit if isinstance(write, Put)]
    return any(
        isinstance(one, Instance) and one.fault is not None and one.fault != before.fault
        for one in written
    )
