"""Why a host has not the devices that are asked for, and what would make it do."""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.hardware.device_fit import DeviceDemand
from berth.scheduling.hardware.device_masks import sources_of, usable_devices
from berth.scheduling.rules.rule import count_hosts, example_names, without
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable


def why_no_devices(hosts: HostTable, demands: Sequence[DeviceDemand], row: int) -> str:
    """Say what a row lacks, in words for an operator."""
    here = np.array([row])
    reasons: list[str] = []
    for source in sources_of(hosts, demands):
        free, demand = int(usable_devices(hosts, source, here)[0]), source.demand
        if free < demand.count:
            reasons.append(f"{demand.alias}: {demand.count:,} asked, {free:,} free")
    names = ", ".join(sorted({demand.alias for demand in demands}))
    return "; ".join(reasons) or f"its devices are not enough for all of {names} at once"


def relax_devices(
    filter_name: str, hosts: HostTable, demands: Sequence[DeviceDemand], rows: Rows
) -> list[Relaxation]:
    """Return the single changes to what is asked that let some of the rows pass."""
    sources = sources_of(hosts, demands)
    free = [usable_devices(hosts, source, rows) for source in sources]
    short = np.sum([one < s.demand.count for one, s in zip(free, sources, strict=True)], axis=0)
    found: list[Relaxation] = []
    for count, source in zip(free, sources, strict=True):
        demand = source.demand
        alone = (count < demand.count) & (short == 1)
        some = alone & (count > 0)
        if some.any():
            most = int(count[some].max())
            winners = rows[some & (count == most)]
            less = demand.count - most
            noun = "device" if less == 1 else "devices"
            found.append(
                Relaxation(
                    filter=filter_name,
                    subject=demand.alias,
                    text=f"{less:,} fewer {noun} of {demand.alias}: {count_hosts(winners.size)}",
                    hosts=int(winners.size),
                    change=-less,
                    examples=example_names(hosts, winners),
                )
            )
        what = f"the devices of {demand.alias}"
        found += without(filter_name, demand.alias, what, hosts, rows[alone & (count == 0)])
    return found
