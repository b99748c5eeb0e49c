"""Records: the nouns that the ledger keeps, their kinds and their keys."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.decision import Decision
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Quota
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.domain.zones.zone import RemoteInstance, Zone


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request accepted and not yet decided; whoever schedules takes it up.

    Its instances stand in the ledger already, with the task of its operation. It is removed by
    the transaction that commits its claim or its refusal.

    One whose instances go to several zones is done by one scheduler at a time: `taken_by` names it,
    and others leave the request to it until `taken_until_s` (Unix seconds). Of one that is given up
    what was placed is being taken back, so no more of it is placed.
    """

    request: Request
    accepted_at_s: float
    taken_by: str = ""
    taken_until_s: float = 0.0
    is_given_up: bool = False


Record = (
    Host
    | Service
    | Provider
    | Aggregate
    | ServerGroup
    | Flavor
    | Instance
    | PendingRequest
    | Decision
    | Consumer
    | ResourceClass
    | Trait
    | Migration
    | Action
    | Quota
    | Zone
    | RemoteInstance
)


class Kind(StrEnum):
    """The kind of a record, as the change feed and the ledger's tables name it."""

    __hash__ = str.__hash__  # that of `Enum` is a call in Python, and kinds are in most keys

    HOST = "host"
    SERVICE = "service"
    PROVIDER = "provider"
    AGGREGATE = "aggregate"
    SERVER_GROUP = "server_group"
    FLAVOR = "flavor"
    INSTANCE = "instance"
    PENDING_REQUEST = "pending_request"
    DECISION = "decision"
    CONSUMER = "consumer"
    RESOURCE_CLASS = "resource_class"
    TRAIT = "trait"
    MIGRATION = "migration"
    ACTION = "action"
    QUOTA = "quota"
    ZONE = "zone"
    REMOTE_INSTANCE = "errand"


RECORD_TYPES: dict[Kind, type[Record]] = {
    Kind.HOST: Host,
    Kind.SERVICE: Service,
    Kind.PROVIDER: Provider,
    Kind.AGGREGATE: Aggregate,
    Kind.SERVER_GROUP: ServerGroup,
    Kind.FLAVOR: Flavor,
    Kind.INSTANCE: Instance,
    Kind.PENDING_REQUEST: PendingRequest,
    Kind.DECISION: Decision,
    Kind.CONSUMER: Consumer,
    Kind.RESOURCE_CLASS: ResourceClass,
    Kind.TRAIT: Trait,
    Kind.MIGRATION: Migration,
    Kind.ACTION: Action,
    Kind.QUOTA: Quota,
    Kind.ZONE: Zone,
    Kind.REMOTE_INSTANCE: RemoteInstance,
}

KINDS_NOT_IN_FEED = frozenset({Kind.DECISION, Kind.ACTION, Kind.REMOTE_INSTANCE})
"""Kinds that the change feed leaves out: nobody follows them, they are asked for when wanted."""

KINDS: dict[type[Record], Kind] = {noun: kind for kind, noun in RECORD_TYPES.items()}


def kind_of(record: Record) -> Kind:
    """Name the kind of a record."""
    return KINDS[type(record)]


def key_of(record: Record) -> str:
    """Return the key that is unique among records of the same kind."""
    return _KEYS[type(record)](record)


def _zone_key(zone: Zone) -> str:
    return str(zone.zone_id)


def _aggregate_key(aggregate: Aggregate) -> str:
    return str(aggregate.aggregate_id)


_KEYS: Final[Mapping[type[Record], Callable[[Any], str]]] = {
    Host: attrgetter("uuid"),
    Service: attrgetter("host"),
    Provider: attrgetter("uuid"),
    Aggregate: _aggregate_key,
    ServerGroup: attrgetter("uuid"),
    Flavor: attrgetter("flavor_id"),
    Instance: attrgetter("uuid"),
    PendingRequest: attrgetter("request.request_id"),
    Decision: attrgetter("request_id"),
    Consumer: attrgetter("uuid"),
    ResourceClass: attrgetter("name"),
    Trait: attrgetter("name"),
    Migration: attrgetter("uuid"),
    Action: attrgetter("key"),
    Quota: attrgetter("project_id"),
    Zone: _zone_key,
    RemoteInstance: attrgetter("instance_uuid"),
}
