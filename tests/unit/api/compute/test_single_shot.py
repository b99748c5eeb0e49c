"""The setting `single_shot`, which has each server of a request placed separately."""

from dataclasses import replace

import pytest

from berth.api.app import build_app
from berth.domain.ledger.record import PendingRequest
from tests.unit.api.cloud import Stack


@pytest.mark.parametrize(
    ("single_shot", "count", "pending"),
    [(False, 3, 0), (True, 3, 3), (True, 1, 0)],
)
async def test_each_server_is_left_to_the_next_scheduler(
    single_shot: bool, count: int, pending: int
) -> None:
    """Several servers become one pending request each; a single server is placed directly."""
    stack = Stack()
    stack.app = build_app(replace(stack.parts, single_shot=single_shot))
    await stack.start()
    await stack.flavor()
    server = {
        "name": "vm",
        "flavorRef": "small",
        "networks": "none",
        "min_count": count,
        "return_reservation_id": True,
    }
    made = await stack.ask("POST", "/v2.1/servers", {"server": server}, version="2.90")
    assert made.status == 202, made.body
    assert len(await stack.ledger.all(PendingRequest)) == pending
    path = f"/v2.1/servers?reservation_id={made.body['reservation_id']}"
    found = await stack.ask("GET", path, version="2.90")
    assert len(found.body["servers"]) == count
