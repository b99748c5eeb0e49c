"""Parity: whether Berth and Nova choose the same hosts with the weighers that both have."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from bench.desk import Desk
from bench.fleet import request, snapshot
from bench.peer import PeerReport, PeerSize, PeerWeigher
from berth.config.plugins import WEIGHERS, build_plugin, plugin_names
from berth.config.policy_file import parse_policy, read_policy_text
from berth.domain.compute.decision import Decision, ScoredHost
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.rules.rule import Weigher

_TOLERANCE = 1e-9
"""The tolerance for sums of floats, which depend on the order in the last bits."""


@dataclass(frozen=True, slots=True)
class Parity:
    """The comparison at one fleet size.

    `same_order` compares the best hosts for one instance, `same_weights` their weights, and
    `same_batch` the hosts of the first `batch_compared` instances of one request.
    """

    hosts: int
    same_order: bool
    same_weights: bool
    same_batch: bool
    batch_compared: int
    order: tuple[str, ...]


def missing_weighers(peer: PeerReport) -> tuple[str, ...]:
    """Return the names of Nova's weighers that have a multiplier and that Berth lacks."""
    mine = plugin_names(WEIGHERS)
    return tuple(one.name for one in peer.weighers if one.multiplier and one.name not in mine)


def compare(peer: PeerReport) -> tuple[Parity, ...]:
    """Return the comparison at each size that was measured with Nova."""
    compared = len(peer.results[0].order) if peer.results else 0
    policy = policy_like(peer.weighers, shown=compared)
    return tuple(_compare_size(size, policy) for size in peer.results)


def policy_like(weighers: Sequence[PeerWeigher], *, shown: int) -> Policy:
    """Return the policy `nova` with those of Nova's weighers that Berth has, in Nova's order."""
    known = plugin_names(WEIGHERS)
    text, _, _ = read_policy_text(Path("nova")).partition("[[weighers]]")
    text = text.replace("runners_up = 3", f"runners_up = {shown - 1}")
    policy = parse_policy(text, "parity.toml")
    shared = tuple(_weigher(one) for one in weighers if one.name in known)
    return replace(policy, weighers=shared)


def _weigher(peer: PeerWeigher) -> Weigher:
    built = build_plugin(WEIGHERS, peer.name, {}, _is_weigher, where="parity.toml")
    # Nova reports the effective multiplier, which may differ from its option.
    return replace(built, multiplier=float(peer.multiplier))


def _is_weigher(built: object) -> TypeGuard[Weigher]:
    return isinstance(built, Weigher)


def _compare_size(size: PeerSize, policy: Policy) -> Parity:
    desk = Desk(snapshot(size.hosts), policy)
    best = best_of(desk.decide(request("parity"))[0])
    placed = size.batch.hosts
    many, _ = desk.decide(request("parity-batch", size.batch.instances))
    hosts = tuple(one.host for one in many.placements[: len(placed)])
    weights = zip((one.score for one in best), (one.weight for one in size.order), strict=True)
    return Parity(
        hosts=size.hosts,
        same_order=[one.host for one in best] == [one.host for one in size.order],
        same_weights=all(math.isclose(a, b, abs_tol=_TOLERANCE) for a, b in weights),
        same_batch=hosts == placed,
        batch_compared=len(placed),
        order=tuple(one.host for one in best),
    )


def best_of(decision: Decision) -> tuple[ScoredHost, ...]:
    """Return the chosen host of the first instance and its runners-up, best first."""
    placement = decision.placements[0]
    return (placement.chosen, *placement.runners_up)
