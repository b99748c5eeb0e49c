"""Tests for the metrics of agents' tasks."""

from dataclasses import replace

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.agent.executor import HostContext, HostExecutor
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Status
from berth.ports.measures import FAILED_BUILDS, TASK_SECONDS, TASKS
from berth.ports.telemetry import Measure
from berth.services.telemetry.observers import MetricsObserver
from tests.unit.lifecycle.town import Town, caller, open_town


class Counts:
    """Metrics that record their values in a dict."""

    def __init__(self) -> None:
        self.found: dict[tuple[Measure, tuple[str, ...]], float] = {}

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Add the amount to the value of the measure."""
        self.found[measure, labels] = self.found.get((measure, labels), 0) + amount

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """Count the observation."""
        self.add(measure, labels)


def observe(town: Town) -> Counts:
    """Attach counting metrics to the agents of a town and return them."""
    counts = Counts()
    agents = town.pool._agents
    for name, agent in agents.items():
        context = HostContext(name, town.gateway, agent.driver, town.desk.clock)
        agents[name] = replace(agent, executor=HostExecutor(context, MetricsObserver(counts)))
    return counts


async def test_tasks_are_counted_by_their_kind() -> None:
    """Each finished task is counted by kind and outcome, and its duration is observed."""
    town = await open_town()
    counts = observe(town)
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller())
    await town.work()
    assert counts.found == {
        (TASKS, ("spawning", "done")): 1,
        (TASK_SECONDS, ("spawning",)): 1,
        (TASKS, ("powering-off", "done")): 1,
        (TASK_SECONDS, ("powering-off",)): 1,
    }


async def test_a_failed_build_is_counted_as_such() -> None:
    """A failed build is counted as a failed task and as a failed build by cause."""
    faults = DriverFaults(share={"spawn": 1.0})
    town = await open_town(FakeHost("host-1", faults=faults), hosts=1)
    counts = observe(town)
    vm = await town.create()
    assert vm.status is Status.ERROR
    assert counts.found[TASKS, ("spawning", "failed")] == 1
    assert counts.found[FAILED_BUILDS, ("driver",)] == 1


async def test_a_failed_step_is_counted_as_such() -> None:
    """A failed step of an existing instance is counted as a failed task."""
    faults = DriverFaults(share={"pause": 1.0})
    town = await open_town(FakeHost("host-1", faults=faults), hosts=1)
    counts = observe(town)
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.PAUSE, caller())
    await town.work()
    assert counts.found[TASKS, ("pausing", "failed")] == 1
