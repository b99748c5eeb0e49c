"""Cases: what to measure, as data (`cases.toml`)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

_FILE = Path(__file__).with_name("cases.toml")


@dataclass(frozen=True, slots=True)
class DecisionCases:
    """Decisions on a table in memory, at several fleet sizes.

    From `loaded_once_from` hosts on the table is loaded once, however many `fresh_samples` are
    asked for. `batch_instances` are what the peer is asked for, too; `more_instances` are not.
    """

    hosts: tuple[int, ...]
    loaded_once_from: int
    fresh_samples: int
    cold_samples: int
    warm_samples: int
    batch_samples: int
    batch_instances: int
    more_instances: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCases:
    """Blocks of so many warm `decisions`, with the kernel and without in so many `turns`."""

    hosts: int
    turns: int
    decisions: int


@dataclass(frozen=True, slots=True)
class GroupedCases:
    """A soft anti-affinity group with members, and aggregates of which one has a multiplier."""

    hosts: int
    samples: int
    members: int
    aggregates: int
    aggregates_a_host: int


@dataclass(frozen=True, slots=True)
class PinnedCases:
    """Pinned guests on hosts with NUMA cells, on both sides.

    Berth and Nova take so many `turns`; the samples are those of each of Berth's.
    """

    hosts: int
    turns: int
    keep_samples: int
    warm_samples: int


@dataclass(frozen=True, slots=True)
class MemoryCases:
    """Bytes a host; `kinds` are how many kinds of requests are kept to weigh one."""

    hosts: int
    kinds: int


@dataclass(frozen=True, slots=True)
class PeerCases:
    """Nova's scheduler, at those sizes of the decisions that are not above `hosts_max`.

    It takes so many `turns` with Berth, which makes `decisions` warm decisions in each of its own.
    """

    hosts_max: int
    turns: int
    decisions: int
    batch_estimate: bool


@dataclass(frozen=True, slots=True)
class LibraryCases:
    """Durable placements and commits through the library; counts are of one round."""

    hosts: int
    in_flight: int
    rounds: int
    placements: int
    commits: int
    flushes: int


@dataclass(frozen=True, slots=True)
class SchedulerCases:
    """Several scheduler processes; `placements` is of one run where contention is low."""

    hosts: tuple[int, ...]
    hot_hosts: int
    schedulers: tuple[int, ...]
    placements: int
    in_flight: int
    subset: int


@dataclass(frozen=True, slots=True)
class AgentCases:
    """Agents of a fleet that report to one scheduler; `_s` are seconds.

    `instances` are there before the windows, and `churn_per_s` are created and deleted in them.
    """

    hosts: int
    instances: int
    sources: tuple[str, ...]
    sync_interval_s: float
    window_s: float
    churn_per_s: float


@dataclass(frozen=True, slots=True)
class ZoneCases:
    """Trees of zones: one of a root and `zones` below it, and a chain of `depth` further levels.

    `hosts` are those of each zone where one instance is selected, `plan_hosts` where
    `plan_instances` are. `seals` is how many offers are sealed for one sample. Plans of `policies`
    are compared with those of one scheduler.
    """

    zones: int
    hosts: int
    selects: int
    plan_hosts: int
    plan_instances: int
    plans: int
    depth: int
    seals: int
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HttpCases:
    """Server creates over HTTP on a fleet of fake hosts; `_s` are seconds of load."""

    hosts: int
    clients: int
    rounds: int
    round_s: float
    warm_up_s: float


@dataclass(frozen=True, slots=True)
class PackingCases:
    """Fleets filled by ready policies; seeds are of the order and of the draws.

    `openb_thorough` are the policies that get `openb_seeds_thorough` seeds, as First-Fit and
    Best-Fit do when they are named. For the first `openb_sized` seeds the least number of hosts
    is looked for, too. The generator draws a workload of `generator_requests` for a fleet of
    `generator_hosts` from each of its seeds.
    """

    policies: tuple[str, ...]
    openb_seeds: int
    openb_seeds_thorough: int
    openb_thorough: tuple[str, ...]
    openb_first_seed: int
    openb_sized: int
    generator_hosts: int
    generator_requests: int
    generator_seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlacementCases:
    """The Placement API beside the real Placement; `_s` are seconds of one turn.

    `providers` are sizes of flat fleets, in one of which, `claimed_at`, all but candidates is
    measured, too. One provider is asked for in fleets of `sizes`; in the one of `weighed_at`,
    there are `standing` allocations of each provider.
    """

    providers: tuple[int, ...]
    claimed_at: int
    trees: int
    groups: int
    groups_more: int
    turns: int
    berth_s: float
    real_s: float
    clients: int
    load_s: float
    sizes: tuple[int, ...]
    weighed_at: int
    standing: int


@dataclass(frozen=True, slots=True)
class Cases:
    """All that one run measures."""

    decisions: DecisionCases
    peer: PeerCases
    kernel: KernelCases
    grouped: GroupedCases
    pinned: PinnedCases
    memory: MemoryCases
    library: LibraryCases
    schedulers: SchedulerCases
    agents: AgentCases
    zones: ZoneCases
    http: HttpCases
    packing: PackingCases
    placement: PlacementCases


def load_cases(*, quick: bool) -> Cases:
    """Read the full cases, or the quick ones, which say only what is different."""
    document = tomllib.loads(_FILE.read_text("utf-8"))
    full: Mapping[str, Mapping[str, object]] = document["full"]
    other: Mapping[str, Mapping[str, object]] = document["quick"] if quick else {}
    merged = {name: {**table, **other.get(name, {})} for name, table in full.items()}
    return msgspec.convert(merged, Cases)
