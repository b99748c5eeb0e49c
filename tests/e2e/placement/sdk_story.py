"""A scenario of providers and allocations with openstacksdk; `.venv-placement` runs this.

Usage: python -m tests.e2e.placement.sdk_story URL
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openstack  # type: ignore[import-not-found] # .venv-placement has it
from openstack import exceptions

from tests.conformance.placement.scenes import uuid_of

HOST, CHILD = uuid_of("sdk host"), uuid_of("sdk child")
FIRST, SECOND = uuid_of("sdk first"), uuid_of("sdk second")
AGGREGATE = uuid_of("sdk aggregate")
OWNER = {"project_id": uuid_of("sdk project"), "user_id": uuid_of("sdk user")}


@contextmanager
def refused(kind: type[Exception]) -> Iterator[None]:
    """Expect the body to raise an exception of this kind."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def names(placement: Any) -> None:  # noqa: ANN401 - openstacksdk has no types for mypy here
    """Create, list and read resource classes and traits."""
    placement.create_resource_class(name="CUSTOM_SDK")
    assert placement.get_resource_class("CUSTOM_SDK").name == "CUSTOM_SDK"
    assert {one.name for one in placement.resource_classes()} >= {"CUSTOM_SDK", "VCPU"}
    placement.create_trait("CUSTOM_FAST")
    assert [one.name for one in placement.traits(name="startswith:CUSTOM_")] == ["CUSTOM_FAST"]
    with refused(exceptions.NotFoundException):
        placement.get_trait("CUSTOM_SLOW")


def providers(placement: Any) -> None:  # noqa: ANN401
    """Create a tree of two providers with inventories, traits and an aggregate."""
    placement.create_resource_provider(name="host", id=HOST)
    placement.create_resource_provider(name="child", id=CHILD, parent_provider_id=HOST)
    with refused(exceptions.ConflictException):
        placement.create_resource_provider(name="host")
    placement.update_resource_provider(HOST, name="first")
    assert placement.find_resource_provider("first").id == HOST
    assert {one.id for one in placement.resource_providers(in_tree=CHILD)} == {HOST, CHILD}
    placement.create_resource_provider_inventory(HOST, "VCPU", total=8)
    placement.create_resource_provider_inventory(HOST, "CUSTOM_SDK", total=2)
    generation = placement.get_resource_provider(HOST).generation
    placement.update_resource_provider_inventory(
        "VCPU", HOST, resource_provider_generation=generation, total=16, allocation_ratio=2.0
    )
    stock = placement.get_resource_provider_inventory("VCPU", HOST)
    assert (stock.total, stock.allocation_ratio) == (16, 2.0)
    placement.delete_resource_provider_inventory("CUSTOM_SDK", HOST)
    listed = placement.resource_provider_inventories(HOST)
    assert [one.resource_class for one in listed] == ["VCPU"]
    child = placement.get_resource_provider(CHILD)
    placement.set_resource_provider_inventories(CHILD, {"SRIOV_NET_VF": {"total": 4}}, 0)
    with refused(exceptions.ConflictException):
        placement.set_resource_provider_inventories(CHILD, {}, child.generation)
    placement.set_resource_provider_aggregates(placement.get_resource_provider(HOST), AGGREGATE)
    assert placement.fetch_resource_provider_aggregates(HOST).aggregates == [AGGREGATE]
    assert [one.id for one in placement.resource_providers(member_of=AGGREGATE)] == [HOST]


def claims(placement: Any) -> None:  # noqa: ANN401
    """Find candidates, claim for two consumers, check usages, and delete the claims."""
    (candidate,) = placement.allocation_candidates(resources="VCPU:2,SRIOV_NET_VF:1")
    assert set(candidate.allocations) == {HOST, CHILD}
    wanted = {HOST: {"resources": {"VCPU": 2}}, CHILD: {"resources": {"SRIOV_NET_VF": 1}}}
    consumer = {"consumer_generation": None, "consumer_type": "INSTANCE", **OWNER}
    placement.create_allocations({FIRST: {"allocations": wanted, **consumer}})
    placement.update_allocation(SECOND, allocations={HOST: {"resources": {"VCPU": 4}}}, **consumer)
    with refused(exceptions.ConflictException):
        placement.create_allocations({FIRST: {"allocations": wanted, **consumer}})
    held = placement.get_allocation(FIRST)
    assert held.allocations[HOST]["resources"] == {"VCPU": 2}
    assert {one.id for one in placement.resource_provider_allocations(HOST)} == {FIRST, SECOND}
    assert placement.fetch_resource_provider_usages(HOST).usages == {"VCPU": 6}
    with refused(exceptions.ConflictException):
        placement.delete_resource_provider_inventories(CHILD)
    placement.delete_allocation(FIRST)
    placement.delete_allocation(SECOND)
    assert placement.fetch_resource_provider_usages(HOST).usages == {"VCPU": 0}


def farewell(placement: Any) -> None:  # noqa: ANN401
    """Delete the providers, children first, and then the names."""
    placement.delete_resource_provider_inventories(CHILD)
    with refused(exceptions.ConflictException):
        placement.delete_resource_provider(HOST)
    placement.delete_resource_provider(CHILD)
    placement.delete_resource_provider(HOST)
    assert list(placement.resource_providers()) == []
    placement.delete_resource_class("CUSTOM_SDK", ignore_missing=False)
    placement.delete_trait("CUSTOM_FAST", ignore_missing=False)


def main(url: str) -> None:
    """Run the scenario against one server."""
    connection = openstack.connection.Connection(
        auth_type="admin_token", auth={"endpoint": url, "token": "admin"}
    )
    placement = connection.placement
    names(placement)
    providers(placement)
    claims(placement)
    farewell(placement)


if __name__ == "__main__":
    main(sys.argv[1])
