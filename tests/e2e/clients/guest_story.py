"""Real guests with openstacksdk and novaclient's library, configured by openrc variables.

`.venv-clients` runs this.
"""

from typing import Any

import openstack  # type: ignore[import-not-found] # .venv-clients has it
from novaclient import client as nova_client  # type: ignore[import-not-found]

_WAIT_S = 90


def main() -> None:
    """Create servers with both libraries, wait for them, and delete them."""
    cloud: Any = openstack.connect()
    compute = cloud.compute
    flavor = compute.find_flavor("m1.small")
    image = cloud.image.find_image("cirros")
    made = compute.create_server(
        name="sdk", flavor_id=flavor.id, image_id=image.id, networks="none"
    )
    ready = compute.wait_for_server(made, interval=0.2, wait=_WAIT_S)
    assert (ready.status, bool(ready.compute_host)) == ("ACTIVE", True)
    nova = nova_client.Client("2.96", session=cloud.session)
    reservation_id = nova.servers.create(
        "reserved",
        nova.glance.find_image("cirros"),
        flavor.id,
        nics="none",
        min_count="2",
        max_count="2",
        reservation_id=True,
    )
    assert reservation_id.startswith("r-"), reservation_id
    found = nova.servers.list(search_opts={"reservation_id": reservation_id})
    assert {one.name for one in found} == {"reserved-1", "reserved-2"}
    servers = [made, *(compute.get_server(one.id) for one in found)]
    for one in servers:
        compute.wait_for_server(one, interval=0.2, wait=_WAIT_S)
    for one in servers:
        compute.delete_server(one)
    for one in servers:
        compute.wait_for_delete(one, interval=0.2, wait=_WAIT_S)


if __name__ == "__main__":
    main()
