"""Instance lists of hosts as agents report them, and the digests of these lists.

A list contains every instance that the ledger has on the host, and every move that holds capacity
there. Its digest is a sum over its entries, so a change updates it without looking at the other
entries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from berth.tables.host.occupants import Resident
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes

DIGEST_BYTES: Final = 16
# The sum is taken modulo 2^128. Its terms are hashes, so differences practically never cancel out.
_MODULUS: Final = 1 << (8 * DIGEST_BYTES)
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class ReportedInstance:
    """An instance of a host, or one side of a move, as an agent reports it."""

    resident: Resident
    node: str | None
    attributes: Attributes = NO_ATTRIBUTES

    @property
    def uuid(self) -> str:
        """The uuid of the instance or of the move."""
        return self.resident.uuid


def resident_digest(resident: Resident, attributes: Attributes = NO_ATTRIBUTES) -> int:
    """Return the contribution of one instance to the digest of its list, a 128-bit number.

    It covers everything that rules read of the instance, so a resize or a new name changes it. It
    does not cover the node, because a record may lack it and a list belongs to a host name.
    Schedulers compute the same value, so a change of this function requires a new `FORMAT` of the
    messages.
    """
    fields = (
        resident.uuid,
        resident.group_uuid,
        resident.building,
        resident.flavor_id,
        resident.image_properties,
        resident.assignment,
        resident.is_move,
        attributes,
    )
    return int.from_bytes(blake2b(_ENCODER.encode(fields), digest_size=DIGEST_BYTES).digest())


def list_digest(entries: Iterable[tuple[Resident, Attributes]]) -> bytes:
    """Return the digest of a list; the order of its entries does not matter."""
    return _digest(sum(resident_digest(*entry) for entry in entries))


def encoded_size(told: ReportedInstance) -> int:
    """Return the approximate size of an instance in a message, in bytes."""
    return len(_ENCODER.encode(told))


def _digest(total: int) -> bytes:
    return (total % _MODULUS).to_bytes(DIGEST_BYTES)


class HostList:
    """The instance list of one host and its digest, as its agent keeps them.

    Attributes:
        entries: the instances and moves by uuid; change them only through `put` and `remove`.
    """

    def __init__(self) -> None:
        self.entries: dict[str, ReportedInstance] = {}
        self._total = 0

    def __len__(self) -> int:
        """Return the number of instances and moves."""
        return len(self.entries)

    @property
    def uuids(self) -> tuple[str, ...]:
        """The uuids of the instances and moves."""
        return tuple(self.entries)

    @property
    def digest(self) -> bytes:
        """The digest of the whole list."""
        return _digest(self._total)

    def put(self, told: ReportedInstance) -> bool:
        """Add or replace an entry, and return whether that changed the list."""
        old = self.entries.get(told.uuid)
        if old == told:
            return False
        if old is not None:
            self._total -= resident_digest(old.resident, old.attributes)
        self.entries[told.uuid] = told
        self._total += resident_digest(told.resident, told.attributes)
        return True

    def remove(self, uuid: str) -> bool:
        """Remove an entry, and return whether the list contained it."""
        old = self.entries.pop(uuid, None)
        if old is None:
            return False
        self._total -= resident_digest(old.resident, old.attributes)
        return True
