"""The host table: every host that a decision may choose, as columns.

The table is written by whoever follows the ledger's change feed, on one thread, and read by the
rules. What this process has decided but the ledger has not yet told is *held*: it counts as used
on top of what the ledger says, so that the next decision sees it.
"""

from collections.abc import ItemsView, Iterable, Mapping
from dataclasses import replace

import numpy as np

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.bitsets import Bitset, Rows
from berth.tables.columnar.class_columns import ClassColumns, Ints
from berth.tables.columnar.host_names import HostNames
from berth.tables.columnar.journal import Journal
from berth.tables.columnar.uuids import HostUuids
from berth.tables.host.compute_services import ComputeServices
from berth.tables.host.host_columns import HostColumns
from berth.tables.host.memberships import Memberships
from berth.tables.host.named import Identity, NamedHosts
from berth.tables.host.occupants import Occupant, Occupants, Resident
from berth.tables.host.orphans import LocatedResident, Orphans
from berth.tables.host.stock import Stock, UsageSavepoint
from berth.tables.host.trees import Trees

_FIRST_ROWS = 64
_GROWTH = 4
"""A full table grows by one part in so many."""

_SPARE = 16
"""A table that is loaded has room for one more host in so many."""


class HostTable(NamedHosts):
    """Hosts by row. Arrays are views of the first `len(table)` rows; some may be unused.

    Attributes:
        version: the ledger version that the table is true to.
        journal: the rows that have changed, for whoever caches.
        traits, zones: sets a row (traits, availability zones).
        memberships: the aggregates of each host, and what their metadata says.
        strays: instances and providers whose host is not here, kept until it comes.
        trees: the child providers of the hosts that have some.
        membership_epoch: a count of how often a host came or left, which moves everybody's rank.
        caches: what others derive from the table, by who keeps it; it dies with the table.
    """

    def __init__(self) -> None:
        self.version = 0
        self.journal = Journal()
        self.traits = Bitset()
        self.occupants = Occupants()
        self.orphans = Orphans()
        self.server_groups: dict[str, ServerGroup] = {}
        self._columns = HostColumns(_FIRST_ROWS)
        self._stock = Stock(_FIRST_ROWS)
        self._rows = 0
        self._uuids = HostUuids(_FIRST_ROWS)
        self._names = HostNames(_FIRST_ROWS)
        self.memberships = Memberships(self._names.of_name)
        self.zones = self.memberships.zones
        self._services = ComputeServices(self._columns, self._names)
        self._made: dict[int, Host] = {}
        self._called: dict[int, Identity] = {}
        self.trees = Trees(self.journal, self._uuids.row_of)
        self._unused: list[int] = []
        self._ranked = True
        self.membership_epoch = 0
        self.caches: dict[str, object] = {}
        self.traits.resize(_FIRST_ROWS)
        self.memberships.resize(_FIRST_ROWS)

    def __len__(self) -> int:
        """Return the number of rows, unused ones too."""
        return self._rows

    # ---- columns ------------------------------------------------------------------------

    @property
    def rank(self) -> Ints:
        """(N,) place of each host in the order of (name, node); how equal scores are told apart.

        It does not depend on the order in which hosts were added.
        """
        if not self._ranked:
            # Names are mostly told apart by themselves, and quicker to compare.
            key = self._names.name if self._names.are_unique else self.identity
            rows = np.array(sorted(self.alive_rows().tolist(), key=key), dtype=np.intp)
            self._columns.rank[rows] = np.arange(rows.size)
            self._ranked = True
        return self._columns.rank[: len(self)]

    def resource(self, name: str) -> ClassColumns | None:
        """Return the columns of a resource class; None when no host ever had it.

        Its arrays are longer than the table: take `[:len(table)]` or index by rows.
        """
        return self._stock.classes.get(name)

    @property
    def resource_classes(self) -> tuple[str, ...]:
        """The names of all classes that any host has had."""
        return tuple(self._stock.classes)

    def resources(self) -> ItemsView[str, ClassColumns]:
        """Return every class that any host has had, with its columns (see `resource`)."""
        return self._stock.classes.items()

    @property
    def structure(self) -> tuple[int, int, int]:
        """How many classes, child providers and kinds of PCI devices there are in all.

        What rules work out of the table as a whole holds as long as this is the same.
        """
        return len(self._stock.classes), len(self.trees), len(self.pci.kinds)

    # ---- look up ------------------------------------------------------------------------

    @property
    def all_rows(self) -> "slice[int, int, int]":
        """Every row, for rules that look at all of them at once."""
        return slice(0, len(self))

    def alive_rows(self) -> Rows:
        """Return the rows that hold a host, ascending."""
        return np.flatnonzero(self.alive)

    def service(self, name: str) -> Service | None:
        """Return the compute service of a host name."""
        return self._services.get(name)

    @property
    def aggregates(self) -> Mapping[int, Aggregate]:
        """The aggregates by id."""
        return self.memberships.by_id

    def aggregates_of(self, name: str) -> tuple[Aggregate, ...]:
        """Return the aggregates that a host is in, by id."""
        return self.memberships.of_host(name)

    def inventories(self, row: int) -> dict[str, Inventory]:
        """Return the inventories of a row's host by class; `max_unit` is filled in."""
        return self._stock.inventories(row)

    def used(self, row: int) -> dict[str, int]:
        """Return what is used of a row by class, held amounts too, zeros left out."""
        return self._stock.used(row)

    # ---- write: what the ledger says ------------------------------------------------------

    def reserve(self, hosts: int) -> None:
        """Make room for so many hosts and some more, so that adding them moves nothing."""
        rows = hosts + hosts // _SPARE
        if rows > self._columns.rows:
            self._resize(rows)

    def prepare(self) -> None:
        """Do now what the next decision would have to do first: put names and cells in order."""
        _ = self.rank
        self.numa.refresh()

    def put_host(self, host: Host) -> int:
        """Add a host or replace its attributes, and return its row."""
        row = self.row_of(host.uuid)
        if row is None:
            return self._add_host(host)
        is_renamed = not self._names.match(row, host)
        if not is_renamed and self._columns.matches(row, host):
            return row
        self._forget(row)
        self._columns.put_host(row, host)
        if is_renamed:
            self._leave(row)
            self._arrive(row, host)
        else:
            self.journal.record(row, "host")
        return row

    def remove_host(self, host_uuid: str) -> None:
        """Forget a host; one that is not there is no error. What is held there is let go."""
        row = self.row_of(host_uuid)
        if row is None:
            return
        self._uuids.clear(row)
        self._leave(row)
        self.trees.detach_host(host_uuid)
        self.orphans.providers[host_uuid] = self._provider(row, host_uuid)
        self._forget(row)
        self._columns.clear(row)
        self._stock.clear(row)
        self.traits.put(row, ())
        self.memberships.put_row(row, None)
        self._unused.append(row)
        self.journal.record_all(row)

    def put_provider(self, provider: Provider) -> None:
        """Set inventories, traits and usage of a host, or of a child; both may come later."""
        row = self.row_of(provider.uuid)
        if row is None:
            if provider.parent_uuid is None:
                self.trees.remove(provider.uuid)
                self.orphans.providers[provider.uuid] = provider
            else:
                self.orphans.providers.pop(provider.uuid, None)
                self.trees.put(provider)
            return
        self._stock.put(row, provider.inventories, provider.used)
        self.journal.record(row, "used")
        self.traits.put(row, provider.traits)
        self.journal.record(row, "traits")

    def remove_provider(self, provider_uuid: str) -> None:
        """Forget a provider: its host has nothing to give any more."""
        self.orphans.providers.pop(provider_uuid, None)
        self.trees.remove(provider_uuid)
        if self.row_of(provider_uuid) is not None:
            self.put_provider(Provider(provider_uuid, name=""))

    def put_used(self, host_uuid: str, used: Mapping[str, int]) -> None:
        """Set what the ledger says is used of a host or a child; held amounts come on top."""
        row = self.row_of(host_uuid)
        if row is None:
            self.trees.put_used(host_uuid, used)
            located = self.orphans.providers.get(host_uuid)
            if located is not None:
                self.orphans.providers[host_uuid] = replace(located, used=used)
            return
        if self._stock.put_used(row, used):
            self.journal.record(row, "used")

    def put_service(self, service: Service) -> None:
        """Set the state of a compute service; the host may come later."""
        for row in self._services.put(service):
            self.journal.record(row, "service")
            self.journal.record(row, "seen")

    def remove_service(self, name: str) -> None:
        """Forget a compute service: its hosts count as disabled."""
        for row in self._services.remove(name):
            self.journal.record(row, "service")
            self.journal.record(row, "seen")

    def put_seen(self, names: Iterable[str], at_s: float) -> None:
        """Set the time of the last heartbeat of services; unknown ones are ignored."""
        for name in names:
            for row in self._services.see(name, at_s):
                self.journal.record(row, "seen")

    def put_aggregate(self, aggregate: Aggregate) -> None:
        """Add or replace an aggregate."""
        self.journal.record_rows(self.memberships.put(aggregate), "aggregates")

    def remove_aggregate(self, aggregate_id: int) -> None:
        """Forget an aggregate."""
        self.journal.record_rows(self.memberships.remove(aggregate_id), "aggregates")

    def put_instance(self, host_uuid: str, resident: Resident) -> None:
        """Note an instance on a host, wherever it was before; its amounts are told apart."""
        self.remove_instance(resident.uuid)
        row = self.row_of(host_uuid)
        if row is not None:
            self._add_occupant(Occupant(resident, row))

    def add_resident(self, row: int, resident: Resident) -> None:
        """Note an instance that is on no host yet on a row."""
        self._add_occupant(Occupant(resident, row))

    def put_orphan(self, located: LocatedResident) -> None:
        """Note an instance on a host by name, which may come later."""
        self.remove_instance(located.uuid)
        self.orphans.put(located)

    def remove_instance(self, uuid: str) -> None:
        """Note that an instance is on no host any more."""
        self.orphans.remove(uuid)
        self.remove_resident(uuid)

    def remove_resident(self, uuid: str) -> None:
        """Take an instance off its row, if it is on one; see `add_resident`."""
        occupant = self.occupants.remove(uuid)
        if occupant is not None:
            self._columns.num_instances[occupant.row] -= 1
            self._columns.give(occupant.row, occupant.resident.assignment)
            self._columns.num_io_ops[occupant.row] -= occupant.building
            self.journal.record(occupant.row, "instances")

    # ---- write: what this process has decided ---------------------------------------------

    def hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Count amounts as used on top of what the ledger says."""
        self._stock.hold(row, amounts)
        self.journal.record(row, "used")

    def release_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Undo `hold` with equal arguments; what is not held there any more is left alone."""
        self._stock.release_hold(row, amounts)
        self.journal.record(row, "used")

    def try_use(self, row: int, amounts: Mapping[str, int]) -> UsageSavepoint:
        """Count amounts as used for a moment; see `Stock.try_use`."""
        loan = self._stock.try_use(row, amounts)
        self.journal.record(row, "used")
        return loan

    def restore_used(self, row: int, loan: UsageSavepoint) -> None:
        """Undo the last `try_use` of a row."""
        self._stock.restore_used(row, loan)
        self.journal.record(row, "used")

    def confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """End a hold that the ledger has told: it says what is used before the version ends."""
        self._stock.confirm_hold(row, amounts)

    def undo_confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Undo `confirm_hold`, as the ledger said nothing of what is used."""
        self._stock.undo_confirm_hold(row, amounts)
        self.journal.record(row, "used")

    # ---- parts ------------------------------------------------------------------------------

    def _add_host(self, host: Host) -> int:
        row = self._new_row()
        self._uuids.put(row, host.uuid)
        self._columns.put_host(row, host)
        provider = self.trees.remove(host.uuid) or self.orphans.providers.pop(host.uuid, None)
        if provider is not None:
            self.put_provider(provider)
        self.trees.attach_host(host.uuid, row)
        self._arrive(row, host)
        return row

    def _arrive(self, row: int, host: Host) -> None:
        """Give a row all that is known of its host by name."""
        self._columns.put_name_hash(row, host)
        self._services.arrive(row, host.name, host.node)
        self._names.add(row, host)
        self._forget(row)
        self._ranked = False
        self.membership_epoch += 1
        self.memberships.put_row(row, host.name)
        for located in self.orphans.take(host.name, host.node):
            self._add_occupant(Occupant(located.resident, row))
        self.journal.record_all(row)

    def _leave(self, row: int) -> None:
        """Undo `_arrive`: instances stay where the ledger says, on a host by that name."""
        name, node = self.name(row), self.node(row)
        self._services.leave(row)
        self._names.discard(row)
        self._ranked = False
        self.membership_epoch += 1
        for uuid in self.occupants.on_row(row):
            one = self.occupants.by_uuid.get(uuid)
            if one is not None:
                self.put_orphan(LocatedResident(one.resident, name, node))

    def _provider(self, row: int, uuid: str) -> Provider:
        """Return what the ledger has told a row of its provider."""
        self._stock.release_hold(row)
        inventories, used = self._stock.inventories(row), self._stock.used(row)
        return Provider(
            uuid, name="", inventories=inventories, used=used, traits=self.traits.get(row)
        )

    def _add_occupant(self, occupant: Occupant) -> None:
        resident, row = occupant
        self.occupants.put(occupant)
        self._columns.num_instances[row] += 1
        self._columns.take(row, resident.assignment)
        self._columns.num_io_ops[row] += resident.building
        self.journal.record(row, "instances")

    def _new_row(self) -> int:
        if self._unused:
            return self._unused.pop()
        row = self._rows
        if row >= self._columns.rows:
            self._resize(row + row // _GROWTH)
        self._rows += 1
        return row

    def _resize(self, rows: int) -> None:
        parts = (self._columns, self._stock, self._uuids, self._names)
        for part in (*parts, self.traits, self.memberships):
            part.resize(rows)
