"""Strategies for fleets with aggregate metadata, and for requests that such metadata affects.

Hypothesis alone rarely draws matching pairs, so a single drawn seed generates all metadata of a
fleet. Failing examples therefore do not shrink well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from berth.domain.compute.aggregate import AZ_KEY, Aggregate
from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.domain.ledger.change import Snapshot
from berth.testing.fleet_strategies import requests, snapshots

# Most keys also have values that their reader must ignore or that match nothing.
_METADATA: Mapping[str, Sequence[str]] = {
    AZ_KEY: ("az1", "az2, az1"),
    "cpu_allocation_ratio": ("0.5", "2", "0", "many"),
    "ram_allocation_ratio": ("1.5", "0.1", "-1"),
    "disk_allocation_ratio": ("1e1", "0.7", "nan"),
    "max_io_ops_per_host": ("0", "2", "none"),
    "max_instances_per_host": ("1", "3", "1.5", "inf"),
    "ssd": ("true", "true, 7", " 3 "),
    "filter_tenant_id": ("p1", "p2, p1", ""),
    "filter_tenant_id_too": ("p2",),
    "instance_type": ("f", "g , f", "g", ""),
    "os_type": ("linux", "windows, bsd"),
    "hw_architecture": ("arm64, ppc", "linux", ""),
}

_AGGREGATES_MAX = 4
_KEYS_MAX = 6
_SEEDS = st.integers(0, 2**32)


def tagged_snapshots(*, least: int = 0) -> st.SearchStrategy[Snapshot]:
    """Draw a small fleet of at least `least` hosts, in aggregates with much metadata."""
    return st.builds(_tagged, snapshots(least=least), _SEEDS)


def tagged_requests() -> st.SearchStrategy[Request]:
    """Draw a request that the aggregates of `tagged_snapshots` may affect."""
    return st.builds(_tagged_request, requests(named=False), _SEEDS)


def _tagged(snapshot: Snapshot, seed: int) -> Snapshot:
    rng = Random(seed)  # noqa: S311 - drawn by hypothesis, and no secret
    keys = list(_METADATA)
    aggregates = [
        Aggregate(
            number,
            f"agg-{number}",
            f"agg-{number}",
            frozenset(host.name for host in snapshot.hosts if rng.choice((True, False))),
            {
                key: rng.choice(_METADATA[key])
                for key in rng.sample(keys, rng.randint(0, _KEYS_MAX))
            },
        )
        for number in range(rng.randint(0, _AGGREGATES_MAX))
    ]
    return replace(snapshot, aggregates=tuple(aggregates))


def _tagged_request(request: Request, seed: int) -> Request:
    rng = Random(seed)  # noqa: S311 - drawn by hypothesis, and no secret
    keys = ("ssd", "aggregate_instance_extra_specs:ssd", "hw:ssd")
    specs = ("true", "= 5", "<or> 3 <or> linux", ">= many", "<in> ru", "s!= x", "s!= 3")
    values = ("linux", "bsd", "arm64", "")
    properties = {key: rng.choice(values) for key in ("os_type", "hw_architecture", "os_distro")}
    flavor = replace(
        request.flavor,
        name=rng.choice(("f", "g", "h")),
        extra_specs={key: rng.choice(specs) for key in rng.sample(keys, rng.choice((0, 1, 1, 2)))},
    )
    return replace(
        request,
        flavor=flavor,
        image=rng.choice((None, *[Image("i", properties=properties)] * 3)),
        project_id=rng.choice(("", "p1", "p2", "p3")),
    )
