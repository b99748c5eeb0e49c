"""A scenario of hosts and servers with Nova's report client; `.venv-nova` runs this.

Usage: python -m tests.e2e.placement.nova_story URL
"""

import sys
from typing import Any

from keystoneauth1 import adapter, session, token_endpoint
from nova import (  # type: ignore[import-not-found] # .venv-nova has it
    conf,
    context,
    exception,
    objects,
)
from nova.scheduler import utils  # type: ignore[import-not-found]
from nova.scheduler.client import report  # type: ignore[import-not-found]

from tests.conformance.placement.scenes import uuid_of

HOST, OTHER, CELL = uuid_of("nova host"), uuid_of("nova other"), uuid_of("nova cell")
AGGREGATE = uuid_of("nova aggregate")
SERVER, SECOND, MIGRATION = uuid_of("nova server"), uuid_of("nova second"), uuid_of("migration")
OWNER = (uuid_of("nova project"), uuid_of("nova user"))


def stock(total: int, **more: float) -> dict[str, float]:
    """Return an inventory in the form in which a compute node reports it."""
    return {
        "total": total,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": 1.0,
        **more,
    }


class Story:
    """The scenario, with its report client."""

    def __init__(self, url: str) -> None:
        auth = token_endpoint.Token(endpoint=url, token="admin")
        speaker = adapter.Adapter(
            session.Session(auth=auth), service_type="placement", raise_exc=False
        )
        self.client = report.SchedulerReportClient(adapter=speaker)
        self.context = context.get_admin_context()

    def tree(self, uuid: str, name: str) -> Any:  # noqa: ANN401 - Nova has no types here
        """Return the tree of a host, whose root is created if it is missing."""
        return self.client.get_provider_tree_and_ensure_root(self.context, uuid, name=name)

    def candidates(self, vcpus: int, memory_mb: int) -> list[dict[str, Any]]:
        """Return candidates as Nova's scheduler does, for a flavor that requires a trait."""
        flavor = objects.Flavor(
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=0,
            ephemeral_gb=0,
            swap=0,
            extra_specs={"trait:COMPUTE_NODE": "required"},
        )
        spec = objects.RequestSpec(
            flavor=flavor,
            image=objects.ImageMeta(properties=objects.ImageMetaProps()),
            is_bfv=False,
            requested_resources=[],
            request_level_params=objects.RequestLevelParams(),
        )
        wanted = utils.ResourceRequest.from_request_spec(spec)
        found, summaries, self.version = self.client.get_allocation_candidates(self.context, wanted)
        assert set(summaries) >= {uuid for one in found for uuid in one["allocations"]}
        return list(found)

    def claim(self, consumer: str, request: dict[str, Any]) -> bool:
        """Claim a candidate for a consumer and return whether the claim succeeded."""
        return bool(
            self.client.claim_resources(self.context, consumer, request, *OWNER, self.version)
        )

    def held(self, consumer: str) -> dict[str, dict[str, int]]:
        """Return the allocations of a consumer: its resources by provider uuid."""
        found = self.client.get_allocations_for_consumer(self.context, consumer)
        return {uuid: one["resources"] for uuid, one in found.items()}

    def report_hosts(self) -> None:
        """Report two compute nodes, then change the inventory and traits of the first."""
        for uuid, name in ((HOST, "host"), (OTHER, "other")):
            tree = self.tree(uuid, name)
            tree.update_inventory(name, {"VCPU": stock(8), "MEMORY_MB": stock(4096)})
            tree.update_traits(name, ["COMPUTE_NODE", "CUSTOM_NEW"])
            tree.update_aggregates(name, [AGGREGATE])
            self.client.update_from_provider_tree(self.context, tree)
        tree = self.tree(HOST, "host")
        assert set(tree.data("host").traits) == {"COMPUTE_NODE", "CUSTOM_NEW"}
        assert set(tree.data("host").aggregates) == {AGGREGATE}
        tree.update_inventory("host", {"VCPU": stock(16), "MEMORY_MB": stock(4096)})
        tree.update_traits("host", ["COMPUTE_NODE"])
        self.client.update_from_provider_tree(self.context, tree)
        self.client.clear_provider_cache()
        assert self.tree(HOST, "host").data("host").inventory["VCPU"]["total"] == 16

    def claim_and_move(self) -> None:
        """Claim a server, move it to the other host, and delete the migration's allocations."""
        found = {next(iter(one["allocations"])): one for one in self.candidates(4, 512)}
        assert set(found) == {HOST, OTHER}
        assert self.claim(SERVER, found[HOST])
        assert self.held(SERVER) == {HOST: {"VCPU": 4, "MEMORY_MB": 512}}
        usage = self.client.get_usages_counts_for_quota(self.context, OWNER[0], OWNER[1])
        assert usage["project"]["cores"] == 4
        # The migration takes over the server's allocations; the server claims the other host.
        assert self.client.move_allocations(self.context, SERVER, MIGRATION)
        assert self.held(MIGRATION) == {HOST: {"VCPU": 4, "MEMORY_MB": 512}}
        assert self.held(SERVER) == {}
        assert self.claim(SERVER, found[OTHER])
        assert self.client.delete_allocation_for_instance(
            self.context, MIGRATION, consumer_type="migration"
        )
        assert not self.client.delete_allocation_for_instance(self.context, MIGRATION)
        assert self.held(SERVER) == {OTHER: {"VCPU": 4, "MEMORY_MB": 512}}
        assert not self.claim(SECOND, {"allocations": {OTHER: {"resources": {"VCPU": 5}}}})
        assert self.claim(SECOND, {"allocations": {HOST: {"resources": {"VCPU": 2}}}})

    def reshape(self) -> None:
        """Move the first host's processors, and a server's allocation of them, into a NUMA cell."""
        try:
            self._put_into_cell()
        except exception.PlacementReshapeConflict:
            # The claims have changed the host since the tree was read; Nova also reads it again.
            self._put_into_cell()
        else:
            raise AssertionError("a reshape with an old generation was accepted")
        assert self.held(SECOND) == {CELL: {"VCPU": 2}}
        assert self.tree(HOST, "host").data("cell").inventory["VCPU"]["total"] == 16
        assert "VCPU" not in self.tree(HOST, "host").data("host").inventory

    def _put_into_cell(self) -> None:
        tree = self.tree(HOST, "host")
        if not tree.exists(CELL):  # the child is created before the reshape is tried
            tree.new_child("cell", HOST, uuid=CELL)
        tree.update_inventory("host", {"MEMORY_MB": stock(4096)})
        tree.update_inventory("cell", {"VCPU": stock(16)})
        allocations = self.client.get_allocations_for_provider_tree(self.context, "host")
        moved = allocations[SECOND]["allocations"]
        moved[CELL] = moved.pop(HOST)
        self.client.update_from_provider_tree(self.context, tree, allocations=allocations)

    def farewell(self) -> None:
        """Delete the servers' allocations, one of them by force, and then the cell."""
        assert self.client.delete_allocation_for_instance(self.context, SERVER, force=True)
        assert self.client.delete_allocation_for_instance(self.context, SECOND)
        tree = self.tree(HOST, "host")
        tree.remove("cell")
        self.client.update_from_provider_tree(self.context, tree)
        assert self.client.get("/resource_providers/" + CELL).status_code == 404


def main(url: str) -> None:
    """Run the scenario against one server."""
    conf.CONF([], project="nova", default_config_files=[])
    objects.register_all()
    story = Story(url)
    story.report_hosts()
    story.claim_and_move()
    story.reshape()
    story.farewell()


if __name__ == "__main__":
    main(sys.argv[1])
