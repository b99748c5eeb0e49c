"""The lines about decisions and tasks."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance_action import Action
from berth.ports.observer import Observer, TaskEnd
from berth.services.decisions.decisions import DecisionService
from berth.services.placement.placement import PlacementService
from berth.services.telemetry.log_observer import LogObserver
from berth.services.telemetry.observers import CombinedObserver, MetricsObserver
from berth.testing.builders import make_flavor, make_instance, make_request
from berth.testing.virtual_time import run_virtually
from tests.unit.services.telemetry.test_observers import Counts
from tests.unit.services.wiring import Desk, open_desk, order_of


class Lines:
    """Telemetry that keeps events with their fields."""

    def __init__(self) -> None:
        self.found: list[dict[str, object]] = []

    def event(self, name: str, **fields: object) -> None:
        """Keep an event."""
        self.found.append({"event": name, **fields})

    def warning(self, name: str, **fields: object) -> None:
        """Keep a warning."""
        self.event(name, **fields)

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Keep a failure."""
        self.event(name, error=str(error), **fields)


def watched(desk: Desk, observer: Observer) -> None:
    """Give the desk a scheduler with an observer."""
    desk.decision_service = DecisionService(desk.replica, desk.policies, desk.clock, observer)
    desk.placer = PlacementService(
        ledger=desk.ledger,
        follower=desk.follower,
        replica=desk.replica,
        decision_service=desk.decision_service,
        clock=desk.clock,
        observer=observer,
    )


def test_a_placement_is_one_line() -> None:
    """The line has verdict, host, instance and caller; a repeated order adds none."""

    async def main() -> None:
        lines, counts = Lines(), Counts()
        desk = await open_desk()
        watched(desk, CombinedObserver([MetricsObserver(counts), LogObserver(lines)]))
        request = replace(make_request(), user_id="ann", project_id="lab")
        decision = await desk.placer.place(order_of(request))
        await desk.placer.place(order_of(request))
        [line] = lines.found
        assert line.pop("duration_ms") == decision.duration_us / 1000
        assert line == {
            "event": "decision_made",
            "operation": "create",
            "verdict": "placed",
            "instances": 1,
            "attempts": 1,
            "policy": decision.policy_name,
            "user_id": "ann",
            "project_id": "lab",
            "request_id": request.request_id,
            "host": decision.placements[0].host,
            "instance": request.instance_uuids[0],
        }
        assert len(counts.sums) > 1

    run_virtually(main)


def test_many_instances_name_their_hosts() -> None:
    """A decision about several instances lists the hosts."""

    async def main() -> None:
        lines, desk = Lines(), await open_desk()
        watched(desk, LogObserver(lines))
        decision = await desk.placer.place(order_of(make_request(count=3)))
        [line] = lines.found
        hosts = {one.host for one in decision.placements}
        assert set(line["hosts"]) == hosts  # type: ignore[call-overload]
        assert (line["hosts_total"], line["instances"]) == (len(hosts), 3)

    run_virtually(main)


def test_a_refusal_has_code_and_filter() -> None:
    """A refusal names its reason, the filter that left no host, and the hosts examined."""

    async def main() -> None:
        lines, desk = Lines(), await open_desk()
        watched(desk, LogObserver(lines))
        large = replace(make_request(), flavor=make_flavor(vcpus=64))
        await desk.placer.place(order_of(large))
        [line] = lines.found
        found = (line["verdict"], line["code"], line["filter"])
        assert found == ("refused", "all_filtered", "ResourcesFilter")
        assert line["hosts_examined"] == len(desk.replica.hosts)

    run_virtually(main)


@pytest.mark.parametrize(
    ("outcome", "error"), [("done", ""), ("failed", "no image"), ("error", "")]
)
def test_a_task_has_a_line_at_its_start_and_one_at_its_end(outcome: str, error: str) -> None:
    """Both lines name task, host, instance and request; the second one the outcome."""
    lines = Lines()
    observer = LogObserver(lines)
    instance = replace(make_instance(), decision_id="req-1")
    with observer.task("host-1", instance):
        observer.task_ended(TaskEnd("spawning", outcome, 1.5, "host-1", instance, error))
    about = {"host": "host-1", "instance": instance.uuid, "request_id": "req-1"}
    task = instance.task or "starting"
    end = {"event": "task_ended", "task": "spawning", "outcome": outcome, "duration_ms": 1500.0}
    why = {"error": error} if error else {}
    assert lines.found == [
        {"event": "task_started", "task": task, **about},
        {**end, **about, **why},
    ]


def test_a_task_belongs_to_the_action_in_progress() -> None:
    """The request id is that of the action, not that of the create long ago."""
    lines = Lines()
    action = Action("uuid", "req-2", "stop", "lab", "ann", 0.0)
    instance = replace(make_instance(), decision_id="req-1", action=action)
    with LogObserver(lines).task("host-1", instance):
        pass
    assert lines.found[0]["request_id"] == "req-2"
