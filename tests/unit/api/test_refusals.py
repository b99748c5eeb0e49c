"""What tenants and administrators read of refusals."""

from dataclasses import replace

import pytest

from berth.api.app import build_app
from berth.domain.compute.decision import NO_HOST, RefusalDetail
from berth.domain.compute.instance import Fault, Instance, Status
from berth.domain.ledger.write import Put
from tests.unit.api.cloud import Json, Stack

RULE, HOSTS = "ResourcesFilter", "3 hosts"


async def refused(stack: Stack) -> tuple[str, Json]:
    """Have a request of bob's refused; return its request id and its first server."""
    body = {"server": {"name": "vm", "flavorRef": "small", "max_count": 100}}
    answer = await stack.ask("POST", "/v2.1/servers", body, token="bob")
    return answer.headers["x-openstack-request-id"], answer.body["server"]["id"]


async def texts(stack: Stack, token: str) -> list[str]:
    """Return everything that a caller reads about a refusal."""
    request_id, uuid = await refused(stack)
    paths = (
        f"/v2.1/servers/{uuid}",
        f"/berth/v1/instances/{uuid}",
        f"/berth/v1/decisions/{request_id}",
        f"/berth/v1/decisions/{uuid}",
        "/berth/v1/decisions",
    )
    answers = [await stack.ask("GET", path, token=token) for path in paths]
    assert {one.status for one in answers} == {200}
    body = {"server": {"name": "vm", "flavorRef": "small", "max_count": 100}}
    answers.append(await stack.ask("POST", "/berth/v1/decide", body, token=token))
    return [str(one.body) for one in answers]


def set_detail(stack: Stack, detail: RefusalDetail) -> None:
    """Set how much tenants read."""
    stack.parts = replace(stack.parts, refusal_detail=detail)
    stack.app = build_app(stack.parts)


@pytest.mark.parametrize("detail", RefusalDetail)
async def test_tenants_read_what_the_setting_allows(stack: Stack, detail: RefusalDetail) -> None:
    """The same holds for the fault, the record of the instance and the decisions."""
    set_detail(stack, detail)
    for text in await texts(stack, "bob"):
        assert "No valid host was found" in text
        assert (RULE in text, HOSTS in text) == (detail is RefusalDetail.FULL,) * 2
        helps = "fewer instances: " in text
        assert helps is (detail is not RefusalDetail.NOTHING)


async def test_administrators_read_everything(stack: Stack) -> None:
    """The setting does not restrict administrators."""
    set_detail(stack, RefusalDetail.NOTHING)
    for text in await texts(stack, "admin"):
        assert (RULE in text, HOSTS in text) == (True, True)


async def test_a_tenant_reads_no_amounts_of_the_chosen_host(stack: Stack) -> None:
    """The parts of a score tell what the host has free."""
    uuid = await stack.server(token="bob")
    answer = await stack.ask("GET", f"/berth/v1/decisions/{uuid}", token="bob")
    (placement,) = answer.body["placements"]
    assert (placement["candidates"], placement["chosen"]["raw"]) == (0, [])
    assert answer.body["filters"] == []


REFUSAL = "No valid host was found for 2 instances. Of 9 hosts, ResourcesFilter removed 9."
GROUP = "The policy of the server group would be broken"


@pytest.mark.parametrize(
    ("fault", "relaxations", "nothing"),
    [
        (
            Fault(500, "The build failed on 2 hosts.", 1.0),
            "The build failed on 2 hosts.",
            "The build failed on 2 hosts.",
        ),
        (
            Fault(500, REFUSAL, 1.0, summary=NO_HOST, hints="It would fit with: less."),
            f"{NO_HOST} It would fit with: less.",
            NO_HOST,
        ),
        (Fault(500, REFUSAL, 1.0), NO_HOST, NO_HOST),
        (Fault(500, f"{GROUP}: the host has 1 member.", 1.0), f"{GROUP}.", f"{GROUP}."),
    ],
)
async def test_faults_are_reduced(
    stack: Stack, fault: Fault, relaxations: str, nothing: str
) -> None:
    """Faults of earlier versions have no summary, and those of refusals begin alike."""
    uuid = await stack.server(token="bob")
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    await stack.ledger.commit([(Put(replace(instance, status=Status.ERROR, fault=fault)),)])
    for detail, expected in (
        (RefusalDetail.FULL, fault.message),
        (RefusalDetail.RELAXATIONS, relaxations),
        (RefusalDetail.NOTHING, nothing),
    ):
        set_detail(stack, detail)
        shown = await stack.ask("GET", f"/v2.1/servers/{uuid}", token="bob")
        assert shown.body["server"]["fault"]["message"] == expected
        record = await stack.ask("GET", f"/berth/v1/instances/{uuid}", token="bob")
        assert record.body["fault"]["message"] == expected
