"""Cases: sizes and counts of the measurements (`cases.toml`)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

_FILE = Path(__file__).with_name("cases.toml")


@dataclass(frozen=True, slots=True)
class DecisionCases:
    """Decisions on a table in memory, at several fleet sizes.

    From `loaded_once_from` hosts on, the table is loaded only once instead of `fresh_samples`
    times. `batch_instances` is also measured with Nova, `more_instances` are not.
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
    """Blocks of `decisions` warm decisions, in `turns` turns with and without the kernel."""

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

    Berth and Nova take `turns` turns; the samples are counted per turn of Berth.
    """

    hosts: int
    turns: int
    keep_samples: int
    warm_samples: int


@dataclass(frozen=True, slots=True)
class MemoryCases:
    """Memory per host and instance.

    `kinds` is how many kinds of requests are cached to measure one.
    """

    hosts: int
    kinds: int
    instances: int


@dataclass(frozen=True, slots=True)
class PeerCases:
    """Nova's scheduler, at the sizes of `DecisionCases` up to `hosts_max`.

    Nova takes `turns` turns with Berth, which makes `decisions` warm decisions per turn.
    """

    hosts_max: int
    turns: int
    decisions: int
    batch_estimate: bool


@dataclass(frozen=True, slots=True)
class LibraryCases:
    """Durable placements and commits through the library; counts are per round."""

    hosts: int
    in_flight: int
    rounds: int
    placements: int
    commits: int
    flushes: int


@dataclass(frozen=True, slots=True)
class SharedLibraryCases:
    """Placements through the library from several processes; `placements` are those of a turn.

    `processes` includes 1. Each process has `in_flight` requests in flight.
    """

    hosts: tuple[int, ...]
    processes: tuple[int, ...]
    in_flight: int
    turns: int
    placements: int


@dataclass(frozen=True, slots=True)
class SchedulerCases:
    """Several scheduler processes; `placements` counts those of a turn with low contention."""

    hosts: tuple[int, ...]
    hot_hosts: int
    schedulers: tuple[int, ...]
    turns: int
    placements: int
    in_flight: int
    subset: int


@dataclass(frozen=True, slots=True)
class AgentCases:
    """Agents of a fleet that report to one scheduler; `_s` are seconds.

    `instances` exist before the windows; `churn_per_s` are created and deleted per second in them.
    """

    hosts: int
    instances: int
    sources: tuple[str, ...]
    sync_interval_s: float
    window_s: float
    churn_per_s: float


@dataclass(frozen=True, slots=True)
class HostCases:
    """Agents of several numbers of hosts at one control plane, with TLS (True) and without.

    Idle windows last `window_s` seconds. They begin `settle_s` seconds after the last host has
    registered: PostgreSQL counts the transactions of an idle connection up to 10 s late, and the
    first report of a host, at which the gateway audits it, comes within 60 s. The cost of a
    heartbeat is measured with `beats_per_s`.
    `pushes` are commits whose arrival at an agent is timed, `restarts` says whether the control
    plane is restarted, and `builds` are built on as many hosts.
    """

    hosts: tuple[int, ...]
    tls: tuple[bool, ...]
    settle_s: float
    window_s: float
    beats_per_s: float
    pushes: int
    restarts: bool
    builds: int


@dataclass(frozen=True, slots=True)
class ZoneCases:
    """Trees of zones: one of a root and `zones` below it, and a chain of `depth` further levels.

    Each zone has `hosts` hosts for selects of one instance, and `plan_hosts` for selects of
    `plan_instances`. `seals` is how many offers are sealed for one sample. Plans of `policies` are
    compared with those of one scheduler.
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
    """Fleets filled by ready policies; a seed determines the order and the random draws.

    The policies in `openb_thorough`, which may name First-Fit and Best-Fit, get
    `openb_seeds_thorough` seeds. For the first `openb_sized` seeds the least sufficient number of
    hosts is also searched. The generator draws a workload of `generator_requests` for a fleet of
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
    """Berth's Placement API and OpenStack Placement; `_s` are seconds of one turn.

    `providers` are the sizes of flat fleets; claims and lists are also measured in the one of
    `claimed_at`. Requests about one provider are measured in fleets of `sizes`; in the one of
    `weighed_at`, each provider has `standing` allocations.
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
    """The cases of one run."""

    decisions: DecisionCases
    peer: PeerCases
    kernel: KernelCases
    grouped: GroupedCases
    pinned: PinnedCases
    memory: MemoryCases
    library: LibraryCases
    shared_library: SharedLibraryCases
    schedulers: SchedulerCases
    agents: AgentCases
    hosts: HostCases
    zones: ZoneCases
    http: HttpCases
    packing: PackingCases
    placement: PlacementCases


def load_cases(*, quick: bool) -> Cases:
    """Return the full cases, with the differences of the quick ones if `quick`."""
    document = tomllib.loads(_FILE.read_text("utf-8"))
    full: Mapping[str, Mapping[str, object]] = document["full"]
    other: Mapping[str, Mapping[str, object]] = document["quick"] if quick else {}
    merged = {name: {**table, **other.get(name, {})} for name, table in full.items()}
    return msgspec.convert(merged, Cases)
