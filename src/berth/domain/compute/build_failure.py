"""Counts of the failed builds on a host, by cause and tenant, which decay with time.

A host on which many builds fail should receive no new instances, but one tenant with a broken image
must not make hosts look bad for all others (docs/adr/0021-failed-builds-and-alternates.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.errors import BerthError
from berth.domain.open_name import OpenName

TENANTS_MAX: Final = 16
"""Maximum number of tenants that a host counts separately; the others share one count per cause."""

HALF_LIFE_S: Final = 3600.0
"""Default half-life of a count in seconds (`agent.build_failure_half_life_s`)."""

FORGOTTEN: Final = 0.05
"""A count that has decayed below this value is dropped."""


class FailureCause(OpenName):
    """The cause of a failed build."""

    IMAGE = "image"
    """The image cannot be fetched or converted."""
    CLAIM = "claim"
    """The host cannot provide the hardware that the claim assigned to the instance."""
    DRIVER = "driver"
    """The hypervisor or its tools failed, or the cause is unknown."""
    NETWORK = "network"
    """A remote service could not be reached."""
    TIMEOUT = "timeout"
    """The build exceeded its time limit."""
    GUEST = "guest"
    """The request is at fault: no host can build it."""

    @property
    def blames_host(self) -> bool:
        """Whether a build that fails for this cause counts against the host."""
        return self not in _NOT_THE_HOST


# Neither an assignment that does not fit nor a request that no host can build says anything about
# the health of the host.
_NOT_THE_HOST: Final = frozenset({FailureCause.CLAIM, FailureCause.GUEST})
# Either the host or the tenant may be at fault, so failures of one tenant alone prove nothing.
_DOUBTFUL: Final = frozenset({FailureCause.IMAGE})


@dataclass(frozen=True, slots=True)
class FailureCount:
    """The decaying number of failed builds of one tenant on a host, for one cause.

    `level` is the count right after the newest failure, that failure included; `at_s` is the time
    of that failure in Unix seconds. `project_id` is None for the tenants that are counted together.
    """

    project_id: str | None
    cause: FailureCause
    level: float
    at_s: float

    def level_at(self, now_s: float, half_life_s: float) -> float:
        """Return the count, decayed until `now_s`.

        Args:
            now_s: Unix seconds.
            half_life_s: seconds in which the count halves.
        """
        # The clocks of hosts differ slightly, and a failure in the future must not increase the
        # count.
        age_s = max(0.0, now_s - self.at_s)
        left: float = self.level * 2.0 ** -(age_s / half_life_s)
        return left


def with_failure(
    counts: Iterable[FailureCount],
    project_id: str,
    cause: FailureCause,
    *,
    now_s: float,
    half_life_s: float,
) -> tuple[FailureCount, ...]:
    """Return the counts of a host after one more failed build.

    If the host then counts more than `TENANTS_MAX` tenants separately, the one whose last failure
    is the oldest is merged into the shared count.

    Args:
        counts: the counts before.
        project_id: the tenant whose build failed.
        cause: the cause of the failure.
        now_s: Unix seconds.
        half_life_s: seconds in which a count halves.

    Returns:
        The counts, sorted by tenant and cause, without those that have decayed below `FORGOTTEN`.
    """
    kept = {
        (one.project_id, one.cause): one for one in without_forgotten(counts, now_s, half_life_s)
    }
    _add(kept, FailureCount(project_id, cause, 1.0, now_s), half_life_s)
    tenants = {one: 0.0 for one, _ in kept if one is not None}
    for one in kept.values():
        if one.project_id is not None:
            tenants[one.project_id] = max(tenants[one.project_id], one.at_s)
    # The tenant whose build has just failed is the newest, so it is never merged.
    tenants.pop(project_id, None)
    if len(tenants) >= TENANTS_MAX:
        # Ties are broken by project id, so every process merges the same tenant.
        oldest = min(tenants, key=lambda tenant: (tenants[tenant], tenant))
        for key in [key for key in kept if key[0] == oldest]:
            _add(kept, replace(kept.pop(key), project_id=None), half_life_s)
    # The order is fixed so that equal counts make equal records, which cause no write.
    return tuple(kept[key] for key in sorted(kept, key=lambda key: (key[0] or "", key[1])))


def _add(
    kept: dict[tuple[str | None, FailureCause], FailureCount],
    more: FailureCount,
    half_life_s: float,
) -> None:
    key = (more.project_id, more.cause)
    old = kept.get(key)
    if old is None:
        kept[key] = more
        return
    at_s = max(old.at_s, more.at_s)
    level = old.level_at(at_s, half_life_s) + more.level_at(at_s, half_life_s)
    kept[key] = replace(more, level=level, at_s=at_s)


def without_forgotten(
    counts: Iterable[FailureCount], now_s: float, half_life_s: float
) -> tuple[FailureCount, ...]:
    """Return the counts without those that have decayed below `FORGOTTEN`.

    Args:
        counts: the counts of a host.
        now_s: Unix seconds.
        half_life_s: seconds in which a count halves.
    """
    return tuple(one for one in counts if one.level_at(now_s, half_life_s) >= FORGOTTEN)


def failure_level(counts: Sequence[FailureCount], now_s: float, half_life_s: float) -> float:
    """Return the failure level of a host: how strongly its failed builds count against it.

    Each tenant adds at most 1 for each cause, however often it retries. Causes that do not blame
    the host add nothing. For `IMAGE`, where host or tenant may be at fault, the tenant with the
    highest count is left out, so one tenant alone adds nothing.

    Args:
        counts: the counts of the host.
        now_s: Unix seconds.
        half_life_s: seconds in which a count halves.

    Returns:
        A number of at least 0, rounded to thousandths; 0 without failures.
    """
    votes: dict[FailureCause, list[float]] = {}
    for one in counts:
        if one.cause.blames_host:
            votes.setdefault(one.cause, []).append(min(1.0, one.level_at(now_s, half_life_s)))
    total = 0.0
    for cause, each in votes.items():
        total += sum(each) - (max(each) if cause in _DOUBTFUL else 0.0)
    return round(total, 3)


class BuildError(BerthError):
    """The driver of a host could not start an instance.

    Args:
        reason: the description of the failure, for operators.
        blames_host: whether the failure counts against the host; False if the request is at
            fault.
        cause: the cause; None if the driver does not know it, which means `DRIVER`, or `GUEST` if
            `blames_host` is False. A cause that never blames the host overrides `blames_host`.
    """

    def __init__(
        self, reason: str, *, blames_host: bool = True, cause: FailureCause | None = None
    ) -> None:
        super().__init__(reason)
        self.cause = cause or (FailureCause.DRIVER if blames_host else FailureCause.GUEST)
        self.blames_host = blames_host and self.cause.blames_host
