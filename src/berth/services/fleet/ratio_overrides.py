"""Setting ratios: what an operator says of a host's allocation ratios while it runs."""

from collections.abc import Mapping
from dataclasses import replace

from berth.domain.compute.host import Host
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import RATIO_MAX
from berth.domain.ledger.write import Guard, Put, Unit, Write
from berth.ports.ledger import Ledger
from berth.services.fleet.allocation_ratios import Ratios
from berth.services.providers.guarded_saves import AGGREGATES_GUARD, save_guarded
from berth.services.providers.provider_writes import provider_guard
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica


class SettingRatios:
    """Sets allocation ratios of hosts; the capacity follows in the same transaction."""

    def __init__(self, ledger: Ledger, follower: Follower, replica: Replica) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._ratios = Ratios(ledger=ledger, replica=replica)

    async def set(self, name: str, ratios: Mapping[str, float]) -> None:
        """Set ratios of a host, by resource class; 0 unsets one, and others stay.

        They count where neither an aggregate nor the settings of the agent say another.

        Raises:
            NotFoundError: there is no such host.
            InvalidInputError: the host has none of a class, or a ratio is out of range.
            ConflictError: somebody else keeps changing it.
        """

        async def read() -> Unit:
            seen = await self._ledger.version()
            await self._follower.catch_up()
            table = self._replica.hosts
            rows = sorted(table.rows_of_name(name))
            if not rows:
                raise NotFoundError("host", name)
            mine = table.memberships.of_host(name)
            writes: list[Write] = []
            for uuid in (table.uuid(row) for row in rows):
                host = await self._ledger.get(Host, uuid)
                provider = await self._ledger.get(Provider, uuid)
                if host is None or provider is None:
                    raise NotFoundError("host", name)
                _check(provider, ratios)
                after = {**host.operator_ratios, **ratios}
                kept = {one: ratio for one, ratio in after.items() if ratio}
                host = replace(host, operator_ratios=kept)
                provider = self._ratios.with_ratios(provider, host, mine)
                writes += (Guard(provider_guard(uuid), seen), Put(host), Put(provider))
            return tuple(writes)

        await save_guarded(self._ledger, AGGREGATES_GUARD, read)
        await self._follower.catch_up()


def _check(provider: Provider, ratios: Mapping[str, float]) -> None:
    for name, ratio in ratios.items():
        where = f"ratios.{name[:80]}"
        if name not in provider.inventories:
            classes = ", ".join(sorted(provider.inventories))
            raise InvalidInputError(where, f"the host has none of it; it has {classes}")
        if not 0 <= ratio <= RATIO_MAX:
            raise InvalidInputError(where, f"{ratio} must be 0 to {RATIO_MAX}")
