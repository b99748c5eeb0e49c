"""The core of a process: what its parts share."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from berth.app.placement import provider_replica
from berth.app.processes import _api_parts
from berth.app.zones import ZoneScheduler
from berth.domain.compute.decision import Decision
from berth.domain.compute.request import Request
from berth.domain.ledger.write import Outcome, Put, Rejected, Unit
from berth.domain.zones.zone_orders import SelectOrder
from berth.services.requests.orders import PLACE, PlaceOrder, Placer
from tests.integration.test_app_zones import TIMEOUT_S, instance_of, request_of, zone_up


async def test_a_lost_claim_widens_the_choice_of_dry_runs_and_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler, the API's dry runs and a zone's offers share one contention counter."""
    async with zone_up(tmp_path, name="west", held_share_max=1.0) as (core, zone):
        assert zone is not None
        commit, lost = core.ledger.commit, [1, 2]

        async def rejecting(units: Sequence[Unit]) -> list[Outcome]:
            puts = [write for unit in units for write in unit if isinstance(write, Put)]
            if lost and any(isinstance(put.record, Decision) for put in puts):
                lost.pop()
                return [Rejected(stale=True)]
            return await commit(units)

        monkeypatch.setattr(core.ledger, "commit", rejecting)
        order = PlaceOrder(request_of(1), (instance_of(request_of(1).instance_uuids[0]),))
        placed = await core.messaging.bus.call(PLACE, order, timeout_s=TIMEOUT_S)
        assert placed.attempts == 3
        # Each lost claim doubles the hosts to choose among; a successful claim takes 1/32 off.
        another = Request("req-2", request_of(2).instance_uuids[1:], request_of(2).flavor)
        dry_run = _api_parts(core, provider_replica(core.follower)).decision_service.try_out(
            another
        )
        assert dry_run.chosen_among == 3
        idle = cast("Placer", None)
        scheduler = ZoneScheduler(core, zone, name="another", local=idle, claims=idle)
        offers = await scheduler._selector._local.offer(SelectOrder(another, "root", 1e12))
        assert offers.decision.chosen_among == 3
