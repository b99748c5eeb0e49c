"""Servers of Nova as observed instances of Berth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Fault, Instance, Status
from berth.domain.compute.observed import NOVA, OBSERVED_IN
from berth.domain.uuids import named_uuid
from berth.ports.nova import ImportFinding, ImportKind

AGAIN: Final = "run `berth import nova` again when Nova has finished"

_STATUSES: Final[Mapping[str, Status]] = {
    "active": Status.ACTIVE,
    "paused": Status.PAUSED,
    "suspended": Status.SUSPENDED,
    "stopped": Status.SHUTOFF,
    "rescued": Status.RESCUED,
    "resized": Status.RESIZED,
    "soft-delete": Status.SOFT_DELETED,
    "shelved": Status.SHELVED,
    "shelved_offloaded": Status.SHELVED_OFFLOADED,
    "error": Status.ERROR,
}
_BUILDING: Final = "building"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts about a server that a reader collects to build its record.

    Attributes:
        uuid: the server.
        vm_state: Nova's `vm_state`.
        task_state: Nova's `task_state`.
        flavor: the copy that the server was booted with.
        image: the image and its properties; None for a server that boots from a volume.
        host: the name of its compute service.
        node: the name of its compute node.
        zone: the availability zone that it is bound to.
        hints: scheduler hints.
        extra: client attributes in the form of `Instance.extra`; empty ones are left out.
        lock: the lock in the form of `Instance.extra`; empty if the server is not locked.
        networks: the number of its networks.
        volumes: the number of its volumes.
    """

    uuid: str
    name: str
    project_id: str
    user_id: str
    vm_state: str
    flavor: Flavor
    task_state: str | None = None
    image: Image | None = None
    host: str | None = None
    node: str | None = None
    zone: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    lock: Mapping[str, object] = field(default_factory=dict[str, object])
    fault: Fault | None = None
    reservation_id: str = ""
    launch_index: int = 0
    networks: int = 0
    volumes: int = 0
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    launched_at_s: float | None = None


def instance_of(facts: ServerFacts) -> Instance | None:
    """Return a server as an observed instance; None if it cannot be one, see `findings_of`."""
    status = _STATUSES.get(facts.vm_state)
    if status is None:
        return None
    extra = {name: value for name, value in facts.extra.items() if value not in (None, "", [])}
    return Instance(
        uuid=facts.uuid,
        name=facts.name,
        project_id=facts.project_id,
        user_id=facts.user_id,
        # Nova's request is not known, and the id must be the same in each run.
        request_id=f"req-{named_uuid(f'nova:{facts.uuid}')}",
        reservation_id=facts.reservation_id,
        flavor=facts.flavor,
        image=facts.image,
        launch_index=facts.launch_index,
        status=status,
        # A task would be an order to an agent of Berth.
        task=None,
        host=facts.host or None,
        node=facts.node or None,
        requested_zone=facts.zone,
        hints=facts.hints,
        metadata=facts.metadata,
        extra={**extra, **facts.lock, OBSERVED_IN: NOVA},
        fault=facts.fault,
        created_at_s=facts.created_at_s,
        updated_at_s=facts.updated_at_s,
        launched_at_s=facts.launched_at_s,
    )


def findings_of(facts: ServerFacts) -> list[ImportFinding]:
    """Return findings about the parts of a server that are not imported."""
    found: list[tuple[str, str]] = []
    if facts.vm_state == _BUILDING:
        found.append(("is being built in Nova; only its allocations are imported", AGAIN))
    elif facts.vm_state not in _STATUSES:
        reason = f"is in vm_state {facts.vm_state!r}, which has no counterpart in Berth"
        found.append((f"{reason}; only its allocations are imported", "nothing"))
    elif facts.task_state is not None:
        reason = f"has the task {facts.task_state!r} in Nova, and is imported without it"
        found.append((reason, AGAIN))
    if facts.vm_state == "resized":
        reason = "waits for the confirmation of a resize, which Berth cannot confirm or revert"
        found.append((reason, "confirm or revert it in Nova, then import again"))
    if facts.networks:
        reason = "has ports of Neutron, which Berth does not know"
        found.append((reason, "nothing while Nova runs it; Berth shows no addresses"))
    if facts.volumes:
        reason = "has volumes of Cinder, which Berth does not know"
        found.append((reason, "nothing while Nova runs it; Berth shows no volumes"))
    return [ImportFinding(ImportKind.SERVER, facts.uuid, *one) for one in found]


def hints_of(found: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return scheduler hints in Berth's form: a tuple of texts for each name."""
    hints: dict[str, tuple[str, ...]] = {}
    for name, value in found.items():
        values = cast("list[object]", value) if isinstance(value, list) else [value]
        # Nova adds hints of its own, which are not those of the client.
        if not name.startswith("_nova"):
            hints[name] = tuple(str(one) for one in values)
    return hints
