"""Generates a workload from a seed: a mixed fleet, and requests like those of a public cloud.

The distributions are those that Azure has published (Protean, OSDI 2020; Cortez et al., SOSP
2017): 94 % of requests are for one instance and 99 % for at most five, more than 80 % have the
flavor of the previous request, most instances live for minutes and some for months, and there are
more requests by day than by night.

A trace has two parts. In the *opening* the standing load arrives: instances that live for months.
The *days* follow, with mostly short-lived instances. The standing load is as large as needed for
the trace to request, on average over the days, the share `load` of the fleet's vCPUs.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from berth.domain.errors import InvalidInputError
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload

GPU = "CUSTOM_GPU"
"""The resource class of a host's GPUs; an instance may request some of them."""

_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S

# The opening takes at most this long and at most this share of the trace, so it hardly affects
# averages over the days.
_OPENING_S_MAX = 2 * _HOUR_S
_OPENING_SHARE_MAX = 0.1

# The standing load has at most this share of the requests, because most instances must live for
# minutes.
_STANDING_SHARE_MAX = 1 / 3

# Instances after the opening make up at most this share of the load; their lifetimes are shortened
# if they would make up more.
_CHURN_SHARE_MAX = 0.5

# A note reports a load that is lower than the requested one by more than this.
_LOAD_TOLERANCE = 0.01

# The rate of requests is the daily mean times 1 + `_SWING` at the peak, and times 1 - `_SWING`
# twelve hours later.
_PEAK_HOUR = 15.0
_SWING = 0.6

# The shares of instance counts, repeated flavors and lifetimes follow the papers named above.
_SAME_AS_LAST = 0.85
_PINNED_SHARE = 0.4
_ZONES = ("az1", "az2", "az3")
_ZONE_POPULARITY = (0.36, 0.33, 0.31)
_ONE_SHARE = 0.94
_FEW_SHARE = 0.99
_FEW = (2, 3, 4, 5)
_MANY = (6, 8, 10)
_MINUTES_SHARE = 0.83
_HOURS_SHARE = 0.15
_MONTHS_DAYS = (30.0, 180.0)


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """The size of a generated workload; equal settings give equal workloads.

    Args:
        hosts: the number of hosts.
        requests: the number of requests, each for one instance or a few.
        seed: the seed of all random choices.
        days: the length of the trace in days, from midnight.
        load: the mean share of the fleet's vCPUs requested after the opening, above 0. Refused
            requests are included, so a load above 1 is more than the fleet can take.
    """

    hosts: int = 200
    requests: int = 2000
    seed: int = 1
    days: float = 2.0
    load: float = 0.9

    def __post_init__(self) -> None:
        """Reject a size, length or load that is not finite or not above 0.

        Raises:
            InvalidInputError: a setting is not finite or not above 0; the error names it.
        """
        for name in ("hosts", "requests", "days", "load"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidInputError(name, f"must be finite and above 0, not {value}")

    @property
    def end_s(self) -> float:
        """The length of the trace, in seconds."""
        return self.days * _DAY_S

    @property
    def opening_s(self) -> float:
        """The length of the opening, in seconds."""
        return min(_OPENING_S_MAX, _OPENING_SHARE_MAX * self.end_s)


def generate(settings: GeneratorSettings | None = None) -> Workload:
    """Return the workload that `settings` describe; the defaults are those of the demo."""
    settings = settings or GeneratorSettings()
    hosts = tuple(_host(index) for index in range(settings.hosts))
    fleet_vcpus = sum(host.amounts["VCPU"] for host in hosts)
    drawn = _draw(_rng(settings, "requests"), settings.requests)
    plan = _balance(drawn, settings, settings.load * fleet_vcpus)
    arrivals = _arrivals(_rng(settings, "times"), drawn, settings, plan)
    return Workload(
        name=f"generated-{settings.hosts}x{settings.requests}-seed{settings.seed}",
        hosts=hosts,
        flavors={flavor.name: _copy(flavor) for flavor, _ in _FLAVORS},
        arrivals=arrivals,
        notes=_notes(plan, plan.vcpus / fleet_vcpus, settings),
    )


def _rng(settings: GeneratorSettings, purpose: str) -> Random:
    # Each purpose has its own generator, so a change of one kind of draw leaves others unchanged.
    return Random(f"berth-{purpose}-{settings.seed}")  # noqa: S311 - a trace is not secret


# --- the fleet -----------------------------------------------------------------------------


def _shape(
    vcpus: int, gb_per_vcpu: int, *traits: str, gpus: int = 0
) -> tuple[dict[str, int], tuple[str, ...]]:
    amounts = {
        "VCPU": vcpus,
        "MEMORY_MB": vcpus * gb_per_vcpu * 1024,
        "DISK_GB": vcpus * 60,
    }
    if gpus:
        amounts[GPU] = gpus
    return amounts, traits


_SHAPES = {
    "a": _shape(32, 4, "CUSTOM_GENERATION_1"),
    "b": _shape(64, 8, "CUSTOM_GENERATION_2"),
    "c": _shape(96, 4, "CUSTOM_GENERATION_3"),
    "d": _shape(128, 8, "CUSTOM_GENERATION_3", "CUSTOM_LOCAL_NVME"),
    "e": _shape(64, 8, "CUSTOM_GENERATION_2", "CUSTOM_GPU_HOST", gpus=4),
}
# The shapes of consecutive hosts, in a cycle. Its length, 20, has no common divisor with the number
# of availability zones, 3, so each zone gets every shape.
_SHAPE_ORDER = "abacabadabacabecabaa"


def _host(index: int) -> FleetHost:
    amounts, traits = _SHAPES[_SHAPE_ORDER[index % len(_SHAPE_ORDER)]]
    return FleetHost(f"host-{index:05d}", dict(amounts), traits, _ZONES[index % len(_ZONES)])


def _flavor(name: str, memory_gb: int, disk_gb: int, **extra_specs: str) -> FlavorSpec:
    return FlavorSpec(name, int(name.rpartition("-")[2]), memory_gb * 1024, disk_gb, extra_specs)


def _copy(flavor: FlavorSpec) -> FlavorSpec:
    """Return a copy with its own extra specs, so that a caller cannot change later workloads."""
    return replace(flavor, extra_specs=dict(flavor.extra_specs))


# Each flavor and its popularity, in percent of the requests that change the flavor.
_FLAVORS = (
    (_flavor("general-8", 32, 80), 22),
    (_flavor("general-16", 64, 160), 24),
    (_flavor("general-32", 128, 320), 14),
    (_flavor("general-4", 16, 40), 8),
    (_flavor("compute-8", 16, 80), 8),
    (_flavor("memory-16", 128, 160), 6),
    (_flavor("general-2", 8, 20), 4),
    (_flavor("compute-16", 32, 160), 4),
    (_flavor("compute-4", 8, 40), 3),
    (_flavor("memory-8", 64, 80), 3),
    (_flavor("storage-16", 64, 960, **{"trait:CUSTOM_LOCAL_NVME": "required"}), 3),
    (_flavor("gpu-8", 64, 160, **{f"resources:{GPU}": "1"}), 1),
)


# --- the requests --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request without a time; its lifetime is `standing_s` in the opening, else `churn_s`."""

    flavor: FlavorSpec
    count: int
    availability_zone: str | None
    standing_s: float
    churn_s: float

    @property
    def vcpus(self) -> int:
        return self.flavor.vcpus * self.count


def _draw(rng: Random, requests: int) -> list[_Ask]:
    flavors = _draw_flavors(rng, requests)
    counts = _draw_counts(rng, requests)
    return [
        _Ask(flavor, count, _draw_zone(rng), _draw_months_s(rng), _draw_churn_s(rng))
        for flavor, count in zip(flavors, counts, strict=True)
    ]


def _draw_flavors(rng: Random, requests: int) -> list[FlavorSpec]:
    """Return the flavors of all requests; most requests have the flavor of the one before."""
    flavors, popularity = zip(*_FLAVORS, strict=True)
    walk: list[FlavorSpec] = []
    for _ in range(requests):
        if walk and rng.random() < _SAME_AS_LAST:
            walk.append(walk[-1])
        else:
            walk += rng.choices(flavors, popularity)
    return walk


def _draw_counts(rng: Random, requests: int) -> list[int]:
    """Return instance counts in exact shares: 94 % or more are 1, and 99 % or more at most 5."""
    many = requests - math.ceil(requests * _FEW_SHARE)
    few = requests - math.ceil(requests * _ONE_SHARE) - many
    counts = [1] * (requests - few - many) + rng.choices(_FEW, k=few) + rng.choices(_MANY, k=many)
    rng.shuffle(counts)
    return counts


def _draw_zone(rng: Random) -> str | None:
    if rng.random() >= _PINNED_SHARE:
        return None
    return rng.choices(_ZONES, _ZONE_POPULARITY)[0]


def _draw_months_s(rng: Random) -> float:
    return rng.uniform(*_MONTHS_DAYS) * _DAY_S


def _draw_churn_s(rng: Random) -> float:
    """Return a lifetime after the opening, in seconds: minutes, hours, or months for a few."""
    kind = rng.random()
    if kind < _MINUTES_SHARE:
        return rng.lognormvariate(math.log(12 * 60.0), 0.8)
    if kind < _MINUTES_SHARE + _HOURS_SHARE:
        return rng.lognormvariate(math.log(6 * _HOUR_S), 0.6)
    return _draw_months_s(rng)


# --- the standing load ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """The balance of a trace.

    Attributes:
        standing: the number of requests in the opening.
        stretch: the factor, at most 1, on the drawn lifetimes of all other requests.
        vcpus: the number of vCPUs that are requested on average after the opening.
    """

    standing: int
    stretch: float
    vcpus: float


def _balance(asks: Sequence[_Ask], settings: GeneratorSettings, wanted_vcpus: float) -> _Plan:
    """Return the balance with the smallest opening that lets the trace request `wanted_vcpus`.

    If no permitted opening does, it is the balance with the largest one.
    """
    window_s = settings.end_s - settings.opening_s

    def churn_vcpus(stretch: float) -> float:
        return sum(ask.vcpus * _presence(ask.churn_s * stretch, window_s) for ask in asks)

    # Lifetimes are shortened before the opening is sized, so that short-lived instances never crowd
    # out the standing load.
    stretch = _largest_below(churn_vcpus, _CHURN_SHARE_MAX * wanted_vcpus)
    vcpus = churn_vcpus(stretch)
    standing_max = int(len(asks) * _STANDING_SHARE_MAX)
    for standing, ask in enumerate(asks[:standing_max]):
        if vcpus >= wanted_vcpus:
            return _Plan(standing, stretch, vcpus)
        churned = _presence(ask.churn_s * stretch, window_s)
        vcpus += ask.vcpus * (min(1.0, ask.standing_s / window_s) - churned)
    return _Plan(standing_max, stretch, vcpus)


def _presence(lifetime_s: float, window_s: float) -> float:
    """Return the mean share of a window that a lifetime covers, with a uniform start in it."""
    lived_s = min(lifetime_s, window_s)
    return (lived_s - lived_s * lived_s / (2 * window_s)) / window_s


def _largest_below(rising: Callable[[float], float], limit: float) -> float:
    """Return the largest factor up to 1 that keeps a rising function at or below a limit."""
    if rising(1.0) <= limit:
        return 1.0
    low, high = 0.0, 1.0
    # Twenty bisections give the factor to six digits, which is finer than lifetimes need.
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) <= limit else (low, middle)
    return low


# --- the times -----------------------------------------------------------------------------


def _arrivals(
    rng: Random, asks: Sequence[_Ask], settings: GeneratorSettings, plan: _Plan
) -> tuple[Arrival, ...]:
    opening_s = sorted(rng.uniform(0, settings.opening_s) for _ in range(plan.standing))
    days_s = sorted(_draw_day_night_s(rng, settings) for _ in range(len(asks) - plan.standing))
    digits = len(str(len(asks)))
    return tuple(
        Arrival(
            at_s=round(at_s, 3),
            name=f"request-{index:0{digits}d}",
            flavor=ask.flavor.name,
            count=ask.count,
            lifetime_s=round(_lifetime_s(ask, plan, standing=index < plan.standing), 3),
            availability_zone=ask.availability_zone,
        )
        for index, (ask, at_s) in enumerate(
            zip(asks, itertools.chain(opening_s, days_s), strict=True)
        )
    )


def _lifetime_s(ask: _Ask, plan: _Plan, *, standing: bool) -> float:
    return ask.standing_s if standing else ask.churn_s * plan.stretch


def _draw_day_night_s(rng: Random, settings: GeneratorSettings) -> float:
    """Return a time after the opening, in seconds, more likely by day than by night."""
    # The time is drawn by rejection sampling. Independent draws with this density are a Poisson
    # process of varying rate with a given number of events.
    while True:
        at_s = rng.uniform(settings.opening_s, settings.end_s)
        phase = 2 * math.pi * (at_s / _HOUR_S - _PEAK_HOUR) / 24
        if rng.random() * (1 + _SWING) <= 1 + _SWING * math.cos(phase):
            return at_s


def _notes(plan: _Plan, load: float, settings: GeneratorSettings) -> tuple[str, ...]:
    """Return notes about the trace, and about its differences from the settings."""
    moved_in = (
        f"The first {plan.standing:,} of {settings.requests:,} requests are standing load that "
        f"arrives within {settings.opening_s / 60:.0f} minutes and stays for months. After "
        f"that, instances request {load:.0%} of the fleet's vCPUs on average."
    )
    notes = [moved_in]
    if plan.stretch < 1:
        notes.append(
            f"With the drawn lifetimes the requests would overfill the fleet, so those after the "
            f"opening live {plan.stretch:.3g} times as long."
        )
    if load < settings.load - _LOAD_TOLERANCE:
        notes.append(
            f"There are too few requests for a load of {settings.load:.0%}: as most of them are "
            f"short-lived, about {settings.requests * settings.load / load:,.0f} are needed."
        )
    return tuple(notes)
