"""The Placement API, in a separate process or mounted in the API server.

This module imports nothing from the scheduler, so that the process starts fast and stays small.
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from berth.adapters.ledger import open_ledger
from berth.adapters.system import NoMetrics, RandomIds, SystemClock
from berth.api.auth.authentication import Auth
from berth.api.limits import RequestLimits
from berth.api.placement.app import build_placement_app
from berth.api.placement.cors import Cors
from berth.api.placement.parts import PlacementParts
from berth.api.placement.rules import policy_of
from berth.api.placement.views.candidates import CandidateWriter
from berth.api.placement.views.providers import ProviderWriter
from berth.app.audit_log import AuditedTelemetry, open_audit_log
from berth.app.observability import observe
from berth.app.run import (
    authentication_of,
    ledger_url_of,
    make_data_dir,
    run_process,
    running,
    serve_at,
)
from berth.config.placement_policy_file import read_placement_policy
from berth.config.settings import Settings
from berth.domain.inventory.resources import StandardNames
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.services.providers.allocations import AllocationService
from berth.services.providers.inventories import Associations, Inventories
from berth.services.providers.provider_writes import ProviderRevisions
from berth.services.providers.reshape import ReshapeService
from berth.services.providers.resource_names import ResourceNames
from berth.services.providers.resource_providers import ResourceProviders
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.services.telemetry.health import ProcessHealth


class PlacementProcess(NamedTuple):
    """The parts of a process that its Placement API uses.

    `follower` follows `ledger` and updates `replica`.
    """

    ledger: Ledger
    follower: Follower
    replica: ProviderReplica
    auth: Auth
    clock: Clock
    telemetry: Telemetry


def run_placement(settings: Settings) -> None:
    """Run the Placement API alone, at the root path.

    Raises:
        InvalidInputError: a setting is invalid, or a file or an address that it names cannot be
            used.
        LedgerError: the ledger cannot be opened or migrated.
        UnavailableError: the ledger cannot be reached.
    """

    async def main() -> None:
        clock = SystemClock()
        telemetry = AuditedTelemetry("placement", clock)
        make_data_dir(settings.ledger)
        observation = observe(settings, "placement", clock, telemetry)
        # The ledger is opened first, because this migrates the schema that all other parts read.
        ledger = await open_ledger(
            ledger_url_of(settings.ledger),
            timeout_s=settings.ledger.timeout_s,
            on_batch=observation.on_batch,
            on_failure=partial(telemetry.failure, "ledger_writer_failed"),
        )
        audit_trail = open_audit_log(settings, ledger, telemetry, clock)
        try:
            follower = Follower(ledger, clock, [])
            metrics = observation.metrics or NoMetrics()
            callers = authentication_of(settings, clock, telemetry, metrics)
            auth = callers.auth
            replica = provider_replica(follower)
            process = PlacementProcess(ledger, follower, replica, auth, clock, telemetry)
            # This process has no host table and no broker whose health could be checked.
            lag_s_max = settings.health.lag_s_max
            health = ProcessHealth(
                ledger=ledger, follower=follower, clock=clock, lag_s_max=lag_s_max
            )
            if callers.keystone is not None:
                health.further.append(callers.keystone.read)
            parts = replace(
                placement_parts(settings, process),
                checks=health,
                page=observation.page(auth),
                tracer=observation.tracer,
            )
            # The replica is loaded before the server listens, so no request sees an empty table.
            await follower.start()
            loops = [("follower", follower.run), *audit_trail.loops, *observation.loops(health)]
            async with running(loops, clock, telemetry):
                app = observation.around(build_placement_app(parts), audit_trail.watchers)
                policy = observation.connections(settings.api, telemetry)
                await serve_at(settings.placement.listen, app, connections=policy)
        finally:
            await audit_trail.finish()
            await ledger.close()
            await asyncio.to_thread(observation.finish)

    run_process(settings.log, main)


def provider_replica(follower: Follower) -> ProviderReplica:
    """Return the Placement API's replica, subscribed to a follower that has not started."""
    # Imported here, so that only processes that serve this API load the two packages.
    from os_resource_classes import STANDARDS  # type: ignore[import-untyped] # noqa: PLC0415
    from os_traits import get_traits  # type: ignore[import-untyped] # noqa: PLC0415

    replica = ProviderReplica(StandardNames(tuple(STANDARDS), tuple(get_traits())))
    follower.subscribers.append(replica)
    return replica


def placement_parts(
    settings: Settings, process: PlacementProcess, prefix: str = ""
) -> PlacementParts:
    """Return the parts that the Placement API is built from.

    Args:
        settings: the settings of the process.
        process: the shared parts of the process.
        prefix: the path under which the API is mounted.

    Raises:
        InvalidInputError: the policy file is invalid.
    """
    placement = settings.placement
    overrides = read_placement_policy(placement.policy_file)
    cors = Cors(placement.cors_origins, placement.cors_headers) if placement.cors_origins else None
    clock, ids = process.clock, RandomIds()
    ledger, follower, replica = process.ledger, process.follower, process.replica
    revisions = ProviderRevisions(follower=follower, ledger=ledger, replica=replica, clock=clock)
    return PlacementParts(
        ledger=ledger,
        follower=follower,
        replica=replica,
        providers=ResourceProviders(
            follower=follower, ledger=ledger, replica=replica, clock=clock, ids=ids
        ),
        inventories=Inventories(revisions, replica),
        associations=Associations(revisions, replica),
        names=ResourceNames(follower=follower, ledger=ledger, replica=replica, clock=clock),
        allocation_service=AllocationService(follower=follower, ledger=ledger, replica=replica),
        reshape_service=ReshapeService(
            follower=follower, ledger=ledger, replica=replica, clock=clock
        ),
        writer=ProviderWriter(prefix),
        candidates=CandidateWriter(),
        auth=process.auth,
        policy=policy_of(overrides, enforce_new_defaults=placement.enforce_new_defaults),
        clock=clock,
        ids=ids,
        telemetry=process.telemetry,
        limits=RequestLimits(body_bytes_max=settings.api.body_bytes_max),
        cors=cors,
        prefix=prefix,
    )
