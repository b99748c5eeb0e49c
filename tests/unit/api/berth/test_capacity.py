"""The capacity API."""

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.scheduling.plan import capacity
from berth.scheduling.rules.rule import Filter, Reads
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack

PATH = "/berth/v1/capacity"


async def test_capacity_counts_what_fits(stack: Stack) -> None:
    """The total and each host's count are shown, hosts with the most room first."""
    await stack.server(availability_zone="nova:host-1")
    body = (await stack.ask("GET", f"{PATH}?flavor=small")).body
    assert (body["total"], body["hosts_total"]) == (23, 3)
    assert [(one["host"], one["count"]) for one in body["hosts"]] == [
        ("host-0", 8),
        ("host-2", 8),
        ("host-1", 7),
    ]
    limited = (await stack.ask("GET", f"{PATH}?flavor=small&limit=1")).body
    assert (limited["total"], len(limited["hosts"])) == (23, 1)


async def test_a_zone_narrows_it(stack: Stack) -> None:
    """A zone and a host in it limit the count."""
    one = (await stack.ask("GET", f"{PATH}?flavor=small&availability_zone=nova:host-0")).body
    assert one["total"] == 8
    all_ = (await stack.ask("GET", f"{PATH}?flavor=small&availability_zone=nova")).body
    assert all_["total"] == 24


async def test_others_see_the_sum_only(stack: Stack) -> None:
    """Users who are not administrators see no hosts and cannot name one."""
    body = (await stack.ask("GET", f"{PATH}?flavor=small", token="bob")).body
    assert body == {"total": 24, "is_partial": False}
    path = f"{PATH}?flavor=small&availability_zone=nova:host-0"
    assert (await stack.ask("GET", path, token="bob")).status == 403


async def test_private_flavors_do_not_exist_for_others(stack: Stack) -> None:
    """A project without access gets the answer for a flavor that does not exist."""
    await stack.flavor("secret", **{"os-flavor-access:is_public": False})
    body = {"addTenantAccess": {"tenant": "web"}}
    await stack.ask("POST", "/v2.1/flavors/secret/action", body, version="2.7")
    assert (await stack.ask("GET", f"{PATH}?flavor=secret", token="alice:web")).status == 200
    hidden = await stack.ask("GET", f"{PATH}?flavor=secret", token="bob:shop")
    unknown = await stack.ask("GET", f"{PATH}?flavor=absent", token="bob:shop")
    assert (hidden.status, unknown.status) == (400, 400)
    text = hidden.body["badRequest"]["message"]
    assert text == unknown.body["badRequest"]["message"].replace("absent", "secret")


async def test_an_image_counts_too(make_stack: MakeStack) -> None:
    """Hosts that cannot run the image are not counted."""
    image = Image("arm", properties={"hw_architecture": "aarch64"})
    stack = await make_stack(images={"arm": image})
    await stack.flavor()
    assert (await stack.ask("GET", f"{PATH}?flavor=small&image=arm")).body["total"] == 0
    assert (await stack.ask("GET", f"{PATH}?flavor=small&image=none")).status == 400


@pytest.mark.parametrize(
    ("query", "field"),
    [("", "query"), ("?flavor=none", "flavor"), ("?flavor=small&availability_zone=x", "avail")],
)
async def test_bad_queries_are_refused(stack: Stack, query: str, field: str) -> None:
    """The error names the invalid parameter."""
    answer = await stack.ask("GET", PATH + query)
    assert answer.status == 400
    assert answer.body["badRequest"]["message"].startswith(field)


async def test_other_requests_are_answered_while_capacity_is_counted(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting with trial placements ends its slices, and counts what changed meanwhile."""
    spare = Filter(
        "SpareFilter",
        lambda hosts, _query, rows: hosts.num_instances[rows] < 6,
        lambda *_: "",
        lambda *_: (),
        Reads((), ("instances",)),
    )
    policy = stack.policies.policy
    with_spare = replace(policy, filters=(*policy.filters, spare))
    monkeypatch.setattr(stack.policies, "policy", with_spare)
    monkeypatch.setattr(capacity, "_SLICE_WORK", 1)
    count = asyncio.create_task(stack.ask("GET", f"{PATH}?flavor=small"))
    answered = 0
    while not count.done():
        await stack.ask("GET", "/healthz")
        await asyncio.sleep(0)
        answered += not count.done()
    # At least one for each of the 15 instances that are placed on trial, 3 at a time.
    assert answered >= 5
    assert (await count).body["total"] == 18
    await stack.server()
    assert (await stack.ask("GET", f"{PATH}?flavor=small")).body["total"] == 17
