"""All commands of osc-placement, against a running server."""

import pytest

from tests.conformance.placement.scenes import uuid_of
from tests.conformance.placement.servers import under_test
from tests.e2e.placement.openstack import Openstack, RefusedError, all_commands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOST, CHILD, POOL = uuid_of("cli host"), uuid_of("cli child"), uuid_of("cli pool")
AGGREGATE, CONSUMER = uuid_of("cli aggregate"), uuid_of("cli consumer")
OWNER = ["--project-id", uuid_of("cli project"), "--user-id", uuid_of("cli user")]


def names(run: Openstack) -> None:
    """Create, list, show and delete resource classes and traits."""
    run.say("resource class create CUSTOM_ONE")
    run.say("resource class set CUSTOM_TWO")
    assert {"name": "CUSTOM_ONE"} in run.ask("resource class list")
    assert run.ask("resource class show CUSTOM_TWO") == {"name": "CUSTOM_TWO"}
    run.say("resource class delete CUSTOM_TWO")
    with pytest.raises(RefusedError, match="CUSTOM_TWO"):
        run.ask("resource class show CUSTOM_TWO")
    run.say("trait create CUSTOM_FAST")
    run.say("trait create CUSTOM_SLOW")
    assert run.ask("trait list --name startswith:CUSTOM_") == [
        {"name": "CUSTOM_FAST"},
        {"name": "CUSTOM_SLOW"},
    ]
    assert run.ask("trait show CUSTOM_FAST") == {"name": "CUSTOM_FAST"}
    run.say("trait delete CUSTOM_SLOW")
    with pytest.raises(RefusedError, match=r"\(HTTP 404\)"):
        run.ask("trait show CUSTOM_SLOW")


def providers(run: Openstack) -> None:
    """Create a tree and a pool, rename a provider, and list providers by several filters."""
    made = run.ask(f"resource provider create host --uuid {HOST}")
    assert (made["uuid"], made["name"], made["generation"]) == (HOST, "host", 0)
    child = f"resource provider create child --uuid {CHILD} --parent-provider {HOST}"
    assert run.ask(child)["root_provider_uuid"] == HOST
    run.ask(f"resource provider create pool --uuid {POOL}")
    with pytest.raises(RefusedError, match=r"Conflicting resource provider.*\(HTTP 409\)"):
        run.ask("resource provider create host")
    assert run.ask(f"resource provider set {HOST} --name first")["name"] == "first"
    listed = run.ask(f"resource provider list --in-tree {CHILD}")
    assert {one["uuid"] for one in listed} == {HOST, CHILD}
    assert [one["uuid"] for one in run.ask("resource provider list --name pool")] == [POOL]


def inventories(run: Openstack) -> None:
    """Set all inventories and one; amend, show and delete them."""
    everything = "--resource VCPU=8 --resource VCPU:allocation_ratio=2 --resource MEMORY_MB=4096"
    run.ask(f"resource provider inventory set {HOST} {everything}")
    run.ask(f"resource provider inventory set {HOST} --amend --resource DISK_GB=100")
    run.ask(f"resource provider inventory class set {HOST} DISK_GB --total 50 --reserved 5")
    listed = {one["resource_class"]: one for one in inventory_of(run, HOST)}
    assert {name: one["total"] for name, one in listed.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 4096,
        "DISK_GB": 50,
    }
    shown = run.ask(f"resource provider inventory show {HOST} VCPU")
    assert (shown["total"], shown["allocation_ratio"]) == (8, 2.0)
    run.say(f"resource provider inventory delete {HOST} --resource-class DISK_GB")
    assert {one["resource_class"] for one in inventory_of(run, HOST)} == {"VCPU", "MEMORY_MB"}
    run.ask(f"resource provider inventory set {CHILD} --resource CUSTOM_ONE=2")
    run.say(f"resource provider inventory delete {CHILD}")
    assert inventory_of(run, CHILD) == []
    run.ask(f"resource provider inventory set {POOL} --resource DISK_GB=1000")


def inventory_of(run: Openstack, uuid: str) -> list[dict[str, object]]:
    """Return the inventories of a provider."""
    listed: list[dict[str, object]] = run.ask(f"resource provider inventory list {uuid}")
    return listed


def associations(run: Openstack) -> None:
    """Set traits and aggregates, and share the pool."""
    traits = "--trait CUSTOM_FAST --trait HW_CPU_X86_AVX"
    run.ask(f"resource provider trait set {HOST} {traits}")
    listed = run.ask(f"resource provider trait list {HOST}")
    assert {one["name"] for one in listed} == {"CUSTOM_FAST", "HW_CPU_X86_AVX"}
    run.ask(f"resource provider trait set {CHILD} --trait CUSTOM_FAST")
    run.say(f"resource provider trait delete {CHILD}")
    assert run.ask(f"resource provider trait list {CHILD}") == []
    run.ask(f"resource provider trait set {POOL} --trait MISC_SHARES_VIA_AGGREGATE")
    for uuid in (HOST, POOL):
        generation = run.ask(f"resource provider show {uuid}")["generation"]
        option = f"--aggregate {AGGREGATE} --generation {generation}"
        run.ask(f"resource provider aggregate set {uuid} {option}")
    assert run.ask(f"resource provider aggregate list {HOST}") == [{"uuid": AGGREGATE}]
    with pytest.raises(RefusedError, match=r"\(HTTP 409\)"):
        run.ask(f"resource provider aggregate set {HOST} --generation 0")
    members = run.ask(f"resource provider list --member-of {AGGREGATE} --required CUSTOM_FAST")
    assert [one["uuid"] for one in members] == [HOST]


def allocations(run: Openstack, version: str | None) -> None:
    """Find candidates, claim, check the usage, and remove the allocations in parts."""
    wanted = "--resource VCPU=2 --resource DISK_GB=10 --required CUSTOM_FAST --limit 5"
    found = run.ask(f"allocation candidate list {wanted}")
    assert {one["resource provider"] for one in found} == {HOST, POOL}
    typed = ["--consumer-type", "INSTANCE"] if version == "1.39" else []
    run.ask(
        f"resource provider allocation set {CONSUMER} --allocation rp={HOST},VCPU=2",
        *("--allocation", f"rp={HOST},MEMORY_MB=512", "--allocation", f"rp={POOL},DISK_GB=10"),
        *OWNER,
        *typed,
    )
    shown = run.ask(f"resource provider allocation show {CONSUMER}")
    held = {one["resource_provider"]: one["resources"] for one in shown}
    assert held == {HOST: {"VCPU": 2, "MEMORY_MB": 512}, POOL: {"DISK_GB": 10}}
    usage = {one["resource_class"]: one["usage"] for one in usage_of(run, HOST)}
    assert usage == {"VCPU": 2, "MEMORY_MB": 512}
    with pytest.raises(RefusedError, match=r"\(HTTP 409\)"):
        run.say(f"resource provider delete {HOST}")
    used = {
        one["resource_class"]: one["usage"]
        for one in run.ask(f"resource usage show {OWNER[1]} --user-id {OWNER[3]}")
    }
    # From 1.38 on the usage is by consumer type; this client puts it in the class column.
    assert (used["INSTANCE"] if typed else used)["DISK_GB"] == 10
    left = run.ask(f"resource provider allocation unset {CONSUMER} --provider {POOL}")
    assert [one["resource_provider"] for one in left] == [HOST]
    run.say(f"resource provider allocation delete {CONSUMER}")
    assert run.ask(f"resource provider allocation show {CONSUMER}") == []
    with pytest.raises(RefusedError, match=r"\(HTTP 404\)"):
        run.say(f"resource provider allocation delete {CONSUMER}")


def usage_of(run: Openstack, uuid: str) -> list[dict[str, object]]:
    """Return the usages of a provider."""
    listed: list[dict[str, object]] = run.ask(f"resource provider usage show {uuid}")
    return listed


# OpenStack's own server only shows that the tests are right, for which one version suffices.
_ASKED = [(server, None) for server in under_test()] + [("berth", "1.39")] * (
    "berth" in under_test()
)


@pytest.mark.parametrize(("placement", "version"), _ASKED, indirect=["placement"])
def test_every_command_works(placement: str, version: str | None) -> None:
    """Every command of osc-placement works, with the negotiated and the newest microversion."""
    with Openstack(placement, version) as run:
        names(run)
        providers(run)
        inventories(run)
        associations(run)
        allocations(run, version)
        with pytest.raises(RefusedError, match=r"\(HTTP 409\)"):
            run.say(f"resource provider delete {HOST}")
        run.say(f"resource provider delete {CHILD}")
        run.say(f"resource provider delete {HOST}")
        with pytest.raises(RefusedError, match=rf"No resource provider with uuid {HOST}.*404"):
            run.ask(f"resource provider show {HOST}")
        assert run.called == all_commands()
