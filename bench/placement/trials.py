"""The cases: the requests that both sides get."""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.cases import PlacementCases
from bench.placement import scenes
from bench.placement.driving import Operation, claim, consumers, get, schedule
from bench.placement.scenes import Node, uuid_of

Make = Callable[[], Operation]


@dataclass(frozen=True, slots=True)
class Trial:
    """One case.

    Args:
        name: the name of the case in measures.
        begin: returns the function that starts operations; called once per side.
        clients: number of clients; one measures the cost of a request, several the throughput.
        peer_turns: number of the peer's turns; None for the number in the cases.
        has_peer: whether the peer is measured, too.
    """

    name: str
    begin: Callable[[], Make]
    clients: int = 1
    peer_turns: int | None = None
    has_peer: bool = True


@dataclass(frozen=True, slots=True)
class Scene:
    """A fleet, its cases, and the paths to which both sides must give equal answers."""

    name: str
    nodes: tuple[Node, ...]
    trials: tuple[Trial, ...]
    alike: tuple[str, ...]


def scenes_of(cases: PlacementCases) -> tuple[Scene, ...]:
    """Return the scenes that are measured on both sides."""
    return (
        *(_flat(size, cases) for size in cases.providers),
        _nested(cases),
        _wide(cases),
    )


def _flat(size: int, cases: PlacementCases) -> Scene:
    trials = [
        reading(f"candidates_{size}", scenes.candidates()),
        reading(f"narrowed_{size}", scenes.candidates(narrowed=True)),
    ]
    nodes = scenes.flat(size)
    if size == cases.claimed_at:
        trials += [
            reading(f"limit_10_{size}", scenes.candidates(10)),
            reading(f"providers_{size}", scenes.providers()),
            reading(f"providers_narrowed_{size}", scenes.providers(narrowed=True)),
            Trial("schedule", _scheduling, cases.clients),
            Trial("claims_spread", lambda: _claiming(nodes[1:], "spread"), cases.clients),
            Trial("claims_hot", lambda: _claiming(nodes[:1], "hot"), cases.clients),
        ]
    one = scenes.candidates(None, narrowed=True, in_tree=uuid_of("host-3"))
    return Scene(f"{size:,} hosts", nodes, tuple(trials), (one, scenes.providers(narrowed=True)))


def _nested(cases: PlacementCases) -> Scene:
    trials = (reading(f"nested_{cases.trees}", scenes.two_groups()),)
    one = scenes.two_groups(None, uuid_of("tree-3"))
    return Scene(f"{cases.trees:,} trees", scenes.nested(cases.trees), trials, (one,))


def _wide(cases: PlacementCases) -> Scene:
    asked = scenes.one_device_each(cases.groups)
    more = scenes.one_device_each(cases.groups_more)
    trials = (
        Trial(f"wide_{cases.groups}", lambda: lambda: get(asked), peer_turns=1),
        Trial(f"wide_{cases.groups_more}", lambda: lambda: get(more), has_peer=False),
    )
    return Scene("1 wide host", scenes.wide(), trials, (scenes.one_device_each(2, None),))


def reading(name: str, path: str) -> Trial:
    """Return the case of one client that repeats a GET."""
    return Trial(name, lambda: lambda: get(path))


def _scheduling() -> Make:
    path, fresh, rng = scenes.candidates(), consumers("scheduled"), random.Random(0)
    return lambda: schedule(path, next(fresh), rng)


def _claiming(nodes: Sequence[Node], prefix: str) -> Make:
    order = [node.uuid for node in nodes]
    random.Random(0).shuffle(order)
    endless, fresh = itertools.cycle(order), consumers(prefix)
    return lambda: claim(next(endless), next(fresh))
