"""Snapshots of all zones of a tree, read with the account of each zone's own operator.

In a real tree the zones belong to different organisations, so their states cannot be compared.
Tests and demos compare them to check that each instance is in exactly one zone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from berth.domain.compute.decision import Decision, ScoredHost
from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import UnavailableError
from berth.domain.inventory.resources import VCPU
from berth.lab.zone_process import ZoneProcess

# The API's limit for one page of decisions, which a demo or test does not reach.
_DECISIONS_MAX: Final = 1000
# At most this many findings of one zone's audit are reported, which suffices to show the fault.
_SHOWN: Final = 3
# By default the audit tolerates recent changes. Here the tree is idle, so each finding is a fault.
_NO_GRACE: Final = {"grace_s": "0", "task_s": "0", "request_s": "0"}


@dataclass(frozen=True, slots=True)
class ZoneSnapshot:
    """The state of one zone.

    Attributes:
        zone: the zone's name.
        parent: its parent's name, or None for the root.
        level: its depth in the tree; 0 for the root.
        hosts: the number of its hosts.
        vcpus: the vCPU capacity of its hosts.
        vcpus_used: the vCPUs in use.
        instances: the instances on its own hosts, by uuid.
        chosen: the host of each instance with its score at the time of the claim, by uuid; the
            oldest decisions may be missing.
        wrong: the findings of its audit.
    """

    zone: str
    parent: str | None
    level: int
    hosts: int
    vcpus: int
    vcpus_used: int
    instances: Mapping[str, Instance]
    chosen: Mapping[str, ScoredHost]
    wrong: Sequence[str]


def read_snapshot(zone: ZoneProcess) -> ZoneSnapshot:
    """Return the snapshot of a zone, which should be idle.

    Raises:
        UnavailableError: the zone refuses a request or does not answer.
    """
    try:
        with zone.client() as http:
            state = _get(http, "/berth/v1/state")
            hosts = _get(http, "/berth/v1/hosts")["hosts"]
            decided = _get(http, "/berth/v1/decisions", limit=str(_DECISIONS_MAX))
            audit = _get(http, "/berth/v1/audit", **_NO_GRACE)
    except httpx.HTTPError as error:
        raise UnavailableError(f"cannot read the state of zone {zone.name}: {error}") from error
    cpus = [host["inventories"].get(VCPU, {"capacity": 0, "used": 0}) for host in hosts]
    instances = msgspec.convert(state["instances"], list[Instance])
    decisions = msgspec.convert(decided["decisions"], list[Decision])
    return ZoneSnapshot(
        zone=zone.name,
        parent=None if zone.parent is None else zone.parent.name,
        level=zone.depth,
        hosts=len(hosts),
        vcpus=sum(one["capacity"] for one in cpus),
        vcpus_used=sum(one["used"] for one in cpus),
        instances={one.uuid: one for one in instances if _is_here(one)},
        chosen={
            placement.instance_uuid: placement.chosen
            for decision in decisions
            for placement in decision.placements
        },
        wrong=[f"{one['code']}: {one['text']}" for one in audit["discrepancies"]],
    )


def read_snapshots(zones: Iterable[ZoneProcess]) -> dict[str, ZoneSnapshot]:
    """Return the snapshots of zones, by the zones' names.

    Raises:
        UnavailableError: a zone refuses a request or does not answer.
    """
    return {zone.name: read_snapshot(zone) for zone in zones}


def faults_of(books: Iterable[ZoneSnapshot], wanted: Mapping[str, int]) -> list[str]:
    """Return the contradictions between the snapshots of a tree.

    Args:
        books: the snapshots of all zones.
        wanted: the expected number of instances of each reservation, over all zones.
    """
    faults: list[str] = []
    places: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    # Each zone's audit compares its ledger with its hosts. Only a comparison of zones can find an
    # instance that two zones have or one that no zone has.
    for book in books:
        faults += [f"the audit of {book.zone} finds {text}" for text in book.wrong[:_SHOWN]]
        for uuid, instance in book.instances.items():
            places.setdefault(uuid, []).append(book.zone)
            counts[instance.reservation_id] += 1
    faults += [
        f"instance {uuid} is in {' and '.join(zones)}"
        for uuid, zones in places.items()
        if len(zones) > 1
    ]
    faults += [
        f"reservation {one} has {counts[one]} instances, but should have {wanted.get(one, 0)}"
        for one in sorted(counts.keys() | wanted.keys())
        if counts[one] != wanted.get(one, 0)
    ]
    return faults


def _is_here(instance: Instance) -> bool:
    return instance.host is not None and instance.status is not Status.DELETED


def _get(http: httpx.Client, path: str, **params: str) -> dict[str, Any]:
    document: dict[str, Any] = http.get(path, params=params).raise_for_status().json()
    return document
