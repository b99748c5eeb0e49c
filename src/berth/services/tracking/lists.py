"""Lists: the instances of a host as agents tell of them, and digests of such lists.

A list has every instance that the ledger has on the host, and every move that holds room there.
Its digest is a sum, so that it follows a change without a look at the rest of the list.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from berth.tables.host.occupants import Resident

DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * DIGEST_BYTES)
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class ReportedInstance:
    """One instance of a host, or one side of a move, as an agent tells of it."""

    resident: Resident
    node: str | None

    @property
    def uuid(self) -> str:
        """The instance, or the move."""
        return self.resident.uuid


def resident_digest(resident: Resident) -> int:
    """Return what one instance adds to the digest of its list: a number of 128 bits.

    All that rules read of it goes into that, so a resize shows. The node does not: a record may
    leave it open, and a list is of a host by its name. Format 1 of the messages is just this.
    """
    said = (
        resident.uuid,
        resident.group_uuid,
        resident.building,
        resident.flavor_id,
        resident.image_properties,
        resident.assignment,
        resident.is_move,
    )
    return int.from_bytes(blake2b(_ENCODER.encode(said), digest_size=DIGEST_BYTES).digest())


def list_digest(residents: Iterable[Resident]) -> bytes:
    """Return the digest of a list, in whatever order."""
    return _digest(sum(map(resident_digest, residents)))


def encoded_size(told: ReportedInstance) -> int:
    """Return about how many bytes an instance takes in a message."""
    return len(_ENCODER.encode(told))


def _digest(total: int) -> bytes:
    return (total % _MODULUS).to_bytes(DIGEST_BYTES)


class HostList:
    """The list of one host, as its agent keeps it, with its digest."""

    def __init__(self) -> None:
        self._here: dict[str, ReportedInstance] = {}
        self._total = 0

    def __len__(self) -> int:
        """Return how many instances and moves are on it."""
        return len(self._here)

    def get(self, uuid: str) -> ReportedInstance | None:
        """Return an entry; None when it is not on the list."""
        return self._here.get(uuid)

    @property
    def uuids(self) -> tuple[str, ...]:
        """The instances and moves that are on it."""
        return tuple(self._here)

    @property
    def digest(self) -> bytes:
        """The digest of all of it."""
        return _digest(self._total)

    def put(self, told: ReportedInstance) -> bool:
        """Add or replace an entry; tell whether that changed anything."""
        old = self._here.get(told.uuid)
        if old == told:
            return False
        if old is not None:
            self._total -= resident_digest(old.resident)
        self._here[told.uuid] = told
        self._total += resident_digest(told.resident)
        return True

    def remove(self, uuid: str) -> bool:
        """Take an entry away; tell whether it was there."""
        old = self._here.pop(uuid, None)
        if old is None:
            return False
        self._total -= resident_digest(old.resident)
        return True
