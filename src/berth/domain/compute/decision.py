"""Decisions: what was chosen, or why nothing was, kept so that anybody can ask later."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Self

from berth.domain.errors import BerthError
from berth.domain.hardware.assignment import Assignment
from berth.domain.open_name import OpenName

ZONE_AWARE_DRIVER = "zone_aware"
"""What records of decisions over a tree of zones name as their driver; they name no placements.

Each zone keeps its own records of what it has chosen for its part.
"""


class Verdict(StrEnum):
    """How a decision ended."""

    PLACED = "placed"
    REFUSED = "refused"


class RefusalCode(OpenName):
    """Distinct reasons for a refusal, so that programs need not read the text."""

    NO_HOSTS = "no_hosts"
    """The fleet is empty, or the named destination does not exist."""
    ALL_FILTERED = "all_filtered"
    """Every host was removed by a filter."""
    NOT_ENOUGH = "not_enough"
    """Some of the instances found a host, not all."""
    CONTENTION = "contention"
    """Other schedulers took the room first, too often."""
    UNSUPPORTED_POLICY = "unsupported_policy"
    """The server group has a hard policy, and the filter that keeps it is not in force."""
    GROUP_POLICY = "group_policy"
    """Where it was to go, past the filters, the hard policy of its server group is broken."""


@dataclass(frozen=True, slots=True)
class FilterCount:
    """One step of the chain: hosts before and after, and some that it removed."""

    name: str
    before: int
    after: int
    removed_examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One single change that would have let the request fit, or two that would together.

    Two are told when no single one would do; `parts` has them. `hosts` counts hosts that pass
    every other rule. `change` is what to change and by how much,
    in the unit of `subject` when it is an amount.
    """

    filter: str
    subject: str
    text: str
    hosts: int
    change: int | None = None
    examples: tuple[str, ...] = ()
    parts: "tuple[Relaxation, ...]" = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no plan was made, in a form for people and programs."""

    code: RefusalCode
    message: str
    placed: int
    asked: int
    hosts_total: int
    filters: tuple[FilterCount, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()


@dataclass(frozen=True, slots=True)
class ScorePart:
    """What one weigher gave a host. `score` = multiplier x normalised."""

    weigher: str
    raw: float
    normalised: float
    multiplier: float

    @property
    def score(self) -> float:
        """The weigher's share of the host's score."""
        return self.multiplier * self.normalised


@dataclass(frozen=True, slots=True)
class ScoredHost:
    """A host with its score, part by part.

    The parts are kept as lists of equal length, one entry a weigher, since there are many of
    them and few are ever read.
    """

    host: str
    node: str
    score: float
    weighers: tuple[str, ...] = ()
    raw: tuple[float, ...] = ()
    normalised: tuple[float, ...] = ()
    multipliers: tuple[float, ...] = ()

    @property
    def parts(self) -> tuple[ScorePart, ...]:
        """What each weigher gave the host."""
        each = zip(self.weighers, self.raw, self.normalised, self.multipliers, strict=True)
        return tuple(ScorePart(*part) for part in each)

    @classmethod
    def of(cls, host: str, node: str, score: float, parts: Iterable[ScorePart]) -> Self:
        """Make a scored host of its parts."""
        given = tuple(parts)
        return cls(
            host,
            node,
            score,
            weighers=tuple(part.weigher for part in given),
            raw=tuple(part.raw for part in given),
            normalised=tuple(part.normalised for part in given),
            multipliers=tuple(part.multiplier for part in given),
        )


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The host that would have won without one of the weighers, and its score then."""

    weigher: str
    host: str
    node: str
    score: float


def counterfactuals(hosts: Sequence[ScoredHost]) -> tuple[Counterfactual, ...]:
    """Tell for each weigher which of some hosts would have the best score without it.

    What the other weighers give does not change, as each is put on its scale by itself. Equal
    scores are told apart by the hosts' names.

    Args:
        hosts: scored by the same weighers.
    """
    if not hosts:
        return ()
    found: list[Counterfactual] = []
    for index, weigher in enumerate(hosts[0].weighers):
        scores = [one.score - one.multipliers[index] * one.normalised[index] for one in hosts]
        ranked = sorted(zip(scores, hosts, strict=True), key=_best_first)
        score, best = ranked[0]
        found.append(Counterfactual(weigher, best.host, best.node, score))
    return tuple(found)


def _best_first(pair: tuple[float, ScoredHost]) -> tuple[float, str, str]:
    score, host = pair
    return round(-score, 9), host.host, host.node


@dataclass(frozen=True, slots=True)
class Placement:
    """The host chosen for one instance, with those that came next."""

    instance_uuid: str
    host: str
    node: str
    provider_uuid: str
    candidates: int
    chosen: ScoredHost
    runners_up: tuple[ScoredHost, ...] = ()
    alternates: tuple[tuple[str, str], ...] = ()
    """(host, node) pairs to try first, in order, should the build fail."""
    assignment: Assignment | None = None
    """What it gets there beyond the amounts of the decision."""


@dataclass(frozen=True, slots=True)
class ZoneCount:
    """How many instances of a request a zone has got: the deciding one itself, or a child of it.

    What a child has passed on to its own children counts as the child's.
    """

    zone: str
    instances: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The whole record of one decision.

    With the same table version, policy hash and seed, the same code makes the same choice.
    `duration_us` is the time that deciding took, in microseconds of wall time.
    """

    request_id: str
    verdict: Verdict
    policy_name: str
    policy_hash: str
    driver: str
    seed: int
    table_version: int
    decided_at_s: float
    duration_us: int
    project_id: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict[str, int])
    filters: tuple[FilterCount, ...] = ()
    placements: tuple[Placement, ...] = ()
    refusal: Refusal | None = None
    attempts: int = 1
    chosen_among: int = 1
    """How many of the best hosts each was chosen among, at random; 1 is the best alone."""
    zones: tuple[ZoneCount, ...] = ()
    """Who has got how many, when it was decided over a tree of zones; most first."""


@dataclass(frozen=True, slots=True)
class TriedDecision(Decision):
    """A decision that was only tried out, with what no record keeps."""

    counterfactuals: tuple[Counterfactual, ...] = ()
    """Who would have won without each of the weighers, of all hosts that the first instance could
    go to. None when it was refused, or the driver does not choose by the weighers."""

    @classmethod
    def of(cls, decision: Decision, found: tuple[Counterfactual, ...]) -> Self:
        """Make one of a decision."""
        kept = {one.name: getattr(decision, one.name) for one in fields(decision)}
        return cls(**kept, counterfactuals=found)


class NoValidHostError(BerthError):
    """No plan fits the request; the refusal says which rule, how many hosts, what would help."""

    def __init__(self, request_id: str, refusal: Refusal) -> None:
        super().__init__(f"request {request_id}: {refusal.message}")
        self.request_id = request_id
        self.refusal = refusal
