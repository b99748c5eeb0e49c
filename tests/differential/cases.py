"""Cases: a fleet, a request, options, and rules, alone and combined."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from berth.domain.compute.request import Request
from berth.domain.ledger.change import Snapshot
from tests.differential.drawing import Draw
from tests.differential.fleets import draw_snapshot
from tests.differential.requests import draw_request
from tests.differential.rules import (
    FILTERS,
    OPTIONS,
    WEIGHERS,
    Pair,
    Settings,
    installed_filters,
    installed_weighers,
)


@dataclass(frozen=True)
class Case:
    """One question to both sides.

    Args:
        name: the seed and the number that it was drawn from.
        snapshot: the fleet; hosts are referred to by their index in it.
        request: the request.
        settings: a value for each of Nova's options.
        filters, weighers: the rules that are asked one by one.
        weighed: the indices of the hosts that the weighers are asked about.
        order: the filters and weighers that are combined.
    """

    name: str
    snapshot: Snapshot
    request: Request
    settings: Settings
    filters: tuple[Pair, ...]
    weighers: tuple[Pair, ...]
    weighed: tuple[int, ...]
    order: tuple[tuple[Pair, ...], tuple[Pair, ...]]

    @property
    def served(self) -> tuple[int, ...]:
        """The hosts that have a compute service; Nova does not know any others."""
        names = {service.host for service in self.snapshot.services}
        hosts = enumerate(self.snapshot.hosts)
        return tuple(index for index, host in hosts if host.name in names)


def draw_case(seed: int, number: int) -> Case:
    """Draw a case; equal arguments give equal cases."""
    draw = Draw(seed, number)
    hardware = draw.seldom(3)
    snapshot = draw_snapshot(draw, hardware=hardware and not draw.seldom(20))
    request = draw_request(draw, snapshot, hardware=hardware and not draw.seldom(10))
    filters = [pair for pair in FILTERS if pair.name in installed_filters()]
    weighers = [pair for pair in WEIGHERS if pair.name in installed_weighers()]
    few = draw.seldom(10)
    case = Case(
        name=f"{seed}/{number}",
        snapshot=snapshot,
        request=request,
        settings={name: draw.of(option.values) for name, option in OPTIONS.items()},
        filters=tuple(filters),
        weighers=tuple(weighers),
        weighed=(),
        # Weighers are combined only if each was asked alone about all hosts.
        order=(_some(draw, filters, all_in=20), () if few else _some(draw, weighers, all_in=4)),
    )
    weighed = draw.some(case.served, 2) if few else draw.shuffled(case.served)
    return replace(case, weighed=tuple(weighed))


def _some(draw: Draw, pairs: Sequence[Pair], *, all_in: int) -> tuple[Pair, ...]:
    """Draw a few rules in any order, or all of them in one of `all_in` cases."""
    return tuple(draw.shuffled(pairs) if draw.seldom(all_in) else draw.some(pairs, 4))
