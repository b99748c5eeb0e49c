"""Failed builds of a host: by cause and by tenant, each fading with time.

A host where builds fail is to be left by everybody, and a tenant whose image is broken must not
make hosts look bad for all the others (docs/adr/0021-failed-builds-and-alternates.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.errors import BerthError
from berth.domain.open_name import OpenName

TENANTS_MAX: Final = 16
"""Tenants of which a host keeps failures apart; those of all further ones are counted together."""

HALF_LIFE_S: Final = 3600.0
"""In this time a count falls to half, unless the settings of the agent say otherwise."""

FORGOTTEN: Final = 0.05
"""A count that has faded to less than this is forgotten."""


class FailureCause(OpenName):
    """Why a build failed, as the driver of the host saw it."""

    IMAGE = "image"
    """The image cannot be had, or nothing can be made of it."""
    CLAIM = "claim"
    """The host has no room for it after all, or may not have it."""
    DRIVER = "driver"
    """The hypervisor, or whatever else makes guests; also whatever is not known better."""
    NETWORK = "network"
    """Something could not be reached that is elsewhere."""
    TIMEOUT = "timeout"
    """It took too long."""
    GUEST = "guest"
    """What was asked cannot be built, on any host."""

    @property
    def blames_host(self) -> bool:
        """It may be the host's fault, so it counts as a failed build of the host."""
        return self not in _NOT_THE_HOST


_NOT_THE_HOST: Final = frozenset({FailureCause.CLAIM, FailureCause.GUEST})
_DOUBTFUL: Final = frozenset({FailureCause.IMAGE})
"""The host's fault or the tenant's: one tenant alone proves nothing about the host."""


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often builds of one tenant have failed on a host, for one cause.

    `level` is what the count had faded to when the newest failed, that one included; `at_s` is
    when that was, in Unix seconds. `project_id` is None for all tenants that are not kept apart.
    """

    project_id: str | None
    cause: FailureCause
    level: float
    at_s: float

    def level_at(self, now_s: float, half_life_s: float) -> float:
        """Return what is left of the count."""
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
    """Count one more failed build.

    Args:
        counts: of the host.
        project_id: whose build it was.
        cause: why it failed.
        now_s: Unix seconds.
        half_life_s: seconds in which a count falls to half.

    Returns:
        The counts, by tenant and cause; those that are forgotten by now are left out.
    """
    kept = {(one.project_id, one.cause): one for one in faded(counts, now_s, half_life_s)}
    _add(kept, FailureCount(project_id, cause, 1.0, now_s), half_life_s)
    tenants = {one: 0.0 for one, _ in kept if one is not None}
    for one in kept.values():
        if one.project_id is not None:
            tenants[one.project_id] = max(tenants[one.project_id], one.at_s)
    tenants.pop(project_id, None)
    if len(tenants) >= TENANTS_MAX:
        oldest = min(tenants, key=lambda tenant: (tenants[tenant], tenant))
        for key in [key for key in kept if key[0] == oldest]:
            _add(kept, replace(kept.pop(key), project_id=None), half_life_s)
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


def faded(
    counts: Iterable[FailureCount], now_s: float, half_life_s: float
) -> tuple[FailureCount, ...]:
    """Leave out counts that are forgotten by now."""
    return tuple(one for one in counts if one.level_at(now_s, half_life_s) >= FORGOTTEN)


def failure_level(counts: Sequence[FailureCount], now_s: float, half_life_s: float) -> float:
    """Return how much all that failed says against the host; 0 for a host in good order.

    Each tenant counts at most once for each cause, however often it tries. What is the request's
    own fault counts nothing. Where the cause may be either's, the tenant with the most is left
    out: only what others have seen, too, is the host's.

    Returns:
        At least 0, in thousandths.
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
        reason: what went wrong, for operators.
        blames_host: it counts as a failed build of the host, which schedulers then avoid; False
            when the host is in order and only may not have the instance (a group's policy).
        cause: why it failed; None where the driver does not know: its own fault, or the
            request's with `blames_host` False. Some causes blame no host, whatever that says.
    """

    def __init__(
        self, reason: str, *, blames_host: bool = True, cause: FailureCause | None = None
    ) -> None:
        super().__init__(reason)
        self.cause = cause or (FailureCause.DRIVER if blames_host else FailureCause.GUEST)
        self.blames_host = blames_host and self.cause.blames_host
