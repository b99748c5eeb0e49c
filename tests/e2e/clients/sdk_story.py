"""A scenario with openstacksdk and novaclient's library; `.venv-clients` runs this.

Usage: python -m tests.e2e.clients.sdk_story MODE, in a folder with the clouds.yaml of the guide.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openstack  # type: ignore[import-not-found] # .venv-clients has it
from novaclient import client as nova_client  # type: ignore[import-not-found]
from openstack import exceptions


@contextmanager
def refused(kind: type[Exception], reason: str) -> Iterator[None]:
    """Expect the body to raise an exception whose text contains the reason."""
    told = ""
    try:
        yield
    except kind as error:
        told = str(error)
    assert reason in told, f"no {kind.__name__} with {reason}: {told}"


def fleet(cloud: Any) -> Any:  # noqa: ANN401 - openstacksdk has no types for mypy here
    """List the fleet, and create and return a flavor."""
    compute = cloud.compute
    assert len(list(compute.hypervisors(details=True))) == 4
    assert {one.host for one in compute.services()} == {f"fake-0000{index}" for index in range(4)}
    assert [one.name for one in compute.availability_zones()] == ["nova"]
    assert [one.name for one in cloud.image.images()] == ["cirros", "huge"]
    assert len(list(cloud.placement.resource_providers())) == 4
    flavor = compute.create_flavor(name="sdk", vcpus=1, ram=256, disk=1)
    compute.create_flavor_extra_specs(flavor, {"hw:cpu_policy": "shared"})
    assert compute.find_flavor("sdk").id == flavor.id
    assert compute.find_flavor("nope") is None
    with refused(exceptions.ConflictException, "sdk"):
        compute.create_flavor(name="sdk", vcpus=1, ram=256, disk=1)
    return flavor


def servers(cloud: Any, flavor: Any) -> None:  # noqa: ANN401
    """Create servers that keep apart; read, change and delete them."""
    compute = cloud.compute
    image = cloud.image.find_image("cirros")
    group = compute.create_server_group(name="apart", policy="anti-affinity")
    made = [
        compute.create_server(
            name=f"sdk-{index}",
            flavor_id=flavor.id,
            image_id=image.id,
            networks="none",
            scheduler_hints={"group": group.id},
        )
        for index in range(2)
    ]
    ready = [compute.wait_for_server(one, interval=0.1, wait=60) for one in made]
    assert len({one.compute_host for one in ready}) == 2
    assert set(compute.get_server_group(group.id).member_ids) == {one.id for one in made}
    assert {one.name for one in compute.servers(name="sdk-")} == {"sdk-0", "sdk-1"}
    compute.set_server_metadata(made[0], role="db")
    compute.update_server(made[0], name="renamed")
    shown = compute.get_server(made[0].id)
    assert (shown.name, shown.metadata) == ("renamed", {"role": "db"})
    with refused(exceptions.BadRequestException, "nope"):
        compute.create_server(
            name="x", flavor_id=flavor.id, image_id=image.id, networks="none", host="nope"
        )
    for one in made:
        compute.delete_server(one)
        compute.wait_for_delete(one, interval=0.1, wait=60)
    compute.delete_server_group(group)


def defaults(cloud: Any) -> None:  # noqa: ANN401
    """Create a server with the default options, which require an address or at least a network."""
    made = cloud.create_server("by-default", image="cirros", flavor="sdk", wait=True, timeout=60)
    assert made.status == "ACTIVE"
    assert cloud.get_server("by-default").addresses == {"auto_allocated_network": []}
    assert cloud.delete_server("by-default", wait=True, timeout=60)


def reservation(cloud: Any, flavor: Any) -> None:  # noqa: ANN401
    """Create servers with novaclient, find them by their reservation, and print its id."""
    options: dict[str, Any] = {"session": cloud.session}
    if cloud.config.config.get("compute_endpoint_override"):
        options["endpoint_override"] = cloud.config.config["compute_endpoint_override"]
    nova = nova_client.Client("2.96", **options)
    image = nova.glance.find_image("cirros")
    reservation_id = nova.servers.create(
        "reserved",
        image,
        flavor.id,
        nics="none",
        min_count="2",
        max_count="2",
        reservation_id=True,
    )
    assert reservation_id.startswith("r-"), reservation_id
    found = nova.servers.list(search_opts={"reservation_id": reservation_id})
    assert {one.name for one in found} == {"reserved-1", "reserved-2"}
    listed = cloud.compute.servers(reservation_id=reservation_id)
    assert {one.id for one in listed} == {one.id for one in found}
    print(reservation_id)  # noqa: T201 - for `nova list --reservation-id`


def identity(cloud: Any) -> None:  # noqa: ANN401
    """Log in, look up names, and revoke the token."""
    assert cloud.current_user_id == "admin"
    assert cloud.current_project.name == "admin"
    assert {one.name for one in cloud.identity.projects()} >= {"admin"}
    assert cloud.identity.find_user("admin").id == "admin"
    token = cloud.auth_token
    headers = {"X-Subject-Token": token}
    tokens = "/auth/tokens"
    assert cloud.identity.get(tokens, headers=headers).json()["token"]["user"]["id"] == "admin"
    assert cloud.identity.delete(tokens, headers=headers).status_code == 204
    assert cloud.identity.get("/projects").status_code == 200  # with a new token
    assert cloud.auth_token != token


def main(mode: str) -> None:
    """Run the scenario against one cloud."""
    cloud = openstack.connect(cloud="berth")
    flavor = fleet(cloud)
    servers(cloud, flavor)
    defaults(cloud)
    reservation(cloud, flavor)
    if mode == "identity":
        identity(cloud)


if __name__ == "__main__":
    main(sys.argv[1])
