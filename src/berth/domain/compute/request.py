"""Requests: what was asked, before anything is chosen."""

import hashlib
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.needs import Needs, needs_of, with_hardware
from berth.domain.errors import InvalidInputError
from berth.domain.named_uuid import named_uuid
from berth.domain.open_name import OpenName

COUNT_MAX = 10_000
"""Most instances that one request may ask for."""


_LETTERS = string.ascii_lowercase + string.digits
_PAIRS = tuple(low + high for high in _LETTERS for low in _LETTERS)
"""Two digits of base 36 at once, the lower one first."""


def instance_uuid_of(request_id: str, index: int) -> str:
    """Return the uuid of a request's instance: a repeat of the request has the same ones."""
    return named_uuid(f"instance:{request_id}/{index}")


def reservation_id_of(request_id: str) -> str:
    """Return the `r-` id, with eight further characters, that all the instances share."""
    number = int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:8], "big")
    number, first = divmod(number, len(_PAIRS))
    number, second = divmod(number, len(_PAIRS))
    number, third = divmod(number, len(_PAIRS))
    return f"r-{_PAIRS[first]}{_PAIRS[second]}{_PAIRS[third]}{_PAIRS[number % len(_PAIRS)]}"


class Operation(OpenName):
    """What a request is for; drivers may be chosen by it."""

    CREATE = "create"
    RETRY = "retry"
    """A build has failed, and another host is looked for."""
    REBUILD = "rebuild"
    RESIZE = "resize"
    MIGRATE = "migrate"
    LIVE_MIGRATE = "live_migrate"
    EVACUATE = "evacuate"
    UNSHELVE = "unshelve"


@dataclass(frozen=True, slots=True)
class Destination:
    """A host (and node) asked for by name; filters still have to agree."""

    host: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request for n equal instances, placed all or not at all.

    `instance_uuids` has one uuid an instance; its length is n. `force_*` skip the filters,
    `ignore_hosts` and `force_hosts` compare without case, `force_nodes` and `destination` with
    it (nova-behaviour.md 2.2). `retried` are (host, node) pairs where a build has failed before; of
    `alternates` the first that every filter lets pass now is taken, before any other host.
    `source_cell` is the cell that a moved instance is in, when it may leave it; empty otherwise.
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

    def __post_init__(self) -> None:
        """Refuse an empty, huge or doubled list of instances.

        Raises:
            InvalidInputError: naming the field.
        """
        count = len(self.instance_uuids)
        if not 1 <= count <= COUNT_MAX:
            raise InvalidInputError("instance_uuids", f"{count} must be 1 to {COUNT_MAX}")
        if len(set(self.instance_uuids)) != count:
            raise InvalidInputError("instance_uuids", "holds one uuid twice")

    @property
    def needs(self) -> Needs:
        """Amounts, traits, topology and devices that one instance needs.

        Raises:
            InvalidInputError: an extra spec or image property that cannot be read.
        """
        needs = needs_of(self.flavor, self.image.traits if self.image else None)
        return with_hardware(needs, self.flavor, self.image)
