"""The host table: all hosts as columns, for the rules of the scheduler."""

import warnings
from collections.abc import ItemsView, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.addresses import Addresses
from berth.tables.columnar.bitsets import Bitset, Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import ClassColumns, Floats, Ints, SmallFloats, SmallInts
from berth.tables.columnar.derived import DerivedInts
from berth.tables.columnar.host_names import HostNames
from berth.tables.columnar.journal import Journal
from berth.tables.columnar.uuids import HostUuids
from berth.tables.host.attestations import Attestations
from berth.tables.host.compute_services import ComputeServices
from berth.tables.host.host_columns import HostColumns
from berth.tables.host.host_metrics import HostMetrics
from berth.tables.host.memberships import Memberships
from berth.tables.host.numa import NumaCells
from berth.tables.host.occupants import Occupant, Occupants, Resident
from berth.tables.host.orphans import LocatedResident, Orphans
from berth.tables.host.pci import PciDevices
from berth.tables.host.profiles import Profiles
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes
from berth.tables.host.stock import Stock, UsageSavepoint
from berth.tables.host.trees import Trees

Identity: TypeAlias = tuple[str, str, str]
"""Name, node and uuid of a host, by which hosts are sorted."""

_FIRST_ROWS: Final = 64

# A full table grows by 1/4 of its rows. Doubling would leave up to half of a large fleet's columns
# unused (ADR 12).
_GROWTH: Final = 4

# A table loaded from a snapshot has spare rows for 1/16 more hosts.
_SPARE: Final = 16

# Maximum numbers of cached records and identities; decisions read those of their best hosts.
_HOSTS_CACHED_MAX: Final = 512
_IDENTITIES_CACHED_MAX: Final = 1_024


class HostTable:
    """All hosts of a fleet, one per row.

    Array properties are views of the first `len(table)` rows; some of these rows may be unused.
    The follower of the ledger's change feed writes the table, and the rules read it, on the same
    thread.

    The columns of used amounts hold the amounts that the ledger reports plus those on *hold*: the
    amounts that this process has claimed or offered and the feed has not yet confirmed. The next
    decision of this process therefore sees the room that is left.

    Attributes:
        version: the ledger version that the table reflects.
        journal: the changed rows, for caches derived from the table.
        traits: the set of traits of each row.
        held_by_row: the amounts on hold by row and class; rows without a hold are missing.
        zones: the set of availability zones of each row.
        services: the compute services by host name.
        host_names: the service host name and node of each row, and the rows of each name and node.
        memberships: the aggregates of each host, and their metadata.
        occupants: the instances on each host.
        residents: the attributes of these instances: project, user, metadata and so on.
        server_groups: the server groups by uuid.
        orphans: instances and providers whose host is not in the table.
        trees: the child providers of hosts.
        membership_epoch: the number of times that a host was added, removed or renamed, which
            changes the ranks of other hosts.
        caches: values that other modules derive from the table; they are discarded with it.
    """

    def __init__(self) -> None:
        self.version = 0
        self.journal = Journal()
        self.traits = Bitset()
        self.occupants = Occupants()
        self.residents = self.occupants.columns
        self.orphans = Orphans()
        self.server_groups: dict[str, ServerGroup] = {}
        self._columns = HostColumns(_FIRST_ROWS)
        self._stock = Stock(_FIRST_ROWS)
        self.held_by_row = self._stock.held_by_row
        self._rows = 0
        self._uuids = HostUuids(_FIRST_ROWS)
        self.host_names = HostNames(_FIRST_ROWS)
        self.memberships = Memberships(self.host_names.of_name)
        self.zones = self.memberships.zones
        self.services = ComputeServices(self._columns, self.host_names)
        self._hosts_cached: dict[int, Host] = {}
        self._identities_cached: dict[int, Identity] = {}
        self.trees = Trees(self.journal, self._uuids.row_of)
        self._unused: list[int] = []
        self._is_ranked = True
        self.membership_epoch = 0
        self.caches: dict[str, object] = {}
        self.traits.resize(_FIRST_ROWS)
        self.memberships.resize(_FIRST_ROWS)

    def __len__(self) -> int:
        """Return the number of rows, including unused ones."""
        return self._rows

    # ---- columns of the host ----------------------------------------------------------------

    @property
    def alive(self) -> Mask:
        """(N,) bool: the row holds a host."""
        return self._columns.alive[: self._rows]

    @property
    def profile(self) -> SmallInts:
        """(N,) id of the host's profile: its index in `profiles.all`."""
        return self._columns.profile[: self._rows]

    @property
    def profiles(self) -> Profiles:
        """The host attributes that many hosts share, each distinct combination stored once."""
        return self._columns.profiles

    @property
    def hypervisor_version(self) -> DerivedInts:
        """(N,) hypervisor version as an integer; 0 if unknown."""
        return self._columns.hypervisor_version

    @property
    def cell(self) -> SmallInts:
        """(N,) id of the host's cell, 0 for none, in order of first appearance; see `in_cell`."""
        return self._columns.cell[: self._rows]

    @property
    def has_cells(self) -> bool:
        """Whether any host has ever reported a cell (`Host.cell`)."""
        return self._columns.has_cells

    def in_cell(self, cell: str, rows: Selection) -> Mask:
        """Return, for each row, whether its host is in the named cell."""
        return self._columns.in_cell(cell, rows, count_of(rows))

    @property
    def ratios(self) -> SmallInts:
        """(N,) id of the allocation ratios in the host's record; equal ids mean equal ratios."""
        return self._columns.ratios[: self._rows]

    @property
    def rank(self) -> Ints:
        """(N,) position of each host in the order of (name, node), which breaks ties of scores.

        It does not depend on the order in which hosts were added.
        """
        # Ranks are computed when they are read, because sorting a large fleet is slow and hosts are
        # added in bursts.
        if not self._is_ranked:
            # Most fleets have unique names, which are compared faster than identities.
            key = self.host_names.name if self.host_names.are_unique else self.identity
            rows = np.array(sorted(self.alive_rows().tolist(), key=key), dtype=np.intp)
            self._columns.rank[rows] = np.arange(rows.size)
            self._is_ranked = True
        return self._columns.rank[: self._rows]

    @property
    def name_hash(self) -> Floats:
        """(N,) name hash in [0, 1), a stable order unrelated to the order of names."""
        return self._columns.name_hash[: self._rows]

    @property
    def lot(self) -> Floats:
        """Deprecated: use `name_hash`."""
        _warn_deprecated("lot", "HostTable.name_hash")
        return self.name_hash

    @property
    def num_instances(self) -> SmallInts:
        """(N,) number of instances on the host, including those on hold."""
        return self._columns.num_instances[: self._rows]

    @property
    def num_io_ops(self) -> SmallInts:
        """(N,) instances whose task puts load on the host's disks (nova-behaviour.md 5.3)."""
        return self._columns.num_io_ops[: self._rows]

    @property
    def numa(self) -> NumaCells:
        """The NUMA cells of the hosts, and their free resources."""
        return self._columns.numa

    @property
    def pci(self) -> PciDevices:
        """The PCI devices of the hosts, and the free ones among them."""
        return self._columns.pci

    @property
    def metrics(self) -> HostMetrics:
        """The metrics that the hosts report."""
        return self._columns.metrics

    @property
    def addresses(self) -> Addresses:
        """The IP addresses of the hosts."""
        return self._columns.addresses

    # ---- columns of the compute service -----------------------------------------------------

    @property
    def is_served(self) -> Mask:
        """(N,) bool: the host has a compute service."""
        return self._columns.is_served[: self._rows]

    @property
    def enabled(self) -> Mask:
        """(N,) bool: the host has a compute service that is not disabled."""
        return self._columns.enabled[: self._rows]

    @property
    def forced_down(self) -> Mask:
        """(N,) bool: an operator has forced the compute service down."""
        return self._columns.forced_down[: self._rows]

    @property
    def last_seen_s(self) -> Floats:
        """(N,) Unix seconds of the last heartbeat; 0 before the first."""
        return self._columns.last_seen_s[: self._rows]

    @property
    def created_at_s(self) -> Floats:
        """(N,) Unix seconds when the compute service was created; 0 if unknown."""
        return self._columns.created_at_s[: self._rows]

    @property
    def failed_builds(self) -> Ints:
        """(N,) failed builds of the host's compute service since the last successful one."""
        return self._columns.failed_builds[: self._rows]

    @property
    def failed_at_s(self) -> Floats:
        """(N,) Unix seconds of the newest failed build; 0 if there was none."""
        return self._columns.failed_at_s[: self._rows]

    @property
    def failure_level(self) -> SmallFloats:
        """(N,) failure level of the host when it was last computed, at least 0."""
        return self._columns.failure_level[: self._rows]

    @property
    def attestations(self) -> Attestations:
        """The trust levels of the hosts, from the attestation service."""
        return self._columns.attestations

    # ---- columns by resource class ----------------------------------------------------------

    def resource(self, name: str) -> ClassColumns | None:
        """Return the columns of a resource class, or None if no host ever had the class.

        The arrays may be longer than the table: take `[:len(table)]` or index them by rows.
        """
        return self._stock.classes.get(name)

    @property
    def resource_classes(self) -> tuple[str, ...]:
        """The names of all classes that any host has had."""
        return tuple(self._stock.classes)

    def resources(self) -> ItemsView[str, ClassColumns]:
        """Return (class, columns) for all classes that any host has had; see `resource`."""
        return self._stock.classes.items()

    def inventories(self, row: int) -> dict[str, Inventory]:
        """Return the inventories of a row's host by class; a `max_unit` of 0 becomes the total."""
        return self._stock.inventories(row)

    def used(self, row: int) -> dict[str, int]:
        """Return the used amounts of a row by class, including holds and without zeros."""
        return self._stock.used(row)

    @property
    def structure(self) -> tuple[int, int, int]:
        """The numbers of resource classes, of child providers and of kinds of PCI devices.

        Readers that rules bind to the whole table remain valid until one of these changes.
        """
        return len(self._stock.classes), len(self.trees), len(self.pci.kinds)

    # ---- look-ups ---------------------------------------------------------------------------

    @property
    def all_rows(self) -> "slice[int, int, int]":
        """A selection of all rows, for rules that evaluate the whole table."""
        return slice(0, self._rows)

    @property
    def everyone(self) -> "slice[int, int, int]":
        """Deprecated: use `all_rows`."""
        _warn_deprecated("everyone", "HostTable.all_rows")
        return self.all_rows

    @property
    def strays(self) -> Orphans:
        """Deprecated: use `orphans`."""
        _warn_deprecated("strays", "HostTable.orphans")
        return self.orphans

    def rows_of_name(self, name: str) -> frozenset[int]:
        """Deprecated: use `host_names.of_name`."""
        _warn_deprecated("rows_of_name", "HostTable.host_names.of_name")
        return self.host_names.of_name(name)

    def rows_of_folded_name(self, folded: str) -> frozenset[int]:
        """Deprecated: use `host_names.of_folded_name`."""
        _warn_deprecated("rows_of_folded_name", "HostTable.host_names.of_folded_name")
        return self.host_names.of_folded_name(folded)

    def rows_of_node(self, node: str) -> frozenset[int]:
        """Deprecated: use `host_names.of_node`."""
        _warn_deprecated("rows_of_node", "HostTable.host_names.of_node")
        return self.host_names.of_node(node)

    def service(self, name: str) -> Service | None:
        """Deprecated: use `services.get`."""
        _warn_deprecated("service", "HostTable.services.get")
        return self.services.get(name)

    def cell_name(self, row: int) -> str:
        """Deprecated: use `cell`, the id of the cell, or `host(row).cell`."""
        _warn_deprecated("cell_name", "HostTable.cell or Host.cell")
        return self.host(row).cell

    def alive_rows(self) -> Rows:
        """Return the rows that hold a host, ascending."""
        return np.flatnonzero(self.alive)

    def host(self, row: int) -> Host:
        """Return the host in a row.

        The record is built from the columns, which takes some microseconds. A caller that needs one
        attribute should read only that (`uuid`, `name`, `node`, or a column).

        Raises:
            NotFoundError: the row is unused.
        """
        host = self._hosts_cached.get(row)
        if host is not None:
            return host
        name, node, uuid = self.identity(row)
        host = self._columns.host(row, uuid, name, node)
        if len(self._hosts_cached) >= _HOSTS_CACHED_MAX:
            self._hosts_cached.clear()
        self._hosts_cached[row] = host
        return host

    def identity(self, row: int) -> Identity:
        """Return the name, node and uuid of the host in a row; hosts are sorted by this tuple.

        Raises:
            NotFoundError: the row is unused.
        """
        identity = self._identities_cached.get(row)
        if identity is None:
            if not 0 <= row < self._rows or not self._columns.alive.item(row):
                raise NotFoundError("host row", str(row))
            name, node = self.host_names.name(row), self.host_names.other_node(row)
            identity = name, name if node is None else node, self._uuids.get(row)
            if len(self._identities_cached) >= _IDENTITIES_CACHED_MAX:
                self._identities_cached.clear()
            self._identities_cached[row] = identity
        return identity

    def uuid(self, row: int) -> str:
        """Return the uuid of a row's host; see `identity`."""
        return self.identity(row)[2]

    def name(self, row: int) -> str:
        """Return the name of a row's host; see `identity`."""
        return self.identity(row)[0]

    def node(self, row: int) -> str:
        """Return the node of a row's host; see `identity`."""
        return self.identity(row)[1]

    def names(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the host names of the given rows."""
        return tuple(self.name(int(row)) for row in rows)

    def row_of(self, host_uuid: str) -> int | None:
        """Return the row of a host by its uuid, or None if the table does not have the host."""
        return self._uuids.row_of(host_uuid)

    def find(self, name: str, node: str | None) -> str | None:
        """Return the uuid of the host with the given name and node, or None if there is none.

        Args:
            name: the name of the service host.
            node: the node, or None for the first node of the service host in ascending order.
        """
        row = self.host_names.only_row(name)
        if row is not None:
            _, mine, uuid = self.identity(row)
            return uuid if node in (None, mine) else None
        found = sorted(map(self.identity, self.host_names.of_name(name)))
        return next((uuid for _, mine, uuid in found if node in (None, mine)), None)

    @property
    def aggregates(self) -> Mapping[int, Aggregate]:
        """The aggregates by id."""
        return self.memberships.by_id

    # ---- write: capacity --------------------------------------------------------------------

    def reserve(self, hosts: int) -> None:
        """Allocate rows for a number of hosts and some spare ones, to avoid copies later."""
        rows = hosts + hosts // _SPARE
        if rows > self._columns.rows:
            self._resize(rows)

    def prepare(self) -> None:
        """Compute ranks and NUMA columns now, so that the first decision need not do it."""
        _ = self.rank
        self.numa.refresh()

    # ---- write: events of the ledger --------------------------------------------------------

    def put_host(self, host: Host) -> int:
        """Add a host or replace its attributes, and return its row."""
        row = self.row_of(host.uuid)
        if row is None:
            return self._add_host(host)
        is_renamed = not self.host_names.match(row, host)
        # Agents report unchanged hosts periodically. A journal entry would make every cache
        # evaluate the row again without need.
        if not is_renamed and self._columns.matches(row, host):
            return row
        self._forget(row)
        self._columns.put_host(row, host)
        if is_renamed:
            self._detach_name(row)
            self._attach_name(row, host)
        else:
            self.journal.record(row, "host")
        return row

    def remove_host(self, host_uuid: str) -> None:
        """Remove a host and its holds; an unknown uuid is ignored.

        The instances and the provider of the host become orphans: they still exist in the ledger,
        and the host may be added again.
        """
        row = self.row_of(host_uuid)
        if row is None:
            return
        self._uuids.clear(row)
        self._detach_name(row)
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
        """Set inventories, traits and used amounts of a host or child provider.

        The feed may deliver a provider before its host or its parent. A root provider whose host is
        not in the table becomes an orphan.
        """
        row = self.row_of(provider.uuid)
        if row is None:
            if provider.parent_uuid is None:
                # The provider may have been a child before.
                self.trees.remove(provider.uuid)
                self.orphans.providers[provider.uuid] = provider
            else:
                # The provider may have been a root without a host before.
                self.orphans.providers.pop(provider.uuid, None)
                self.trees.put(provider)
            return
        self._stock.put(row, provider.inventories, provider.used)
        self.journal.record(row, "used")
        self.traits.put(row, provider.traits)
        self.journal.record(row, "traits")

    def remove_provider(self, provider_uuid: str) -> None:
        """Remove a provider; a host whose provider is removed has no inventory afterwards."""
        self.orphans.providers.pop(provider_uuid, None)
        self.trees.remove(provider_uuid)
        if self.row_of(provider_uuid) is not None:
            # The host stays in the table, because the ledger stores it as a separate record.
            self.put_provider(Provider(provider_uuid, name=""))

    def put_used(self, host_uuid: str, used: Mapping[str, int]) -> None:
        """Set the used amounts that the ledger reports for a host or child; holds are added.

        An unknown uuid is ignored.
        """
        row = self.row_of(host_uuid)
        if row is None:
            self.trees.put_used(host_uuid, used)
            if (orphan := self.orphans.providers.get(host_uuid)) is not None:
                self.orphans.providers[host_uuid] = replace(orphan, used=used)
            return
        # An event that only confirms a hold leaves the sum unchanged and needs no journal entry.
        if self._stock.put_used(row, used):
            self.journal.record(row, "used")

    def put_used_of(self, used: Mapping[str, Mapping[str, int]]) -> None:
        """Do the same as `put_used` for several hosts and children, by uuid."""
        rows = {uuid: self.row_of(uuid) for uuid in used}
        for uuid, row in rows.items():
            if row is None:
                self.put_used(uuid, used[uuid])
        known = {row: used[uuid] for uuid, row in rows.items() if row is not None}
        self.journal.record_rows(self._stock.put_used_of(known), "used")

    def put_service(self, service: Service) -> None:
        """Set the state of a compute service; its hosts may be added later."""
        # The row changes in both groups, because a service record also contains the last heartbeat.
        for row in self.services.put(service):
            self.journal.record(row, "service")
            self.journal.record(row, "seen")

    def remove_service(self, name: str) -> None:
        """Remove a compute service; its hosts count as disabled."""
        for row in self.services.remove(name):
            self.journal.record(row, "service")
            self.journal.record(row, "seen")

    def put_seen(self, names: Iterable[str], at_s: float) -> None:
        """Set the last heartbeat of services, in Unix seconds; unknown services are ignored."""
        for name in names:
            for row in self.services.put_seen(name, at_s):
                self.journal.record(row, "seen")

    def put_aggregate(self, aggregate: Aggregate) -> None:
        """Add or replace an aggregate."""
        self.journal.record_rows(self.memberships.put(aggregate), "aggregates")

    def remove_aggregate(self, aggregate_id: int) -> None:
        """Remove an aggregate; an unknown id is ignored."""
        self.journal.record_rows(self.memberships.remove(aggregate_id), "aggregates")

    def put_instance(
        self, host_uuid: str, resident: Resident, attributes: Attributes = NO_ATTRIBUTES
    ) -> None:
        """Move an instance to a host; if the host is not in the table, only remove the instance.

        The amounts that the instance uses are not counted, because the ledger reports them by
        provider.
        """
        self.remove_instance(resident.uuid)
        row = self.row_of(host_uuid)
        if row is not None:
            self.add_resident(row, resident, attributes)

    def put_orphan(self, located: LocatedResident) -> None:
        """Record an instance whose host is not in the table, until that host is added."""
        self.remove_instance(located.uuid)
        self.orphans.put(located)

    def remove_instance(self, uuid: str) -> None:
        """Remove an instance from its host or from the orphans; an unknown uuid is ignored."""
        self.orphans.remove(uuid)
        self.remove_resident(uuid)

    # ---- write: decisions of this process ---------------------------------------------------

    def add_resident(self, row: int, resident: Resident, attributes: Attributes) -> None:
        """Put an instance on a row; it must not be on any row yet."""
        self.occupants.put(Occupant(resident, row), attributes)
        self._columns.num_instances[row] += resident.counts
        self._columns.take(row, resident.assignment)
        self._columns.num_io_ops[row] += resident.building
        self.journal.record(row, "instances")

    def remove_resident(self, uuid: str) -> None:
        """Remove an instance from its row, if it is on one."""
        occupant = self.occupants.remove(uuid)
        if occupant is not None:
            self._columns.num_instances[occupant.row] -= occupant.resident.counts
            self._columns.release(occupant.row, occupant.resident.assignment)
            self._columns.num_io_ops[occupant.row] -= occupant.building
            self.journal.record(occupant.row, "instances")

    def hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Count amounts as used in addition to those that the ledger reports."""
        self._stock.hold(row, amounts)
        self.journal.record(row, "used")

    def release_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Undo one `hold` with equal arguments; amounts that are not on hold are ignored."""
        self._stock.release_hold(row, amounts)
        self.journal.record(row, "used")

    def try_use(self, row: int, amounts: Mapping[str, int]) -> UsageSavepoint:
        """Count amounts as used during one decision; see `Stock.try_use`."""
        savepoint = self._stock.try_use(row, amounts)
        self.journal.record(row, "used")
        return savepoint

    def restore_used(self, row: int, savepoint: UsageSavepoint) -> None:
        """Undo the last `try_use` of a row."""
        self._stock.restore_used(row, savepoint)
        self.journal.record(row, "used")

    def confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """End a hold whose claim the feed has delivered.

        The used amounts stay as they are and the journal gets no entry, because the usage event of
        the same ledger version sets the same sum.
        """
        self._stock.confirm_hold(row, amounts)

    def undo_confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Subtract the amounts of a `confirm_hold` whose version had no usage event."""
        self._stock.undo_confirm_hold(row, amounts)
        self.journal.record(row, "used")

    def _add_host(self, host: Host) -> int:
        row = self._new_row()
        self._uuids.put(row, host.uuid)
        self._columns.put_host(row, host)
        # The feed may have delivered the provider first, as a root or as a child of an unknown one.
        provider = self.trees.remove(host.uuid) or self.orphans.providers.pop(host.uuid, None)
        if provider is not None:
            self.put_provider(provider)
        self.trees.attach_host(host.uuid, row)
        self._attach_name(row, host)
        return row

    def _attach_name(self, row: int, host: Host) -> None:
        """Set the data of a row that is stored by host name: service, aggregates and instances."""
        self._columns.put_name_hash(row, host)
        # `attach_row` must run before the row has its name, because it may read the service from
        # another row with that name.
        self.services.attach_row(row, host.name, host.node)
        self.host_names.add(row, host)
        self._forget(row)
        self._is_ranked = False
        self.membership_epoch += 1
        self.memberships.put_row(row, host.name)
        for located in self.orphans.take(host.name, host.node):
            self.add_resident(row, located.resident, located.attributes)
        self.journal.record_all(row)

    def _detach_name(self, row: int) -> None:
        """Undo `_attach_name`; the instances of the row become orphans under its name and node."""
        name, node = self.name(row), self.node(row)
        self.services.detach_row(row)
        self.host_names.discard(row)
        self._is_ranked = False
        self.membership_epoch += 1
        for uuid in self.occupants.on_row(row):
            resident = self.occupants.by_uuid[uuid].resident
            attributes = self.occupants.attributes(uuid)
            self.put_orphan(LocatedResident(resident, name, node, attributes))

    def _provider(self, row: int, uuid: str) -> Provider:
        """Release the holds of a row, and return its provider as the ledger reports it."""
        self._stock.release_hold(row)
        inventories, used = self._stock.inventories(row), self._stock.used(row)
        return Provider(
            uuid, name="", inventories=inventories, used=used, traits=self.traits.get(row)
        )

    def _forget(self, row: int) -> None:
        """Drop the cached record and identity of a row that is about to change."""
        self._hosts_cached.pop(row, None)
        self._identities_cached.pop(row, None)

    def _new_row(self) -> int:
        if self._unused:
            return self._unused.pop()
        row = self._rows
        if row >= self._columns.rows:
            self._resize(row + row // _GROWTH)
        self._rows += 1
        return row

    def _resize(self, rows: int) -> None:
        parts = (self._columns, self._stock, self._uuids, self.host_names)
        for part in (*parts, self.traits, self.memberships):
            part.resize(rows)


def _warn_deprecated(former: str, present: str) -> None:
    """Warn the caller of a deprecated member of `HostTable`."""
    warnings.warn(
        f"HostTable.{former} is deprecated; use {present}", DeprecationWarning, stacklevel=3
    )
