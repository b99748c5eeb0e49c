"""Requests: the input of a placement decision."""

import hashlib
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.needs import Needs, needs_of, with_hardware
from berth.domain.errors import InvalidInputError
from berth.domain.open_name import OpenName
from berth.domain.uuids import named_uuid

COUNT_MAX = 10_000
"""Maximum number of instances of one request."""

HIDDEN_ID = "hidden:"
"""The prefix of a server id in a hint if the tenant may not see the server; no rule finds it."""

_LETTERS = string.ascii_lowercase + string.digits
# All pairs of base-36 digits, the less significant digit first.
_PAIRS = tuple(low + high for high in _LETTERS for low in _LETTERS)


def without_mark(text: str) -> str:
    """Return a value of a hint as the tenant sent it, without `HIDDEN_ID`."""
    return text.removeprefix(HIDDEN_ID)


def instance_uuid_of(request_id: str, index: int) -> str:
    """Return the UUID of a request's instance by its index; equal arguments give equal UUIDs."""
    # The UUID is derived rather than random because a request may be submitted or decided twice:
    # the ledger then recognises the instances that it already has
    # (docs/adr/0004-commands-are-states.md).
    return named_uuid(f"instance:{request_id}/{index}")


def reservation_id_of(request_id: str) -> str:
    """Return the reservation id of all instances of a request: `r-` and eight base-36 digits."""
    number = int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:8], "big")
    # Two digits per division halve the cost, because the id is computed for every create.
    number, first = divmod(number, len(_PAIRS))
    number, second = divmod(number, len(_PAIRS))
    number, third = divmod(number, len(_PAIRS))
    return f"r-{_PAIRS[first]}{_PAIRS[second]}{_PAIRS[third]}{_PAIRS[number % len(_PAIRS)]}"


def build_retry_id(request_id: str, launch_index: int, failures: int) -> str:
    """Return the id of the request that places an instance again after its nth failed build."""
    return f"{request_id}.{launch_index}.{failures}"


def move_retry_id(request_id: str, failures: int) -> str:
    """Return the id of the request for another host after the nth failed attempt of a move.

    Args:
        request_id: the id of the first attempt or of any later one.
        failures: the number of attempts that have failed, at least 1.
    """
    return f"{request_id.partition('/')[0]}/{failures}"


def order_item_id(request_id: str, index: int) -> str:
    """Return the id of the request for one instance of an order that is placed one by one."""
    return f"{request_id}.{index + 1}"


class Operation(OpenName):
    """The purpose of a request. A policy may select a driver by operation."""

    CREATE = "create"
    RETRY = "retry"
    """Another host is needed because a build failed."""
    REBUILD = "rebuild"
    RESIZE = "resize"
    MIGRATE = "migrate"
    LIVE_MIGRATE = "live_migrate"
    EVACUATE = "evacuate"
    UNSHELVE = "unshelve"


@dataclass(frozen=True, slots=True)
class Destination:
    """The host that the caller named; `node` is None for any node. The filters still apply."""

    host: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request for n equal instances, which are placed all together or not at all.

    `instance_uuids` contains one UUID per instance, so its length is n. `force_hosts` and
    `force_nodes` skip most filters. `ignore_hosts` and `force_hosts` are case-insensitive,
    `force_nodes` and `destination` are case-sensitive (nova-behaviour.md 2.2). `retried` are (host,
    node) pairs on which a build has failed. `alternates` are (host, node) pairs, best first: the
    first one that still passes every filter is chosen before any other host. `source_cell` is the
    current cell of an instance that is moved and may leave that cell; empty otherwise. `name` and
    `metadata` are those of the instances; if there are several, each instance's own name has a
    number at its end, which `name` lacks.
    """

    request_id: str
    instance_uuids: tuple[str, ...]
    flavor: Flavor
    project_id: str = ""
    user_id: str = ""
    image: Image | None = None
    availability_zone: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    group_uuid: str | None = None
    destination: Destination | None = None
    ignore_hosts: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    retried: tuple[tuple[str, str], ...] = ()
    alternates: tuple[tuple[str, str], ...] = ()
    operation: Operation = Operation.CREATE
    source_cell: str = ""
    stays_off: bool = False
    """Whether an evacuated instance is stopped on its new host; rules do not read it."""
    name: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Reject an empty list of instances, more than COUNT_MAX instances, and duplicate UUIDs.

        Raises:
            InvalidInputError: `instance_uuids` is invalid.
        """
        count = len(self.instance_uuids)
        if not 1 <= count <= COUNT_MAX:
            raise InvalidInputError(
                "instance_uuids", f"has {count} UUIDs, but must have between 1 and {COUNT_MAX}"
            )
        if len(set(self.instance_uuids)) != count:
            twice = next(one for one in self.instance_uuids if self.instance_uuids.count(one) > 1)
            raise InvalidInputError(
                "instance_uuids", f"{twice[:80]!r} occurs more than once; list each instance once"
            )

    @property
    def needs(self) -> Needs:
        """The amounts, traits, topology and devices that one instance needs.

        Raises:
            InvalidInputError: the flavor or the image is invalid.
        """
        needs = needs_of(self.flavor, self.image.traits if self.image else None)
        return with_hardware(needs, self.flavor, self.image)
