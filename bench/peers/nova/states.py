"""Build Nova's own objects from the plain records of a case.

The records use Nova's terms and units (`memory_mb_used` includes what is reserved, heartbeats are
Unix seconds); `tests/differential/wire.py` writes them.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nova_peer import HostState, Json, Nova, RequestSpec

CELL_UUIDS = {
    name: str(uuid.uuid5(uuid.NAMESPACE_DNS, f"cell-{name}")) for name in ("", "a", "b", "c")
}
"""The uuid of each cell that a case may name."""


class RefusedError(Exception):
    """Nova's API would refuse the request before it reaches a scheduler."""


def moment(at_s: float) -> dt.datetime:
    """Return Unix seconds in the form that Nova's objects use for a time."""
    return dt.datetime.fromtimestamp(at_s, dt.UTC)


class Builder:
    """Builds objects with one loaded Nova."""

    def __init__(self, nova: Nova) -> None:
        """Import the modules that define the objects."""
        self._nova = nova
        self._objects: Any = nova.objects
        self._hardware: Any = importlib.import_module("nova.virt.hardware")
        self._pci_request: Any = importlib.import_module("nova.pci.request")

    # --- hosts ---------------------------------------------------------------------------------

    def host_state(self, host: Json, case: Json) -> HostState | None:
        """Return a HostState as HostManager builds it; None for a host without a service."""
        if host["service"] is None:
            return None
        state = self._nova.host_manager.HostState(
            host["host"], host["node"], CELL_UUIDS[host["cell"]]
        )
        state.update(
            self._compute_node(host, moment(case["now_s"])),
            dict(self._service(host)),
            [self._aggregate(one) for one in case["aggregates"] if host["host"] in one["hosts"]],
            {one["uuid"]: self._instance(one) for one in host["instances"]},
        )
        # The only candidate is the host itself, because no devices are tracked in Placement.
        state.allocation_candidates = [{"allocations": {}, "mappings": {"": [state.uuid]}}]
        return state

    def _compute_node(self, host: Json, now: dt.datetime) -> object:
        objects = self._objects
        free = {
            "free_ram_mb": host["memory_mb"] - host["memory_mb_used"],
            "free_disk_gb": host["local_gb"] - host["local_gb_used"],
        }
        same = ("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb", "local_gb_used")
        told = ("hypervisor_type", "hypervisor_version", "host_ip", "cpu_info", "stats")
        pools = [objects.PciDevicePool.from_dict(dict(one)) for one in host["pci_pools"]]
        return objects.ComputeNode(
            id=1,
            uuid=host["uuid"],
            host=host["host"],
            hypervisor_hostname=host["node"],
            disk_available_least=None,
            cpu_allocation_ratio=host["cpu_allocation_ratio"],
            ram_allocation_ratio=host["ram_allocation_ratio"],
            disk_allocation_ratio=host["disk_allocation_ratio"],
            metrics=json.dumps([self._metric(name, one) for name, one in host["metrics"].items()]),
            numa_topology=self._topology(host["numa_cells"]),
            pci_device_pools=objects.PciDevicePoolList(objects=pools),
            supported_hv_specs=[objects.HVSpec.from_list(one) for one in host["supported"]],
            updated_at=now,
            **free,
            **{name: host[name] for name in (*same, *told)},
        )

    @staticmethod
    def _metric(name: str, value: float) -> Json:
        return {"name": name, "value": value, "timestamp": "2020-01-01T00:00:00", "source": "case"}

    def _topology(self, cells: Sequence[Json] | None) -> str | None:
        if cells is None:
            return None
        objects = self._objects
        made = [
            objects.NUMACell(
                id=one["id"],
                cpuset=set(one["cpuset"]),
                pcpuset=set(one["pcpuset"]),
                memory=one["memory"],
                cpu_usage=one["cpu_usage"],
                memory_usage=one["memory_usage"],
                pinned_cpus=set(one["pinned_cpus"]),
                siblings=[set(threads) for threads in one["siblings"]],
                mempages=[objects.NUMAPagesTopology(**pages) for pages in one["mempages"]],
                socket=one["socket"],
                network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
            )
            for one in cells
        ]
        text: str = objects.NUMATopology(cells=made)._to_json()
        return text

    def _service(self, host: Json) -> Any:  # noqa: ANN401 - Nova has no types
        service = host["service"]
        return self._objects.Service(
            host=host["host"],
            binary="nova-compute",
            topic="compute",
            report_count=1,
            disabled=service["disabled"],
            disabled_reason=None,
            forced_down=service["forced_down"],
            last_seen_up=moment(service["last_seen_s"]),
            created_at=None,
            updated_at=None,
        )

    def _aggregate(self, aggregate: Json) -> object:
        return self._objects.Aggregate(
            id=aggregate["id"],
            name=f"aggregate-{aggregate['id']}",
            hosts=list(aggregate["hosts"]),
            metadata=dict(aggregate["metadata"]),
        )

    def _instance(self, instance: Json) -> Any:  # noqa: ANN401 - Nova has no types
        properties = instance["image_properties"].items()
        return self._objects.Instance(
            uuid=instance["uuid"],
            image_ref="",
            instance_type_id=int(instance["flavor_id"]),
            system_metadata={f"image_{name}": value for name, value in properties},
        )

    # --- the request ---------------------------------------------------------------------------

    def request_spec(self, case: Json) -> RequestSpec:
        """Return the RequestSpec that Nova's API would pass to its scheduler.

        Raises:
            RefusedError: the API would refuse the flavor or the image.
        """
        request = case["request"]
        objects = self._objects
        try:
            image = self._image(request["image"])
            flavor = objects.Flavor(id=int(request["flavor"]["flavorid"]), **request["flavor"])
            topology = self._hardware.numa_get_constraints(flavor, image)
            pci_requests = self._pci_requests(flavor, image)
        except Exception as error:  # Nova's API turns any exception into a refusal
            raise RefusedError(f"{type(error).__name__}: {error}") from error
        return objects.RequestSpec(
            image=image,
            flavor=flavor,
            numa_topology=topology,
            pci_requests=pci_requests,
            project_id=request["project_id"],
            user_id="user",
            availability_zone=request["availability_zone"],
            num_instances=len(request["instance_uuids"]),
            ignore_hosts=request["ignore_hosts"],
            force_hosts=request["force_hosts"],
            force_nodes=request["force_nodes"],
            requested_destination=self._destination(request),
            retry=self._retry(request["retried"]),
            limits=objects.SchedulerLimits.from_dict({}),
            instance_group=self._group(request["group"]),
            scheduler_hints=request["hints"],
            instance_uuid=request["instance_uuids"][0],
            is_bfv=False,
            requested_resources=[],
        )

    def _image(self, image: Json | None) -> Any:  # noqa: ANN401 - Nova has no types
        # An instance on a volume has the image metadata of the volume, which is empty here.
        return self._objects.ImageMeta.from_dict(
            {"properties": {}}
            if image is None
            else {"id": image["id"], "properties": dict(image["properties"])}
        )

    def images(self, case: Json, spec: RequestSpec) -> Mapping[str, Json]:
        """Return image properties as Nova reads them, by instance uuid; "" is the request's."""
        read = {
            one["uuid"]: self._instance(one).image_meta.properties
            for host in case["hosts"]
            for one in host["instances"]
        }
        return {
            uuid: {name: str(value) for name, value in properties.to_dict().items()}
            for uuid, properties in {**read, "": spec.image.properties}.items()
        }

    def _pci_requests(self, flavor: object, image: object) -> Any:  # noqa: ANN401 - likewise
        self._pci_request.get_alias_from_config.cache_clear()
        policy = self._hardware.get_pci_numa_policy_constraint(flavor, image)
        return self._pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy)

    def _retry(self, retried: Sequence[Sequence[str]]) -> object | None:
        objects = self._objects
        if not retried:
            return None
        nodes = [objects.ComputeNode(host=name, hypervisor_hostname=node) for name, node in retried]
        return objects.SchedulerRetries(
            num_attempts=len(nodes), hosts=objects.ComputeNodeList(objects=nodes)
        )

    def _destination(self, request: Json) -> object | None:
        wanted = request["destination"]
        if wanted is None:
            return None
        fields: dict[str, Any] = {"allow_cross_cell_move": bool(wanted["cell"])}
        if wanted["host"]:
            fields |= {"host": wanted["host"], "node": wanted["node"]}
        if wanted["cell"]:
            fields["cell"] = self._objects.CellMapping(uuid=CELL_UUIDS[wanted["cell"]])
        return self._objects.Destination(**fields)

    def _group(self, group: Mapping[str, Any] | None) -> object | None:
        if group is None:
            return None
        made = self._objects.InstanceGroup(
            uuid=group["uuid"],
            policy=group["policy"],
            policies=[group["policy"]],
            members=list(group["members"]),
            hosts=list(group["hosts"]),
            rules=dict(group["rules"]),
        )
        made.obj_reset_changes()
        return made
