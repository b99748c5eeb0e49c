"""The sizes of a flavor that the filters for CPUs, memory and disk compare with hosts.

As in Nova, these filters read the sizes of the flavor itself and not the overrides of
`resources:CLASS=n` (nova-behaviour.md 2.6), which ResourcesFilter reads.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.flavor import Flavor
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.scheduling.rules.rule import count_hosts, example_names
from berth.tables.columnar.bitsets import Rows
from berth.tables.columnar.class_columns import Floats
from berth.tables.host.hosts import HostTable

_MB_PER_GB = 1024
_CENTS = 100
_AT_LEAST_ONE = frozenset({VCPU, MEMORY_MB})


@dataclass(frozen=True, slots=True)
class Quantity:
    """A size of a flavor, such as its memory, and the resource class in which hosts provide it.

    Args:
        resource_class: the resource class.
        asked: returns the amount that a flavor asks for, in the unit of the class; may be a
            fraction.
        reads: the parts of a request that `asked` reads.
        ratio_key: the key of aggregate metadata that overrides the hosts' allocation ratio.
        noun: the name of the quantity in relaxations ("without ...").
        difference: a template for a difference, with `{amount}` and `{more}` ("more" or "less").
    """

    resource_class: str
    asked: Callable[[Flavor], float]
    reads: tuple[str, ...]
    ratio_key: str
    noun: str
    difference: str


def _disk_gb(flavor: Flavor) -> float:
    return flavor.root_gb + flavor.ephemeral_gb + flavor.swap_mb / _MB_PER_GB


CPUS: Final = Quantity(
    resource_class=VCPU,
    asked=lambda flavor: flavor.vcpus,
    reads=("flavor.vcpus",),
    ratio_key="cpu_allocation_ratio",
    noun="VCPUs",
    difference="{amount} VCPU {more}",
)
MEMORY: Final = Quantity(
    resource_class=MEMORY_MB,
    asked=lambda flavor: flavor.memory_mb,
    reads=("flavor.memory_mb",),
    ratio_key="ram_allocation_ratio",
    noun="memory",
    difference="{amount} MB {more} memory",
)
DISK: Final = Quantity(
    resource_class=DISK_GB,
    asked=_disk_gb,
    reads=("flavor.root_gb", "flavor.ephemeral_gb", "flavor.swap_mb"),
    ratio_key="disk_allocation_ratio",
    noun="disk",
    difference="{amount} GB {more} disk",
)


def say(amount: float) -> str:
    """Return an amount or ratio as text: whole numbers as such, others rounded down to 2 places."""
    if amount == math.floor(amount):
        return f"{math.floor(amount):,}"
    return f"{math.floor(amount * _CENTS) / _CENTS:,.2f}"


def say_free(amount: float) -> str:
    """Return a free amount as text; below 0, by how much more is in use than allowed."""
    return f"{say(amount)} free" if amount >= 0 else f"0 free (over by {say(-amount)})"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The hosts that a filter removes because of one size of a flavor.

    Args:
        filter_name: the filter.
        quantity: the size.
        asked: the amount that the flavor asks for, in the unit of the class.
        rows: the hosts.
    """

    filter_name: str
    quantity: Quantity
    asked: float
    rows: Rows

    def asking_for_less(self, hosts: HostTable, most: Floats) -> Sequence[Relaxation]:
        """Return the smallest reduction, in whole units, that makes the flavor fit on a host.

        The result is empty if not even an amount of 0 fits on any host.

        Args:
            hosts: the table.
            most: the largest amount that fits on each row; below 0 if not even 0 fits.
        """
        best = float(most.max(initial=-1.0))
        if best < 0:
            return []
        less = math.ceil(self.asked - best)
        if less >= self.asked:
            # Flavors have at least one VCPU and one MB of memory.
            if self.quantity.resource_class in _AT_LEAST_ONE and self.asked:
                return []
            return [self._without(hosts, self.rows[most >= 0])]
        return [self._changed(hosts, -less, self.rows[most >= self.asked - less])]

    def asking_for_exactly(self, hosts: HostTable, free: Floats) -> Sequence[Relaxation]:
        """Return the smallest change after which the amount equals what a host has free.

        The result is empty if all free amounts are below 0.

        Args:
            hosts: the table.
            free: the free amount of each row; a row where it is below 0 is ignored.
        """
        possible = free >= (1 if self.quantity.resource_class in _AT_LEAST_ONE else 0)
        if not possible.any():
            return []
        rows, change = self.rows[possible], free[possible] - self.asked
        # Of two changes of the same size, the one that requests less is chosen.
        nearest = float(change[abs(change) == abs(change).min()].min())
        winners = rows[change == nearest]
        if nearest == -self.asked:
            return [self._without(hosts, winners)]
        return [self._changed(hosts, nearest, winners)]

    def _without(self, hosts: HostTable, rows: Rows) -> Relaxation:
        text = f"without {self.quantity.noun}"
        return self._relaxation(hosts, text, -self.asked, rows)

    def _changed(self, hosts: HostTable, change: float, rows: Rows) -> Relaxation:
        more = "more" if change > 0 else "less"
        text = self.quantity.difference.format(amount=say(abs(change)), more=more)
        return self._relaxation(hosts, text, change, rows)

    def _relaxation(self, hosts: HostTable, text: str, change: float, rows: Rows) -> Relaxation:
        return Relaxation(
            filter=self.filter_name,
            subject=self.quantity.resource_class,
            text=f"{text}: {count_hosts(rows.size)}",
            hosts=int(rows.size),
            change=int(change) if change == int(change) else None,
            examples=example_names(hosts, rows),
        )
