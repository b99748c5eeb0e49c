"""Decisions: the hosts chosen for a request, or the reasons for a refusal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Self

from berth.domain.errors import BerthError
from berth.domain.hardware.assignment import Assignment
from berth.domain.open_name import OpenName

ZONE_AWARE_DRIVER = "zone_aware"
"""Driver name in decisions over a tree of zones. Such a decision has no placements: each zone keeps
its own decision for the instances that it received."""


NO_HOST = "No valid host was found."
GROUP_BROKEN = "The policy of the server group would be broken."
"""Summaries of refusals, for readers who may not learn the reasons."""


class Verdict(StrEnum):
    """Whether a decision placed all instances of a request or refused the request."""

    PLACED = "placed"
    REFUSED = "refused"


class RefusalCode(OpenName):
    """The machine-readable reason for a refusal."""

    NO_HOSTS = "no_hosts"
    """The fleet is empty, or the named destination does not exist."""
    ALL_FILTERED = "all_filtered"
    """The filters removed every host."""
    NOT_ENOUGH = "not_enough"
    """Only some of the instances found a host; a request is placed as a whole or not at all."""
    CONTENTION = "contention"
    """Other schedulers claimed the capacity first in every attempt."""
    UNSUPPORTED_POLICY = "unsupported_policy"
    """The server group has a hard policy whose filter is not enabled."""
    GROUP_POLICY = "group_policy"
    """The plan bypassed the filters (a forced host, say) and violates the group's hard policy."""


class RefusalDetail(StrEnum):
    """The part of the reasons for a refusal that tenants may read."""

    FULL = "full"
    """Numbers of hosts, names of rules, and the changes that would help."""
    RELAXATIONS = "relaxations"
    """Only the changes to the request that would help."""
    NOTHING = "nothing"
    """Only that no host was found, as in Nova."""


@dataclass(frozen=True, slots=True)
class FilterCount:
    """One filter of the chain: the numbers of hosts before and after it, and removed examples."""

    name: str
    before: int
    after: int
    removed_examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One change to the request that would have let it fit, or a pair of changes.

    A pair is reported only if no single change suffices; `parts` then contains both changes.
    `hosts` is the number of hosts that would then pass, or 0 if the change is to request fewer
    instances. `examples` are the names of some of these hosts. `change` is the amount to add to the
    request, in the unit of `subject`: it is negative to request less, and None if the change is not
    an amount. `text` is the change, followed by a colon and the number of hosts. If `text` has
    another form, `uncounted` must contain the change without numbers of hosts.
    """

    filter: str
    subject: str
    text: str
    hosts: int
    change: int | None = None
    examples: tuple[str, ...] = ()
    parts: "tuple[Relaxation, ...]" = ()
    uncounted: str = ""

    @property
    def what(self) -> str:
        """The text of the change, without the number of hosts that would pass."""
        if self.uncounted or not self.hosts:
            return self.uncounted or self.text
        return self.text.rpartition(": ")[0] or self.text


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reasons why a request has no plan, for people (`message`) and for programs.

    `placed` of the `asked` instances found a host; `hosts_total` is the size of the fleet.
    Readers who may not see the reasons get `summary`, a message without reasons, and `hints`, the
    changes that would help, without numbers of hosts. Refusals recorded by earlier versions have
    neither.
    """

    code: RefusalCode
    message: str
    placed: int
    asked: int
    hosts_total: int
    filters: tuple[FilterCount, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    summary: str = ""
    hints: str = ""

    def told(self, detail: RefusalDetail) -> str:
        """Return the part of the message that the given detail permits."""
        return told(self.message, self.summary or NO_HOST, self.hints, detail)


def told(message: str, summary: str, hints: str, detail: RefusalDetail) -> str:
    """Return a message, or its summary with or without hints, as the detail permits."""
    if detail is RefusalDetail.FULL:
        return message
    return f"{summary} {hints}" if hints and detail is RefusalDetail.RELAXATIONS else summary


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One weigher's contribution to the score of a host.

    `raw` is in the weigher's own unit, `normalised` is on the policy's scale, usually [0, 1], and
    `score` = `multiplier` * `normalised`.
    """

    weigher: str
    raw: float
    normalised: float
    multiplier: float

    @property
    def score(self) -> float:
        """The amount that the weigher adds to the score of the host."""
        return self.multiplier * self.normalised


@dataclass(frozen=True, slots=True)
class ScoredHost:
    """A host with its total score and the contribution of each weigher.

    The contributions are stored as parallel tuples with one entry per weigher: a decision has many
    scored hosts, of which few are ever read.
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
        """The contributions, one per weigher."""
        each = zip(self.weighers, self.raw, self.normalised, self.multipliers, strict=True)
        return tuple(ScorePart(*part) for part in each)

    @classmethod
    def of(cls, host: str, node: str, score: float, parts: Iterable[ScorePart]) -> Self:
        """Build a scored host from the contributions of its weighers."""
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
    """The host that would have won had one weigher been disabled, with its score in that case."""

    weigher: str
    host: str
    node: str
    score: float


def counterfactuals(hosts: Sequence[ScoredHost]) -> tuple[Counterfactual, ...]:
    """Return, for each weigher, the host that would have won without it.

    Removing a weigher does not change the values of the others, because each is normalised
    separately. Ties are broken by host name, then node name.

    Args:
        hosts: the hosts, all scored by the same weighers. If empty, the result is empty.
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
    # Rounding to 9 decimals treats scores that differ only by float error as equal.
    return round(-score, 9), host.host, host.node


@dataclass(frozen=True, slots=True)
class Placement:
    """The host chosen for one instance, with the runners-up.

    `candidates` counts the hosts that passed all filters for this instance.
    """

    instance_uuid: str
    host: str
    node: str
    provider_uuid: str
    candidates: int
    chosen: ScoredHost
    runners_up: tuple[ScoredHost, ...] = ()
    alternates: tuple[tuple[str, str], ...] = ()
    """(host, node) pairs to try in this order if the build fails."""
    assignment: Assignment | None = None
    """Hardware and child providers given to the instance in addition to the amounts on the root
    provider; None if there are none."""


@dataclass(frozen=True, slots=True)
class ZoneCount:
    """The number of a request's instances that the deciding zone or one of its children received.

    Instances that a child passed on to its own children are counted as the child's.
    """

    zone: str
    instances: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The complete record of one decision.

    The same code makes the same choice again, given the same table version, policy hash and seed.
    `decided_at_s` is Unix seconds; `duration_us` is the wall time of planning in microseconds.
    `attempts` counts the plans up to this one: when a claim is rejected, the scheduler plans again.
    `amounts` are the needs of one instance.
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
    """Number of best hosts from which each host was chosen at random; 1 means always the best."""
    zones: tuple[ZoneCount, ...] = ()
    """Instances by zone, in descending order of their number, if the request was decided over a
    tree of zones; otherwise empty.
    """


@dataclass(frozen=True, slots=True)
class TriedDecision(Decision):
    """A dry-run decision with explanations that are not stored."""

    counterfactuals: tuple[Counterfactual, ...] = ()
    """For each weigher, the host that would have won without it among all hosts that passed the
    filters for the first instance. Empty if the request was refused or the driver does not use
    weighers."""
    is_partial: bool = False
    """Whether the decision lacks hosts of child zones, because a child is down, did not answer or
    answered for only some of its hosts. A create may then find more room."""
    zones_missing: tuple[str, ...] = ()
    """The names of these child zones, for administrators."""

    @classmethod
    def of(cls, decision: Decision, found: tuple[Counterfactual, ...]) -> Self:
        """Build a dry-run decision from a decision and its counterfactuals."""
        kept = {one.name: getattr(decision, one.name) for one in fields(decision)}
        return cls(**kept, counterfactuals=found)


class NoValidHostError(BerthError):
    """No plan fits the request; the refusal says why, and may list possible remedies.

    Args:
        request_id: the request.
        refusal: the reasons.
    """

    def __init__(self, request_id: str, refusal: Refusal) -> None:
        super().__init__(f"request {request_id}: {refusal.message}")
        self.request_id = request_id
        self.refusal = refusal
