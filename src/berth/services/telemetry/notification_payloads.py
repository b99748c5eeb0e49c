"""Payloads of notifications, which are named and versioned documents for readers outside Berth.

Within a major version, fields are only added. No field contains data in which owners may have put
secrets (metadata, tags).
"""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from berth.domain.compute.decision import Decision
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.compute.server_image import image_in_progress

T = TypeVar("T")

VERSION: Final = "1.0"


@dataclass(frozen=True, slots=True)
class Payload(Generic[T]):
    """A document with its name, its version and its data."""

    name: str
    data: T
    version: str = VERSION


@dataclass(frozen=True, slots=True)
class SelectionData:
    """A request that a scheduler has begun to place."""

    request_id: str
    operation: str
    project_id: str
    user_id: str
    instance_uuids: tuple[str, ...]
    flavor_id: str
    image_id: str | None
    availability_zone: str | None
    group_uuid: str | None

    @classmethod
    def of(cls, request: Request) -> "SelectionData":
        """Return the data of a request."""
        return cls(
            request_id=request.request_id,
            operation=str(request.operation),
            project_id=request.project_id,
            user_id=request.user_id,
            instance_uuids=request.instance_uuids,
            flavor_id=request.flavor.flavor_id,
            image_id=request.image.image_id if request.image else None,
            availability_zone=request.availability_zone,
            group_uuid=request.group_uuid,
        )


@dataclass(frozen=True, slots=True)
class ChosenHost:
    """The host and node chosen for an instance."""

    instance_uuid: str
    host: str
    node: str


@dataclass(frozen=True, slots=True)
class SelectedData:
    """The hosts that a scheduler has chosen for a request and the ledger has committed."""

    request: SelectionData
    destinations: tuple[ChosenHost, ...]
    policy_name: str
    policy_hash: str
    driver: str
    attempts: int
    decided_at_s: float
    duration_us: int

    @classmethod
    def of(cls, request: Request, decision: Decision) -> "SelectedData":
        """Return the data of a decision."""
        chosen = (ChosenHost(one.instance_uuid, one.host, one.node) for one in decision.placements)
        return cls(
            request=SelectionData.of(request),
            destinations=tuple(chosen),
            policy_name=decision.policy_name,
            policy_hash=decision.policy_hash,
            driver=decision.driver,
            attempts=decision.attempts,
            decided_at_s=decision.decided_at_s,
            duration_us=decision.duration_us,
        )


@dataclass(frozen=True, slots=True)
class RefusedData:
    """The reason why no destinations were selected, as a code and as a message."""

    request: SelectionData
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class InstanceData:
    """The state of an instance after an event, as of `ledger_version`; times are Unix seconds."""

    uuid: str
    name: str
    project_id: str
    user_id: str
    request_id: str
    reservation_id: str
    flavor_id: str
    image_id: str | None
    status: str
    task: str | None
    host: str | None
    node: str | None
    group_uuid: str | None
    fault: str | None
    created_at_s: float
    updated_at_s: float
    ledger_version: int
    snapshot_image_id: str | None = None
    """The image that is being made of the instance."""

    @classmethod
    def of(cls, instance: Instance, ledger_version: int) -> "InstanceData":
        """Return the data of an instance at a version of the ledger."""
        return cls(
            uuid=instance.uuid,
            name=instance.name,
            project_id=instance.project_id,
            user_id=instance.user_id,
            request_id=instance.request_id,
            reservation_id=instance.reservation_id,
            flavor_id=instance.flavor.flavor_id,
            image_id=instance.image.image_id if instance.image else None,
            status=str(instance.status),
            task=None if instance.task is None else str(instance.task),
            host=instance.host,
            node=instance.node,
            group_uuid=instance.group_uuid,
            fault=None if instance.fault is None else instance.fault.message,
            created_at_s=instance.created_at_s,
            updated_at_s=instance.updated_at_s,
            ledger_version=ledger_version,
            snapshot_image_id=image_in_progress(instance) or None,
        )


@dataclass(frozen=True, slots=True)
class HostData:
    """The state of a host after an event, as of `ledger_version`."""

    uuid: str
    name: str
    node: str
    hypervisor_type: str
    ledger_version: int

    @classmethod
    def of(cls, host: Host, ledger_version: int) -> "HostData":
        """Return the data of a host at a version of the ledger."""
        return cls(host.uuid, host.name, host.node, host.hypervisor_type, ledger_version)


@dataclass(frozen=True, slots=True)
class ServiceData:
    """The state of a compute service after an operator's change, as of `ledger_version`."""

    host: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    ledger_version: int

    @classmethod
    def of(cls, service: Service, ledger_version: int) -> "ServiceData":
        """Return the data of a service at a version of the ledger."""
        return cls(
            service.host,
            service.disabled,
            service.disabled_reason,
            service.forced_down,
            ledger_version,
        )
