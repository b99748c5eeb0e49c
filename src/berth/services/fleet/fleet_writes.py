"""Writes of the fleet: hosts and the aggregates that they are in."""

from berth.ports.clock import Clock, Ids
from berth.ports.ledger import Ledger
from berth.services.fleet.allocation_ratios import Ratios
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica


class FleetWrites:
    """What all who change hosts and aggregates have in common.

    Args:
        ledger: where to.
        follower: keeps the replica true to the ledger.
        replica: of the fleet.
        ratios: brings the ratios in force, and memberships, into inventories.
        clock: tells when something was changed.
        ids: for new records.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        ratios: Ratios,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._ledger = ledger
        self._ratios = ratios
        self._follower = follower
        self._replica = replica
        self._clock = clock
        self._ids = ids
