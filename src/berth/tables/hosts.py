"""The host table: every host that a decision may choose, as columns.

The table is written by whoever follows the ledger's change feed, on one thread, and read by the
rules. What this process has decided but the ledger has not yet told is *held*: it counts as used
on top of what the ledger says, so that the next decision sees it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from berth.domain.aggregate import Aggregate
from berth.domain.errors import NotFoundError
from berth.domain.host import Host, Service
from berth.domain.provider import Provider
from berth.domain.resources import Inventory
from berth.domain.server_group import ServerGroup
from berth.tables.bitsets import Bitset, Rows
from berth.tables.columns import ClassColumns, HostColumns, Ints
from berth.tables.fixed import FixedColumns
from berth.tables.journal import Journal
from berth.tables.memberships import Memberships
from berth.tables.names import HostNames
from berth.tables.occupants import Occupant, Occupants, Resident
from berth.tables.profiles import Profiles
from berth.tables.stock import Stock
from berth.tables.strays import Stray, Strays
from berth.tables.trees import Trees

_FIRST_ROWS = 64


class HostTable(FixedColumns):
    """Hosts by row. Arrays are views of the first `len(table)` rows; some may be unused.

    Attributes:
        version: the ledger version that the table is true to.
        journal: the rows that have changed, for whoever caches.
        traits, zones: sets a row (traits, availability zones).
        memberships: the aggregates of each host, and what their metadata says.
        strays: instances and providers whose host is not here, kept until it comes.
        trees: the child providers of the hosts that have some.
        roster: a count of how often a host came or left, which moves everybody's rank.
        caches: what others derive from the table, by who keeps it; it dies with the table.
    """

    def __init__(self) -> None:
        self.version = 0
        self.journal = Journal()
        self.traits = Bitset()
        self.zones = Bitset()
        self.memberships = Memberships()
        self.profiles = Profiles()
        self.occupants = Occupants()
        self.strays = Strays()
        self.server_groups: dict[str, ServerGroup] = {}
        self._columns = HostColumns(_FIRST_ROWS)
        self._stock = Stock(_FIRST_ROWS)
        self._hosts: list[Host | None] = []
        self._services: dict[str, Service] = {}
        self._row_of: dict[str, int] = {}
        self.trees = Trees(self.journal, self._row_of)
        self._names = HostNames()
        self._unused: list[int] = []
        self._ranked = True
        self.roster = 0
        self.caches: dict[str, object] = {}
        for sets in (self.traits, self.zones, self.memberships):
            sets.resize(_FIRST_ROWS)

    def __len__(self) -> int:
        """Return the number of rows, unused ones too."""
        return len(self._hosts)

    # ---- columns ------------------------------------------------------------------------

    @property
    def rank(self) -> Ints:
        """(N,) place of each host in the order of (name, node); how equal scores are told apart.

        It does not depend on the order in which hosts were added.
        """
        if not self._ranked:
            rows = np.array(sorted(self._row_of.values(), key=self._identity), dtype=np.intp)
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

    # ---- look up ------------------------------------------------------------------------

    def host(self, row: int) -> Host:
        """Return the host in a row.

        Raises:
            NotFoundError: the row is unused.
        """
        host = self._hosts[row] if 0 <= row < len(self._hosts) else None
        if host is None:
            raise NotFoundError("host row", str(row))
        return host

    def names(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the host names of rows."""
        return tuple(self.host(int(row)).name for row in rows)

    def row_of(self, host_uuid: str) -> int | None:
        """Return the row of a host, by its uuid."""
        return self._row_of.get(host_uuid)

    def rows_of_name(self, name: str) -> frozenset[int]:
        """Return the rows of a service host, by its exact name."""
        return self._names.of_name(name)

    def rows_of_folded_name(self, folded: str) -> frozenset[int]:
        """Return the rows of every service host whose name, case folded, is `folded`."""
        return self._names.of_folded_name(folded)

    def rows_of_node(self, node: str) -> frozenset[int]:
        """Return the rows of a node, by its exact name."""
        return self._names.of_node(node)

    def find(self, name: str, node: str | None) -> str | None:
        """Return the uuid of the host with that name and node (None: its first), or None."""
        found = sorted(self._identity(row) for row in self._names.of_name(name))
        return next((uuid for _, mine, uuid in found if node in (None, mine)), None)

    @property
    def everyone(self) -> "slice[int, int, int]":
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
        return self.memberships.of(name)

    def inventories(self, row: int) -> dict[str, Inventory]:
        """Return the inventories of a row's host by class; `max_unit` is filled in."""
        return self._stock.inventories(row)

    def used(self, row: int) -> dict[str, int]:
        """Return what is used of a row by class, held amounts too, zeros left out."""
        return self._stock.used(row)

    # ---- write: what the ledger says ------------------------------------------------------

    def put_host(self, host: Host) -> int:
        """Add a host or replace its attributes, and return its row."""
        row = self._row_of.get(host.uuid)
        if row is None:
            return self._add_host(host)
        old = self.host(row)
        if old == host:
            return row
        self.profiles.release(int(self._columns.profile[row]))
        self._columns.put_host(row, host, self.profiles.number(host))
        if (old.name, old.node) == (host.name, host.node):
            self._hosts[row] = host
            self.journal.note(row, "host")
        else:
            self._leave(row, old)
            self._hosts[row] = host
            self._arrive(row, host)
        return row

    def remove_host(self, host_uuid: str) -> None:
        """Forget a host; one that is not there is no error. What is held there is let go."""
        row = self._row_of.pop(host_uuid, None)
        if row is None:
            return
        self._leave(row, self.host(row))
        self.trees.leave(host_uuid)
        self.strays.providers[host_uuid] = self._provider(row, host_uuid)
        self.profiles.release(int(self._columns.profile[row]))
        self._hosts[row] = None
        self._columns.clear(row)
        self._stock.clear(row)
        for bitset in (self.traits, self.zones):
            bitset.put(row, ())
        self.memberships.put_row(row, None)
        self._unused.append(row)
        self.journal.note_all(row)

    def put_provider(self, provider: Provider) -> None:
        """Set inventories, traits and usage of a host, or of a child; both may come later."""
        row = self._row_of.get(provider.uuid)
        if row is None:
            if provider.parent_uuid is None:
                self.trees.remove(provider.uuid)
                self.strays.providers[provider.uuid] = provider
            else:
                self.strays.providers.pop(provider.uuid, None)
                self.trees.put(provider)
            return
        self._stock.put(row, provider.inventories, provider.used)
        self.journal.note(row, "used")
        self.traits.put(row, provider.traits)
        self.journal.note(row, "traits")

    def remove_provider(self, provider_uuid: str) -> None:
        """Forget a provider: its host has nothing to give any more."""
        self.strays.providers.pop(provider_uuid, None)
        self.trees.remove(provider_uuid)
        if provider_uuid in self._row_of:
            self.put_provider(Provider(provider_uuid, name=""))

    def put_used(self, host_uuid: str, used: Mapping[str, int]) -> None:
        """Set what the ledger says is used of a host or a child; held amounts come on top."""
        row = self._row_of.get(host_uuid)
        if row is None:
            self.trees.put_used(host_uuid, used)
            stray = self.strays.providers.get(host_uuid)
            if stray is not None:
                self.strays.providers[host_uuid] = replace(stray, used=used)
            return
        if self._stock.put_used(row, used):
            self.journal.note(row, "used")

    def put_service(self, service: Service) -> None:
        """Set the state of a compute service; the host may come later."""
        self._services[service.host] = service
        for row in self._names.of_name(service.host):
            self._columns.put_service(row, service)
            self.journal.note(row, "service")
            self.journal.note(row, "seen")

    def remove_service(self, name: str) -> None:
        """Forget a compute service: its hosts count as disabled."""
        self._services.pop(name, None)
        for row in self._names.of_name(name):
            self._columns.put_service(row, None)
            self.journal.note(row, "service")
            self.journal.note(row, "seen")

    def put_seen(self, names: Iterable[str], at_s: float) -> None:
        """Set the time of the last heartbeat of services; unknown ones are ignored."""
        for name in names:
            service = self._services.get(name)
            if service is None:
                continue
            self._services[name] = replace(service, last_seen_s=at_s)
            for row in self._names.of_name(name):
                self._columns.last_seen_s[row] = at_s
                self.journal.note(row, "seen")

    def put_aggregate(self, aggregate: Aggregate) -> None:
        """Add or replace an aggregate."""
        for name in self.memberships.put(aggregate):
            self._apply_aggregates(name)

    def remove_aggregate(self, aggregate_id: int) -> None:
        """Forget an aggregate."""
        for name in self.memberships.remove(aggregate_id):
            self._apply_aggregates(name)

    def put_instance(self, host_uuid: str, resident: Resident) -> None:
        """Note an instance on a host, wherever it was before; its amounts are told apart."""
        self.remove_instance(resident.uuid)
        row = self._row_of.get(host_uuid)
        if row is not None:
            self._add_occupant(Occupant(resident, row))

    def put_stray(self, stray: Stray) -> None:
        """Note an instance on a host by name, which may come later."""
        self.remove_instance(stray.uuid)
        self.strays.put(stray)

    def remove_instance(self, uuid: str) -> None:
        """Note that an instance is on no host any more."""
        self.strays.remove(uuid)
        occupant = self.occupants.remove(uuid)
        if occupant is not None:
            self._columns.num_instances[occupant.row] -= 1
            self._columns.give(occupant.row, occupant.resident.assignment)
            self._columns.num_io_ops[occupant.row] -= occupant.building
            self.journal.note(occupant.row, "instances")

    # ---- write: what this process has decided ---------------------------------------------

    def hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Count amounts as used on top of what the ledger says."""
        self._stock.hold(row, amounts)
        self.journal.note(row, "used")

    def unhold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Undo `hold` with equal arguments; what is not held there any more is left alone."""
        self._stock.unhold(row, amounts)
        self.journal.note(row, "used")

    def hand_over(self, row: int, amounts: Mapping[str, int]) -> None:
        """End a hold that the ledger has told: it says what is used before the version ends."""
        self._stock.hand_over(row, amounts)

    def take_back(self, row: int, amounts: Mapping[str, int]) -> None:
        """Undo `hand_over`, as the ledger said nothing of what is used."""
        self._stock.take_back(row, amounts)
        self.journal.note(row, "used")

    # ---- parts ------------------------------------------------------------------------------

    def _identity(self, row: int) -> tuple[str, str, str]:
        host = self.host(row)
        return host.name, host.node, host.uuid

    def _add_host(self, host: Host) -> int:
        profile = self.profiles.number(host)
        row = self._new_row()
        self._row_of[host.uuid] = row
        self._hosts[row] = host
        self._columns.put_host(row, host, profile)
        self._columns.alive[row] = True
        provider = self.trees.remove(host.uuid) or self.strays.providers.pop(host.uuid, None)
        if provider is not None:
            self.put_provider(provider)
        self.trees.arrive(host.uuid, row)
        self._arrive(row, host)
        return row

    def _arrive(self, row: int, host: Host) -> None:
        """Give a row all that is known of its host by name."""
        self._names.add(row, host)
        self._ranked = False
        self.roster += 1
        self._columns.put_service(row, self._services.get(host.name))
        self._apply_aggregates(host.name)
        for stray in self.strays.take(host.name, host.node):
            self._add_occupant(Occupant(stray.resident, row))
        self.journal.note_all(row)

    def _leave(self, row: int, host: Host) -> None:
        """Undo `_arrive`: instances stay where the ledger says, on a host by that name."""
        self._names.discard(row, host)
        self._ranked = False
        self.roster += 1
        for uuid in self.occupants.on_row(row):
            one = self.occupants.get(uuid)
            if one is not None:
                self.put_stray(Stray(one.resident, host.name, host.node))

    def _provider(self, row: int, uuid: str) -> Provider:
        """Return what the ledger has told a row of its provider."""
        self._stock.unhold(row)
        inventories, used = self._stock.inventories(row), self._stock.used(row)
        return Provider(
            uuid, name="", inventories=inventories, used=used, traits=self.traits.get(row)
        )

    def _add_occupant(self, occupant: Occupant) -> None:
        self.occupants.put(occupant)
        self._columns.num_instances[occupant.row] += 1
        self._columns.take(occupant.row, occupant.resident.assignment)
        self._columns.num_io_ops[occupant.row] += occupant.building
        self.journal.note(occupant.row, "instances")

    def _new_row(self) -> int:
        if self._unused:
            return self._unused.pop()
        row = len(self._hosts)
        if row >= self._columns.rows:
            rows = self._columns.rows * 2
            self._columns.resize(rows)
            self._stock.resize(rows)
            for sets in (self.traits, self.zones, self.memberships):
                sets.resize(rows)
        self._hosts.append(None)
        return row

    def _apply_aggregates(self, name: str) -> None:
        zones = self.memberships.zones_of(name)
        for row in self._names.of_name(name):
            self.memberships.put_row(row, name)
            self.zones.put(row, zones)
            self.journal.note(row, "aggregates")
