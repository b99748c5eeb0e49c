"""Fixed columns: what the table knows of every host, cut to the rows that it has."""

from berth.tables.columnar.addresses import Addresses
from berth.tables.columnar.bitsets import Mask, Selection, count_of
from berth.tables.columnar.class_columns import Floats, Ints, SmallFloats, SmallInts
from berth.tables.columnar.derived import DerivedInts
from berth.tables.host.attestations import Attestations
from berth.tables.host.host_columns import HostColumns
from berth.tables.host.host_metrics import Metrics
from berth.tables.host.numa import NumaCells
from berth.tables.host.pci import PciDevices
from berth.tables.host.profiles import Profiles


class FixedColumns:
    """Views of the first `len(table)` rows of each fixed column; some rows may be unused."""

    _columns: HostColumns

    def __len__(self) -> int:
        """Return the number of rows, unused ones too."""
        raise NotImplementedError

    @property
    def alive(self) -> Mask:
        """(N,) bool: the row holds a host."""
        return self._columns.alive[: len(self)]

    @property
    def enabled(self) -> Mask:
        """(N,) bool: the compute service is not disabled."""
        return self._columns.enabled[: len(self)]

    @property
    def forced_down(self) -> Mask:
        """(N,) bool: an operator forced the service down."""
        return self._columns.forced_down[: len(self)]

    @property
    def last_seen_s(self) -> Floats:
        """(N,) Unix seconds of the last heartbeat; 0 when there was none."""
        return self._columns.last_seen_s[: len(self)]

    @property
    def failed_builds(self) -> Ints:
        """(N,) builds that failed since the last one that succeeded, by the host's service."""
        return self._columns.failed_builds[: len(self)]

    @property
    def failed_at_s(self) -> Floats:
        """(N,) Unix seconds of the newest failed build; 0 when there was none."""
        return self._columns.failed_at_s[: len(self)]

    @property
    def failure_level(self) -> SmallFloats:
        """(N,) how much failed builds speak against the host, as its agent has put it; >= 0."""
        return self._columns.failure_level[: len(self)]

    @property
    def profile(self) -> SmallInts:
        """(N,) index into `profiles.all`."""
        return self._columns.profile[: len(self)]

    @property
    def hypervisor_version(self) -> DerivedInts:
        """(N,) version of the hypervisor as a number; 0 when it is unknown."""
        return self._columns.hypervisor_version

    @property
    def cell(self) -> SmallInts:
        """(N,) number of the host's cell, as they came; ask `in_cell` for one by its name."""
        return self._columns.cell[: len(self)]

    @property
    def is_served(self) -> Mask:
        """(N,) bool: there is a compute service."""
        return self._columns.is_served[: len(self)]

    @property
    def created_at_s(self) -> Floats:
        """(N,) Unix seconds when the compute service was made; 0 when it is unknown."""
        return self._columns.created_at_s[: len(self)]

    @property
    def ratios(self) -> SmallInts:
        """(N,) number of the host's own allocation ratios, as they came."""
        return self._columns.ratios[: len(self)]

    @property
    def profiles(self) -> Profiles:
        """The attributes that many hosts share."""
        return self._columns.profiles

    @property
    def name_hash(self) -> Floats:
        """(N,) from 0 to below 1, drawn from name and node: a fixed order unlike that of names."""
        return self._columns.name_hash[: len(self)]

    @property
    def num_instances(self) -> SmallInts:
        """(N,) instances on the host, held ones too."""
        return self._columns.num_instances[: len(self)]

    @property
    def num_io_ops(self) -> SmallInts:
        """(N,) instances being built on the host."""
        return self._columns.num_io_ops[: len(self)]

    @property
    def numa(self) -> NumaCells:
        """The NUMA cells of the hosts, and what is left of them."""
        return self._columns.numa

    @property
    def pci(self) -> PciDevices:
        """The PCI devices of the hosts, and what is left of them."""
        return self._columns.pci

    @property
    def metrics(self) -> Metrics:
        """What the hosts measure of themselves."""
        return self._columns.metrics

    @property
    def addresses(self) -> Addresses:
        """The IP addresses of the hosts."""
        return self._columns.addresses

    @property
    def attestations(self) -> Attestations:
        """What an attestation service says of the hosts."""
        return self._columns.attestations

    @property
    def has_cells(self) -> bool:
        """Whether any host has ever said that it is in a cell."""
        return self._columns.has_cells

    def in_cell(self, cell: str, rows: Selection) -> Mask:
        """Tell for each of the rows whether its host is in that cell."""
        return self._columns.in_cell(cell, rows, count_of(rows))
