"""The scheduler of a process: the commands that it serves, and its background loops."""

from berth.adapters.open_attestation import AttestationAccess, OpenAttester
from berth.app.core import Core
from berth.app.run import Loop
from berth.app.zones import ZoneContext, ZoneScheduler
from berth.config.agent_settings import InstanceSource
from berth.domain.compute.decision import Decision
from berth.services.decisions.contention import Backoff
from berth.services.decisions.joint_decisions import JointDecisions
from berth.services.fleet.attestation import AttestationService
from berth.services.maintenance.drain_controller import DrainController
from berth.services.maintenance.drain_round import DrainParts
from berth.services.placement.pending_requests import PendingRequests
from berth.services.placement.placement import PlacementService
from berth.services.requests.orders import PLACE, PLACE_BEFORE, PlaceOrder, Placer, check_order
from berth.services.servers.expirations import Expirations, ExpirationTimes
from berth.services.servers.image_cleanup import ImageCleanup
from berth.services.servers.instances import Instances
from berth.services.servers.operations import Operations
from berth.services.telemetry.notifications import ChangeNotifications, NotifyingPlacer
from berth.services.tracking import InstanceTracker, LedgerView, TrackingPace


def notify_changes(core: Core) -> None:
    """Subscribe the sender of notifications about committed changes, if they are enabled."""
    if core.messaging.common_notifier is not None:
        core.follower.subscribers.append(ChangeNotifications(core.messaging.common_notifier))


def instance_tracker(core: Core) -> InstanceTracker | None:
    """Return the instance tracker, or None when instance tracking is off.

    The tracker is subscribed to the follower, which must not have started yet.
    """
    tracking = core.settings.tracking
    if not tracking.track_instance_changes:
        return None
    tracker = InstanceTracker(
        LedgerView(core.ledger, core.follower, core.replica),
        core.policies,
        core.clock,
        core.telemetry,
        TrackingPace(tracking.instance_sync_interval_s),
        by_casts=tracking.instance_information is InstanceSource.CASTS,
        metrics=core.observation.metrics,
    )
    core.health.further.append(tracker.read)
    core.follower.subscribers.append(tracker)
    return tracker


def scheduler_loops(
    core: Core, tracker: InstanceTracker | None, zone: ZoneContext | None = None
) -> list[Loop]:
    """Serve the scheduler's commands on the bus; return its background loops.

    Args:
        core: the parts of the process.
        tracker: the instance tracker, if instances are tracked.
        zone: the zone parts of the process; with them, requests are placed over the tree of zones.
    """
    # The placement service reports rival schedulers to the backoff, and the loop of pending
    # requests waits as long as the backoff says.
    name = core.ids.uuid()
    backoff = Backoff(name)
    placer = PlacementService(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        decision_service=core.decision_service,
        clock=core.clock,
        attempts_max=core.settings.scheduler.claim_attempts_max,
        tracker=tracker,
        liveness=core.liveness,
        on_overtaken=backoff.note_rival,
        observer=core.observation.observer,
    )
    places = with_notifications(core, placer)
    loops: list[Loop] = []
    withdrawn = None
    if zone is not None:
        # The name also identifies the owner of sagas. It is new at each start, so the leases of an
        # earlier run have to expire.
        scheduler = ZoneScheduler(core, zone, name=name, local=placer, claims=places)
        places = with_notifications(core, scheduler.places)
        loops += scheduler.serve()
        withdrawn = scheduler.withdrawn
    # The bus serves the outermost placer, so that notifications and zones apply to every order.
    for command in (PLACE, PLACE_BEFORE):
        core.messaging.bus.serve(command, lambda order: _place_checked(places, order))
    if tracker is not None:
        tracker.serve(core.messaging.bus, core.ids.uuid())
        loops.append(("instances", tracker.run))
    pending = PendingRequests(
        ledger=core.ledger,
        replica=core.replica,
        placer=places,
        clock=core.clock,
        telemetry=core.telemetry,
        name=name,
        backoff=backoff,
        withdrawn=withdrawn,
    )
    loops += [("pending", pending.run), *_attestation_loops(core), *_expiration_loops(core)]
    return [*loops, *_upkeep_loops(core, name)]


async def _place_checked(places: Placer, order: PlaceOrder) -> Decision:
    check_order(order)
    return await places.place(order)


def with_notifications(core: Core, places: Placer) -> Placer:
    """Return a placer that also sends notifications; `places` itself if they are disabled."""
    notifier = core.messaging.notifier
    return places if notifier is None else NotifyingPlacer(places, notifier)


def _attestation_loops(core: Core) -> list[Loop]:
    settings = core.settings.attestation
    if settings.url is None:
        return []
    access = AttestationAccess(
        settings.url, settings.auth_blob, settings.ca_file, settings.timeout_s
    )
    attestations = AttestationService(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        attester=OpenAttester(access, core.clock, valid_s=settings.valid_s),
        clock=core.clock,
        telemetry=core.telemetry,
    )
    return [("attestations", attestations.run)]


def _expiration_loops(core: Core) -> list[Loop]:
    settings = core.settings.scheduler
    times = ExpirationTimes(settings.resize_confirm_window_s, settings.reclaim_instance_interval_s)
    if times.pause_s is None:
        return []
    expirations = Expirations(
        ledger=core.ledger,
        replica=core.replica,
        operations=_operations(core),
        instances=Instances(
            ledger=core.ledger,
            follower=core.follower,
            replica=core.replica,
            bus=core.messaging.bus,
            clock=core.clock,
        ),
        clock=core.clock,
        telemetry=core.telemetry,
        times=times,
        service_down_time_s=lambda: core.policies.policy.service_down_time_s,
    )
    return [("expirations", expirations.run)]


def _upkeep_loops(core: Core, name: str) -> list[Loop]:
    cleanup = ImageCleanup(
        ledger=core.ledger, replica=core.replica, clock=core.clock, telemetry=core.telemetry
    )
    parts = DrainParts(
        name=name,
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        joint=JointDecisions(core.decision_service, core.replica),
        operations=_operations(core),
        clock=core.clock,
        service_down_time_s=lambda: core.policies.policy.service_down_time_s,
    )
    drains = DrainController(parts, core.telemetry)
    return [("images", cleanup.run), ("maintenance", drains.run)]


def _operations(core: Core) -> Operations:
    return Operations(
        ledger=core.ledger, replica=core.replica, clock=core.clock, liveness=core.liveness
    )
