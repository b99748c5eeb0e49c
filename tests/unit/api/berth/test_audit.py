"""The audit API."""

from dataclasses import replace

import pytest

from berth.domain.ledger.write import Take
from berth.testing.builders import make_claim
from tests.unit.api.cloud import Stack

PATH = "/berth/v1/audit"


def stray(stack: Stack, provider_uuid: str) -> Take:
    """Return a claim for a consumer that does not exist."""
    claim = make_claim(77)
    (allocation,) = claim.allocations
    return Take(replace(claim, allocations=(replace(allocation, provider_uuid=provider_uuid),)))


async def test_a_stray_is_told_then_mended(stack: Stack) -> None:
    """An orphaned allocation is reported first, and freed by an audit after the grace period."""
    clean = await stack.ask("GET", PATH)
    assert (clean.status, clean.body["discrepancies"]) == (200, [])
    assert clean.body["audited"]["hosts"] == 3
    host = (await stack.ask("GET", "/berth/v1/hosts/host-0")).body
    await stack.ledger.commit([(stray(stack, host["uuid"]),)])
    (found,) = (await stack.ask("POST", PATH)).body["discrepancies"]
    assert (found["code"], found["host"]) == ("orphaned_allocation", "host-0")
    assert (found["lost"], found["mend"], found["outcome"]) == ({"VCPU": 1}, None, None)
    await stack.clock.sleep(61)
    (found,) = (await stack.ask("POST", PATH)).body["discrepancies"]
    assert found["outcome"]["version"] == await stack.ledger.version()
    assert stack.told.events == ["discrepancy_repaired"]
    assert (await stack.ask("GET", PATH)).body["discrepancies"] == []


@pytest.mark.parametrize("query", ["grace_s=-1", "task_s=x", "request_s=inf"])
async def test_ages_are_seconds(stack: Stack, query: str) -> None:
    """An age that is negative or not a finite number is refused."""
    answer = await stack.ask("GET", f"{PATH}?{query}")
    assert answer.status == 400
    assert query.partition("=")[0] in answer.body["badRequest"]["message"]


async def test_an_age_of_0_hides_nothing(stack: Stack) -> None:
    """With a grace of 0, an orphaned allocation is freed at the second audit."""
    host = (await stack.ask("GET", "/berth/v1/hosts/host-0")).body
    await stack.ledger.commit([(stray(stack, host["uuid"]),)])
    await stack.ask("GET", f"{PATH}?grace_s=0")
    await stack.clock.sleep(1)
    (found,) = (await stack.ask("POST", f"{PATH}?grace_s=0")).body["discrepancies"]
    assert found["outcome"]["version"] is not None
